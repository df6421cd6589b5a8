-- Why: a difference between our records, the wallet's bill and the business system is found once, owned by somebody, and
-- explained for ever; and a day that was not compared is seen to be missing.
--
-- Nothing here is ever written into a payment. A ticket's identity is channel and order number: comparing a day again
-- updates the ticket that is there. Times are UTC.

-- Flows by their end: what ended since a day began, and what is open, are all that a day can be about. An entry per flow,
-- moved once in its life.
ALTER TABLE internal_pay_flow ADD KEY idx_flow_finished (finished_at);

CREATE TABLE recon_batch (
  id          BIGINT       NOT NULL AUTO_INCREMENT,
  channel     VARCHAR(32)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  business_day DATE        NOT NULL,
  state       VARCHAR(16)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  parts       INT          NOT NULL,
  reason      VARCHAR(500) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  created_at  DATETIME(3)  NOT NULL,
  started_at  DATETIME(3)  NULL,
  finished_at DATETIME(3)  NULL,
  PRIMARY KEY (id),
  UNIQUE KEY uk_recon_batch (channel, business_day),
  KEY idx_recon_batch_day (business_day, channel),
  CONSTRAINT ck_recon_batch_state CHECK (
    state IN ('PENDING', 'RUNNING', 'DONE', 'FAILED') AND state NOT LIKE '% '),
  CONSTRAINT ck_recon_batch_parts CHECK (parts BETWEEN 1 AND 256)
) ENGINE = InnoDB DEFAULT CHARACTER SET = utf8mb4 COLLATE = utf8mb4_bin;

-- What one process compares: the whole day, or the orders whose number's hash falls to it. While it works, nobody else
-- may: until claim_until, which it keeps moving ahead.
CREATE TABLE recon_batch_part (
  batch_id    BIGINT       NOT NULL,
  parts       INT          NOT NULL,
  part        INT          NOT NULL,
  state       VARCHAR(16)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  runs        BIGINT       NOT NULL DEFAULT 0,
  claim_token CHAR(36)     CHARACTER SET ascii COLLATE ascii_bin NULL,
  claim_until DATETIME(3)  NULL,
  started_at  DATETIME(3)  NULL,
  finished_at DATETIME(3)  NULL,
  reason      VARCHAR(500) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  tally       TEXT         CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  bill_sha256 CHAR(64)     CHARACTER SET ascii COLLATE ascii_bin NULL,
  bill_bytes  BIGINT       NULL,
  bill_source VARCHAR(500) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  PRIMARY KEY (batch_id, parts, part),
  CONSTRAINT ck_recon_part_state CHECK (
    state IN ('PENDING', 'RUNNING', 'DONE', 'FAILED') AND state NOT LIKE '% '),
  CONSTRAINT ck_recon_part_number CHECK (part >= 0 AND part < parts),
  CONSTRAINT ck_recon_part_claim CHECK (
    (state = 'RUNNING') = (claim_token IS NOT NULL) AND (claim_token IS NULL) = (claim_until IS NULL))
) ENGINE = InnoDB DEFAULT CHARACTER SET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE recon_ticket (
  id              BIGINT       NOT NULL AUTO_INCREMENT,
  channel         VARCHAR(32)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  order_no        VARCHAR(96)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  flow_id         BIGINT       NULL,
  state           VARCHAR(16)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  version         BIGINT       NOT NULL DEFAULT 0,
  -- The differences there are now, as JSON; their kinds and what is in question, for lists.
  findings        MEDIUMTEXT   CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  finding_count   INT          NOT NULL,
  kinds           VARCHAR(1000) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  moves_money     TINYINT      NOT NULL,
  stake_minor     BIGINT UNSIGNED NOT NULL,
  stake_currency  VARCHAR(16)  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  -- Both sides as they were last compared, as JSON.
  local_record    MEDIUMTEXT   CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  bill_records    MEDIUMTEXT   CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  -- People. What moves money is ended by two of them.
  assigned_to     VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NULL,
  proposed_state  VARCHAR(16)  CHARACTER SET ascii COLLATE ascii_bin NULL,
  proposed_by     VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NULL,
  proposed_reason VARCHAR(500) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  confirmed_by    VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NULL,
  opened_at       DATETIME(3)  NOT NULL,
  changed_at      DATETIME(3)  NOT NULL,
  closed_at       DATETIME(3)  NULL,
  -- Evidence of the last write; a trigger copies it into recon_ticket_trail. See internal_pay_flow.ev_version.
  ev_version      BIGINT       NOT NULL DEFAULT 0,
  ev_kind         VARCHAR(16)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  ev_actor        VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  ev_note         VARCHAR(500) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  -- NULL once there is nothing to see: the indexes then hold what is current, and what is open, alone.
  is_current      TINYINT AS (IF(finding_count > 0, 1, NULL)) VIRTUAL,
  is_open         TINYINT AS (IF(state IN ('OPEN', 'ASSIGNED'), 1, NULL)) VIRTUAL,
  PRIMARY KEY (id),
  UNIQUE KEY uk_recon_ticket (channel, order_no),
  KEY idx_ticket_current (channel, is_current, order_no),
  KEY idx_ticket_open (is_open, channel, stake_currency, stake_minor, opened_at),
  KEY idx_ticket_state (state, id),
  CONSTRAINT ck_ticket_state CHECK (
    state IN ('OPEN', 'ASSIGNED', 'AUTO_FIXED', 'RESOLVED', 'IGNORED') AND state NOT LIKE '% '),
  CONSTRAINT ck_ticket_counts CHECK (version >= 0 AND finding_count >= 0 AND moves_money IN (0, 1)),
  CONSTRAINT ck_ticket_gone CHECK (state NOT IN ('OPEN', 'ASSIGNED') OR finding_count > 0),
  CONSTRAINT ck_ticket_fixed CHECK (state <> 'AUTO_FIXED' OR finding_count = 0),
  CONSTRAINT ck_ticket_closed CHECK ((closed_at IS NULL) = (state IN ('OPEN', 'ASSIGNED'))),
  CONSTRAINT ck_ticket_proposal CHECK (
    (proposed_state IS NULL) = (proposed_by IS NULL) AND (proposed_state IS NULL) = (proposed_reason IS NULL)
    AND (proposed_state IS NULL OR (proposed_state IN ('RESOLVED', 'IGNORED') AND proposed_state NOT LIKE '% '))),
  CONSTRAINT ck_ticket_second CHECK (confirmed_by IS NULL OR confirmed_by <> proposed_by)
) ENGINE = InnoDB DEFAULT CHARACTER SET = utf8mb4 COLLATE = utf8mb4_bin;

-- One line per version of a ticket, written by triggers alone.
CREATE TABLE recon_ticket_trail (
  ticket_id  BIGINT       NOT NULL,
  version    BIGINT       NOT NULL,
  kind       VARCHAR(16)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  from_state VARCHAR(16)  CHARACTER SET ascii COLLATE ascii_bin NULL,
  to_state   VARCHAR(16)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  kinds      VARCHAR(1000) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  actor      VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  note       VARCHAR(500) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  created_at DATETIME(3)  NOT NULL,
  PRIMARY KEY (ticket_id, version)
) ENGINE = InnoDB DEFAULT CHARACTER SET = utf8mb4 COLLATE = utf8mb4_bin;

-- Entries whose counterpart lies, or may lie, in another day's records.
CREATE TABLE recon_carry (
  channel      VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  business_day DATE        NOT NULL,
  order_no     VARCHAR(96) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  side         VARCHAR(8)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  kind         VARCHAR(8)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  entry_no     VARCHAR(96) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  waits_for    DATE        NOT NULL,
  record       MEDIUMTEXT  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  created_at   DATETIME(3) NOT NULL,
  PRIMARY KEY (channel, business_day, order_no, side, kind, entry_no),
  KEY idx_carry_waits (channel, waits_for, business_day, order_no, side, kind, entry_no),
  CONSTRAINT ck_carry_side CHECK (side IN ('LOCAL', 'BILL') AND side NOT LIKE '% '),
  CONSTRAINT ck_carry_kind CHECK (kind IN ('PAYMENT', 'REFUND') AND kind NOT LIKE '% '),
  CONSTRAINT ck_carry_days CHECK (waits_for <> business_day)
) ENGINE = InnoDB DEFAULT CHARACTER SET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TRIGGER recon_batch_before_update BEFORE UPDATE ON recon_batch FOR EACH ROW
BEGIN
  IF CONCAT_WS(' ', NEW.id, NEW.channel, NEW.business_day, NEW.created_at, '.')
    <> CONCAT_WS(' ', OLD.id, OLD.channel, OLD.business_day, OLD.created_at, '.')
  THEN
    BEGIN
      DECLARE refusal VARCHAR(128) CHARACTER SET ascii;
      SET refusal = CONCAT('batch ', OLD.id, ': channel and day are frozen');
      SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = refusal;
    END;
  END IF;
END;

CREATE TRIGGER recon_batch_before_delete BEFORE DELETE ON recon_batch FOR EACH ROW
BEGIN
  DECLARE refusal VARCHAR(128) CHARACTER SET ascii;
  SET refusal = CONCAT('batch ', OLD.id, ': a batch is never deleted');
  SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = refusal;
END;

CREATE TRIGGER ticket_after_insert AFTER INSERT ON recon_ticket FOR EACH ROW
BEGIN
  IF NEW.state <> 'OPEN' OR NEW.version + NEW.ev_version <> 0 OR NEW.finding_count = 0
    OR COALESCE(NEW.assigned_to, NEW.proposed_by, NEW.confirmed_by) IS NOT NULL
  THEN
    BEGIN
      DECLARE refusal VARCHAR(128) CHARACTER SET ascii;
      SET refusal = CONCAT('ticket ', NEW.id, ': a ticket is opened at version 0, with a difference, for nobody yet');
      SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = refusal;
    END;
  END IF;
  INSERT INTO recon_ticket_trail
    (ticket_id, version, kind, from_state, to_state, kinds, actor, note, created_at)
  VALUES
    (NEW.id, 0, NEW.ev_kind, NULL, NEW.state, NEW.kinds, NEW.ev_actor, NEW.ev_note, NEW.opened_at);
END;

CREATE TRIGGER ticket_before_update BEFORE UPDATE ON recon_ticket FOR EACH ROW
BEGIN
  DECLARE refusal VARCHAR(160) CHARACTER SET ascii DEFAULT NULL;
  IF CONCAT_WS(' ', NEW.id, NEW.channel, NEW.order_no, NEW.opened_at, '.')
    <> CONCAT_WS(' ', OLD.id, OLD.channel, OLD.order_no, OLD.opened_at, '.')
    OR (OLD.flow_id IS NOT NULL AND NOT (NEW.flow_id <=> OLD.flow_id))
  THEN
    SET refusal = CONCAT('ticket ', OLD.id, ': channel, order, flow and opening are frozen');
  ELSEIF (NEW.version IN (OLD.version, OLD.version + 1)) IS NOT TRUE THEN
    SET refusal = CONCAT('ticket ', OLD.id, ': version ', COALESCE(NEW.version, 'NULL'), ' does not follow ',
      OLD.version);
  ELSEIF NEW.state <> OLD.state AND OLD.state NOT IN ('OPEN', 'ASSIGNED') AND NEW.state <> 'OPEN' THEN
    SET refusal = CONCAT('ticket ', OLD.id, ': from ', OLD.state, ' a ticket can only be opened again');
  ELSEIF NEW.state IN ('RESOLVED', 'IGNORED') AND NEW.state <> OLD.state AND OLD.moves_money = 1
    AND (NEW.confirmed_by IS NOT NULL AND NEW.proposed_by <=> OLD.proposed_by
      AND NEW.proposed_state <=> OLD.proposed_state AND NEW.state <=> OLD.proposed_state) IS NOT TRUE
  THEN
    SET refusal = CONCAT('ticket ', OLD.id,
      ': what moves money is ended by two people, one who proposes it and one who confirms it');
  END IF;
  IF refusal IS NOT NULL THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = refusal;
  END IF;
  -- A write that brings no evidence of its own was made by hand.
  IF NEW.version = OLD.version OR NOT (NEW.ev_version <=> NEW.version) THEN
    SET NEW.version = OLD.version + 1, NEW.ev_version = OLD.version + 1, NEW.changed_at = UTC_TIMESTAMP(3),
      NEW.ev_kind = 'BY_HAND', NEW.ev_note = NULL, NEW.ev_actor = LEFT(CONVERT(USER() USING ascii), 64);
  END IF;
END;

CREATE TRIGGER ticket_after_update AFTER UPDATE ON recon_ticket FOR EACH ROW
BEGIN
  INSERT INTO recon_ticket_trail
    (ticket_id, version, kind, from_state, to_state, kinds, actor, note, created_at)
  VALUES
    (NEW.id, NEW.version, NEW.ev_kind, OLD.state, NEW.state, NEW.kinds, NEW.ev_actor, NEW.ev_note, NEW.changed_at);
END;

CREATE TRIGGER ticket_before_delete BEFORE DELETE ON recon_ticket FOR EACH ROW
BEGIN
  DECLARE refusal VARCHAR(128) CHARACTER SET ascii;
  SET refusal = CONCAT('ticket ', OLD.id, ': a ticket is never deleted');
  SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = refusal;
END;

CREATE TRIGGER trail_before_update BEFORE UPDATE ON recon_ticket_trail FOR EACH ROW
BEGIN
  DECLARE refusal VARCHAR(128) CHARACTER SET ascii;
  SET refusal = CONCAT('ticket ', OLD.ticket_id, ': line ', OLD.version, ' of the trail is never changed');
  SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = refusal;
END;

CREATE TRIGGER trail_before_delete BEFORE DELETE ON recon_ticket_trail FOR EACH ROW
BEGIN
  DECLARE refusal VARCHAR(128) CHARACTER SET ascii;
  SET refusal = CONCAT('ticket ', OLD.ticket_id, ': line ', OLD.version, ' of the trail is never deleted');
  SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = refusal;
END;
