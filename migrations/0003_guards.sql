-- Why: what the code promises about states, money and the audit log must hold for every writer, by hand included.
--
-- Each refusal is SQLSTATE 45000 (error 1644) and names the flow and the rule. Triggers can't refuse TRUNCATE, DROP or
-- ALTER: the run-time account has no right to any of them (docs/grants.sql). The service compares these triggers with
-- this file at start and refuses to run if one is missing or altered.
--
-- Times inside triggers are UTC_TIMESTAMP: a session that writes by hand may have another time zone.

-- A row is born in WAIT_PAY, at version 0, with nothing decided yet (refund and end are tied to the state by checks).
-- Row, request key and first audit line commit together. A key that is taken fails the whole INSERT, in one wording on
-- every server and without the key itself in it.
CREATE TRIGGER flow_after_insert AFTER INSERT ON internal_pay_flow FOR EACH ROW
BEGIN
  IF NEW.status <> 'WAIT_PAY' OR NEW.version + NEW.ev_version + NEW.retry_count <> 0
    OR COALESCE(NEW.cancel_requested_at, NEW.hold_since, NEW.paid_at) IS NOT NULL
    OR COALESCE(NEW.wallet_pay_txn, NEW.wallet_refund_txn) IS NOT NULL
  THEN
    BEGIN
      DECLARE refusal VARCHAR(128) CHARACTER SET ascii DEFAULT
        CONCAT('flow ', NEW.id, ': a row is created in WAIT_PAY at version 0, without cancel, hold or payment');
      SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = refusal;
    END;
  END IF;
  BEGIN
    DECLARE EXIT HANDLER FOR 1062
      SIGNAL SQLSTATE '23000'
        SET MYSQL_ERRNO = 1062, MESSAGE_TEXT = 'Duplicate entry for key pay_request_key.PRIMARY';
    INSERT INTO pay_request_key (caller_id, idempotency_key, fingerprint, flow_id, created_at)
    VALUES (NEW.caller_id, NEW.idempotency_key, NEW.request_fingerprint, NEW.id, NEW.created_at);
  END;
  INSERT INTO pay_flow_event
    (flow_id, version, kind, from_status, to_status, ev_trigger, action, outcome, error_code, request_id, latency_ms,
     trace_id, actor, created_at)
  VALUES
    (NEW.id, 0, 'CREATED', NULL, NEW.status, NEW.ev_trigger, NEW.ev_action, NEW.ev_outcome, NEW.last_error_code,
     NEW.ev_request_id, NEW.ev_latency_ms, NEW.ev_trace_id, NEW.ev_actor, NEW.created_at);
END;

-- The first condition is the one that the service's own writes meet, and all that they pay for: a server sets up every
-- term of every condition anew for each row. What fails it is looked at closely, and refused or completed.
--
-- Frozen columns are compared as one text. Identifiers hold no blanks, so that the text tells where each one ends, and
-- a blank put at an end, which a comparison of the column alone would ignore, shows.
CREATE TRIGGER flow_before_update BEFORE UPDATE ON internal_pay_flow FOR EACH ROW
BEGIN
  DECLARE frozen BOOLEAN DEFAULT
    CONCAT_WS(' ', NEW.id, NEW.user_id, NEW.scene, NEW.biz_key, NEW.attempt_no, NEW.trade_order_no, NEW.refund_order_no,
      NEW.amount, NEW.currency, NEW.biz_deadline_time, NEW.wallet_name, NEW.business_name, NEW.caller_id,
      NEW.idempotency_key, NEW.request_fingerprint, NEW.created_at, '.')
    = CONCAT_WS(' ', OLD.id, OLD.user_id, OLD.scene, OLD.biz_key, OLD.attempt_no, OLD.trade_order_no, OLD.refund_order_no,
      OLD.amount, OLD.currency, OLD.biz_deadline_time, OLD.wallet_name, OLD.business_name, OLD.caller_id,
      OLD.idempotency_key, OLD.request_fingerprint, OLD.created_at, '.')
    AND NEW.biz_context <=> OLD.biz_context AND LENGTH(NEW.biz_context) <=> LENGTH(OLD.biz_context);

  IF (frozen AND NEW.version = OLD.version + 1 AND NEW.ev_version = NEW.version
    AND NEW.cancel_requested_at <=> OLD.cancel_requested_at AND NEW.cancel_requested_by <=> OLD.cancel_requested_by
    AND (OLD.refund_reason IS NULL OR CONCAT_WS(' ', NEW.refund_reason, NEW.refund_source, '.')
      = CONCAT_WS(' ', OLD.refund_reason, OLD.refund_source, '.'))
    AND FIND_IN_SET(CONCAT(OLD.status, '>', NEW.status),
      'WAIT_PAY>WAIT_PAY,WAIT_PAY>PAYING,PAYING>PAYING,PAYING>PAY_FAIL,PAYING>PAYED,PAYED>PAYED,PAYED>BIZ_SUCCESS,PAYED>REFUNDING,REFUNDING>REFUNDING,REFUNDING>REFUNDED')) IS NOT TRUE
  THEN
    BEGIN
      DECLARE refusal VARCHAR(128) CHARACTER SET ascii DEFAULT NULL;
      IF OLD.status IN ('PAY_FAIL', 'BIZ_SUCCESS', 'REFUNDED') THEN
        SET refusal = CONCAT('flow ', OLD.id, ': ', OLD.status, ' is terminal: the row is never written again');
      ELSEIF (NEW.version IN (OLD.version, OLD.version + 1)) IS NOT TRUE THEN
        SET refusal = CONCAT('flow ', OLD.id, ': version ', COALESCE(NEW.version, 'NULL'), ' does not follow ',
          OLD.version);
      ELSEIF NEW.status <> OLD.status AND (OLD.status, NEW.status) NOT IN (
        ('WAIT_PAY', 'PAYING'), ('PAYING', 'PAY_FAIL'), ('PAYING', 'PAYED'), ('PAYED', 'BIZ_SUCCESS'),
        ('PAYED', 'REFUNDING'), ('REFUNDING', 'REFUNDED'))
      THEN
        SET refusal = CONCAT('flow ', OLD.id, ': ', OLD.status, ' -> ', NEW.status, ' is not one of the six edges');
      ELSEIF NOT frozen THEN
        SET refusal = CONCAT('flow ', OLD.id,
          ': identity, money, deadline, names, context, caller and creation are frozen');
      ELSEIF OLD.refund_amount IS NOT NULL AND NOT (NEW.refund_amount <=> OLD.refund_amount
        AND CONCAT_WS(' ', NEW.refund_reason, NEW.refund_source, '.')
          = CONCAT_WS(' ', OLD.refund_reason, OLD.refund_source, '.'))
      THEN
        SET refusal = CONCAT('flow ', OLD.id, ': the terms of a decided refund are frozen');
      ELSEIF NOT (NEW.cancel_requested_at <=> OLD.cancel_requested_at
        AND NEW.cancel_requested_by <=> OLD.cancel_requested_by)
        AND (NEW.cancel_requested_at IS NULL OR OLD.status NOT IN ('WAIT_PAY', 'PAYING') OR NEW.status <> OLD.status)
      THEN
        SET refusal = CONCAT('flow ', OLD.id,
          ': a cancel is recorded in WAIT_PAY or PAYING alone, and never taken back');
      ELSEIF NEW.version = OLD.version AND NEW.status = OLD.status
        AND NEW.next_retry_time = OLD.next_retry_time AND NEW.retry_count = OLD.retry_count
        AND NEW.last_error_code <=> OLD.last_error_code AND NEW.channel_request_id <=> OLD.channel_request_id
        AND NEW.cancel_requested_at <=> OLD.cancel_requested_at
        AND NEW.cancel_requested_by <=> OLD.cancel_requested_by
        AND NEW.hold_reason <=> OLD.hold_reason AND NEW.hold_since <=> OLD.hold_since AND NEW.hold_by <=> OLD.hold_by
        AND NEW.wallet_pay_txn <=> OLD.wallet_pay_txn AND NEW.wallet_refund_txn <=> OLD.wallet_refund_txn
        AND NEW.paid_at <=> OLD.paid_at
      THEN
        SET refusal = CONCAT('flow ', OLD.id, ': ', OLD.status, ' -> ', NEW.status,
          ' is no edge, and nothing else that may change does');
      END IF;
      IF refusal IS NOT NULL THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = refusal;
      END IF;

      -- A write that brings no evidence of its own was made by hand: it gets the next version, the times and
      -- the refund terms that belong to an edge, and its author's name.
      IF NEW.version = OLD.version OR NOT (NEW.ev_version <=> NEW.version) THEN
        SET NEW.version = OLD.version + 1, NEW.ev_version = OLD.version + 1, NEW.update_time = UTC_TIMESTAMP(3),
          NEW.ev_trigger = 'BY_HAND', NEW.ev_action = NULL, NEW.ev_outcome = NULL, NEW.ev_request_id = NULL,
          NEW.ev_latency_ms = NULL, NEW.ev_trace_id = NULL, NEW.ev_actor = LEFT(CONVERT(USER() USING ascii), 64);
        IF NEW.status <> OLD.status THEN
          SET NEW.state_entered_at = NEW.update_time;
          IF NEW.status = 'PAYED' THEN
            SET NEW.paid_at = COALESCE(NEW.paid_at, NEW.update_time);
          ELSEIF NEW.status = 'REFUNDING' THEN
            SET NEW.refund_amount = COALESCE(NEW.refund_amount, NEW.amount),
              NEW.refund_reason = COALESCE(NEW.refund_reason, 'BY_HAND'),
              NEW.refund_source = COALESCE(NEW.refund_source, 'OPERATOR');
          ELSEIF NEW.status IN ('PAY_FAIL', 'BIZ_SUCCESS', 'REFUNDED') THEN
            SET NEW.finished_at = COALESCE(NEW.finished_at, NEW.update_time);
          END IF;
        END IF;
      END IF;
    END;
  END IF;
END;

CREATE TRIGGER flow_after_update AFTER UPDATE ON internal_pay_flow FOR EACH ROW
BEGIN
  INSERT INTO pay_flow_event
    (flow_id, version, kind, from_status, to_status, ev_trigger, action, outcome, error_code, request_id, latency_ms,
     trace_id, actor, created_at)
  VALUES
    (NEW.id, NEW.version,
     CASE
       WHEN NEW.status <> OLD.status THEN 'STATE'
       WHEN NEW.hold_reason IS NULL AND OLD.hold_reason IS NOT NULL THEN 'RELEASE'
       WHEN NOT (NEW.hold_reason <=> OLD.hold_reason AND NEW.hold_since <=> OLD.hold_since) THEN 'HOLD'
       WHEN NOT (NEW.cancel_requested_at <=> OLD.cancel_requested_at) THEN 'CANCEL'
       ELSE 'RESCHEDULE'
     END,
     OLD.status, NEW.status, NEW.ev_trigger, NEW.ev_action, NEW.ev_outcome, NEW.last_error_code, NEW.ev_request_id,
     NEW.ev_latency_ms, NEW.ev_trace_id, NEW.ev_actor, NEW.update_time);
END;

CREATE TRIGGER flow_before_delete BEFORE DELETE ON internal_pay_flow FOR EACH ROW
BEGIN
  DECLARE refusal VARCHAR(128) CHARACTER SET ascii;
  SET refusal = CONCAT('flow ', OLD.id, ': a flow is never deleted');
  SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = refusal;
END;

CREATE TRIGGER event_before_update BEFORE UPDATE ON pay_flow_event FOR EACH ROW
BEGIN
  DECLARE refusal VARCHAR(128) CHARACTER SET ascii;
  SET refusal = CONCAT('flow ', OLD.flow_id, ': line ', OLD.version, ' of the event log is never changed');
  SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = refusal;
END;

CREATE TRIGGER event_before_delete BEFORE DELETE ON pay_flow_event FOR EACH ROW
BEGIN
  DECLARE refusal VARCHAR(128) CHARACTER SET ascii;
  SET refusal = CONCAT('flow ', OLD.flow_id, ': line ', OLD.version, ' of the event log is never deleted');
  SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = refusal;
END;

CREATE TRIGGER request_key_before_update BEFORE UPDATE ON pay_request_key FOR EACH ROW
BEGIN
  DECLARE refusal VARCHAR(128) CHARACTER SET ascii;
  SET refusal = CONCAT('flow ', OLD.flow_id, ': a request key stands for its flow for ever');
  SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = refusal;
END;

CREATE TRIGGER request_key_before_delete BEFORE DELETE ON pay_request_key FOR EACH ROW
BEGIN
  DECLARE refusal VARCHAR(128) CHARACTER SET ascii;
  SET refusal = CONCAT('flow ', OLD.flow_id, ': a request key is never forgotten');
  SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = refusal;
END;

-- A block handed out twice would make two flows of one id, and so of one order number.
CREATE TRIGGER id_block_before_update BEFORE UPDATE ON flow_id_block FOR EACH ROW
BEGIN
  IF NEW.id <> OLD.id OR NEW.next_id <= OLD.next_id THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'flow_id_block: next_id only grows';
  END IF;
END;

CREATE TRIGGER id_block_before_delete BEFORE DELETE ON flow_id_block FOR EACH ROW
BEGIN
  SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'flow_id_block: the row is never deleted';
END;
