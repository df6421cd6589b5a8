-- Why: a calling application is told that its payment ended, was held or was released, exactly when that is so.
--
-- The row that says "tell it" is written by a trigger on the flow, inside the very statement that changes the flow: there
-- is no moment at which one of them is committed without the other, whoever writes, one by one, in batches or by hand.
-- A trigger of its own, because replacing the audit trigger would leave a moment without audit. Both servers run triggers
-- of one event in the order of their creation.

-- The applications that want to be told, kept here by the services from their configuration at every start: the trigger
-- must know them. The rest (address, secrets) stays in the configuration.
CREATE TABLE pay_notify_caller (
  caller_id   VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  is_enabled  TINYINT     NOT NULL,
  update_time DATETIME(3) NOT NULL,
  PRIMARY KEY (caller_id),
  CONSTRAINT ck_notify_caller_enabled CHECK (is_enabled IN (0, 1))
) ENGINE = InnoDB DEFAULT CHARACTER SET = utf8mb4 COLLATE = utf8mb4_bin;

-- One row per change to be told of; flow and version are its identity, and the event id that receivers see.
CREATE TABLE pay_outbox (
  flow_id           BIGINT      NOT NULL,
  version           BIGINT      NOT NULL,
  caller_id         VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  change_kind       VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  flow_status       VARCHAR(24) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  created_at        DATETIME(3) NOT NULL,
  delivery          VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  -- While a scanner is sending it: the moment from which others may take it.
  next_attempt_time DATETIME(3) NOT NULL,
  -- All attempts, and those since it was last asked for by a person: the schedule counts the latter.
  attempts          INT         NOT NULL DEFAULT 0,
  tries             INT         NOT NULL DEFAULT 0,
  claim_token       CHAR(36)    CHARACTER SET ascii COLLATE ascii_bin NULL,
  -- The last attempt; a trigger copies it into pay_outbox_attempt.
  last_answer       VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NULL,
  last_http_status  SMALLINT    NULL,
  last_latency_ms   INT UNSIGNED NULL,
  last_attempt_at   DATETIME(3) NULL,
  delivered_at      DATETIME(3) NULL,
  resent_at         DATETIME(3) NULL,
  resent_by         VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL,
  PRIMARY KEY (flow_id, version),
  -- What is due for one receiver: a dead one's backlog is in nobody's way.
  KEY idx_outbox_due (caller_id, delivery, next_attempt_time),
  -- Lists by outcome, and what the metrics count, from the index alone.
  KEY idx_outbox_delivery (delivery, flow_id, version, caller_id, created_at),
  CONSTRAINT ck_outbox_delivery CHECK (delivery IN ('PENDING', 'DELIVERED', 'DEAD') AND delivery NOT LIKE '% '),
  CONSTRAINT ck_outbox_kind CHECK (change_kind IN ('ENDED', 'HELD', 'RELEASED') AND change_kind NOT LIKE '% '),
  CONSTRAINT ck_outbox_counts CHECK (attempts >= 0 AND tries >= 0 AND tries <= attempts),
  CONSTRAINT ck_outbox_resent CHECK ((resent_at IS NULL) = (resent_by IS NULL))
) ENGINE = InnoDB DEFAULT CHARACTER SET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE pay_outbox_attempt (
  flow_id      BIGINT      NOT NULL,
  version      BIGINT      NOT NULL,
  attempt_no   INT         NOT NULL,
  attempted_at DATETIME(3) NOT NULL,
  answer       VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  http_status  SMALLINT    NULL,
  latency_ms   INT UNSIGNED NOT NULL,
  PRIMARY KEY (flow_id, version, attempt_no)
) ENGINE = InnoDB DEFAULT CHARACTER SET = utf8mb4 COLLATE = utf8mb4_bin;

-- A terminal row is never written again: that it has ended means that this very write ended it. Of every other write,
-- the condition alone is paid for; of an ending, a look into a table of a few rows.
CREATE TRIGGER flow_after_update_outbox AFTER UPDATE ON internal_pay_flow FOR EACH ROW
BEGIN
  IF NEW.finished_at IS NOT NULL
    OR NOT (NEW.hold_since <=> OLD.hold_since AND NEW.hold_reason <=> OLD.hold_reason)
  THEN
    IF (SELECT is_enabled FROM pay_notify_caller WHERE caller_id = NEW.caller_id) = 1 THEN
      INSERT INTO pay_outbox
        (flow_id, version, caller_id, change_kind, flow_status, created_at, delivery, next_attempt_time)
      VALUES
        (NEW.id, NEW.version, NEW.caller_id,
         CASE
           WHEN NEW.finished_at IS NOT NULL THEN 'ENDED'
           WHEN NEW.hold_reason IS NULL THEN 'RELEASED'
           ELSE 'HELD'
         END,
         NEW.status, NEW.update_time, 'PENDING', UTC_TIMESTAMP(3));
    END IF;
  END IF;
END;

CREATE TRIGGER outbox_before_update BEFORE UPDATE ON pay_outbox FOR EACH ROW
BEGIN
  IF CONCAT_WS(' ', NEW.flow_id, NEW.version, NEW.caller_id, NEW.change_kind, NEW.flow_status, NEW.created_at, '.')
    <> CONCAT_WS(' ', OLD.flow_id, OLD.version, OLD.caller_id, OLD.change_kind, OLD.flow_status, OLD.created_at, '.')
    OR NEW.attempts NOT IN (OLD.attempts, OLD.attempts + 1)
  THEN
    BEGIN
      DECLARE refusal VARCHAR(128) CHARACTER SET ascii;
      SET refusal = CONCAT('notification ', OLD.flow_id, '/', OLD.version,
        ': what it tells of is frozen, and attempts are counted one by one');
      SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = refusal;
    END;
  END IF;
END;

-- Row and log line of an attempt commit together.
CREATE TRIGGER outbox_after_update AFTER UPDATE ON pay_outbox FOR EACH ROW
BEGIN
  IF NEW.attempts > OLD.attempts THEN
    INSERT INTO pay_outbox_attempt (flow_id, version, attempt_no, attempted_at, answer, http_status, latency_ms)
    VALUES (NEW.flow_id, NEW.version, NEW.attempts, NEW.last_attempt_at, NEW.last_answer, NEW.last_http_status,
      NEW.last_latency_ms);
  END IF;
END;

-- What was delivered may be cleared away by an administrator; what was not is owed.
CREATE TRIGGER outbox_before_delete BEFORE DELETE ON pay_outbox FOR EACH ROW
BEGIN
  IF OLD.delivery <> 'DELIVERED' THEN
    BEGIN
      DECLARE refusal VARCHAR(128) CHARACTER SET ascii;
      SET refusal = CONCAT('notification ', OLD.flow_id, '/', OLD.version, ': is ', OLD.delivery,
        ', and only a delivered one may be deleted');
      SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = refusal;
    END;
  END IF;
END;

CREATE TRIGGER outbox_attempt_before_update BEFORE UPDATE ON pay_outbox_attempt FOR EACH ROW
BEGIN
  DECLARE refusal VARCHAR(128) CHARACTER SET ascii;
  SET refusal = CONCAT('notification ', OLD.flow_id, '/', OLD.version, ': attempt ', OLD.attempt_no,
    ' is never changed');
  SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = refusal;
END;
