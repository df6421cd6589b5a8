-- Why: one row per payment attempt is the one shared truth; everything the service must know after a crash stands in it.
--
-- Runs on MySQL 8.0.16+ and MariaDB 10.11+. Times are UTC. Identifiers are ASCII with a binary collation: `a` and `A`
-- are different order numbers.

CREATE TABLE internal_pay_flow (
  -- Identity. The id comes from flow_id_block, so that one INSERT carries the order numbers derived from it.
  id                  BIGINT       NOT NULL,
  user_id             BIGINT       NOT NULL,
  scene               VARCHAR(32)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  biz_key             VARCHAR(160) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  attempt_no          INT          NOT NULL,
  trade_order_no      VARCHAR(96)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  refund_order_no     VARCHAR(96)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  -- Where it stands. Every write adds one to the version.
  status              VARCHAR(24)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  version             BIGINT       NOT NULL DEFAULT 0,
  -- Frozen at creation. The amount counts minor units.
  amount              BIGINT       NOT NULL,
  currency            VARCHAR(16)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  biz_deadline_time   DATETIME(3)  NOT NULL,
  wallet_name         VARCHAR(32)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  business_name       VARCHAR(32)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  biz_context         TEXT         CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  caller_id           VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  idempotency_key     VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  request_fingerprint CHAR(64)     CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  -- Schedule. Unrelated to the deadline.
  next_retry_time     DATETIME(3)  NOT NULL,
  retry_count         INT          NOT NULL DEFAULT 0,
  last_error_code     VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NULL,
  channel_request_id  VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NULL,
  -- People: the client's wish to stop, and a freeze.
  cancel_requested_at DATETIME(3)  NULL,
  cancel_requested_by VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NULL,
  hold_reason         VARCHAR(32)  CHARACTER SET ascii COLLATE ascii_bin NULL,
  hold_since          DATETIME(3)  NULL,
  hold_by             VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NULL,
  -- Refund terms, frozen when the refund is decided.
  refund_amount       BIGINT       NULL,
  refund_reason       VARCHAR(32)  CHARACTER SET ascii COLLATE ascii_bin NULL,
  refund_source       VARCHAR(16)  CHARACTER SET ascii COLLATE ascii_bin NULL,
  -- Confirmed facts.
  wallet_pay_txn      VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NULL,
  wallet_refund_txn   VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NULL,
  paid_at             DATETIME(3)  NULL,
  finished_at         DATETIME(3)  NULL,
  state_entered_at    DATETIME(3)  NOT NULL,
  created_at          DATETIME(3)  NOT NULL,
  update_time         DATETIME(3)  NOT NULL,
  -- Evidence of the last write; the audit trigger copies it into pay_flow_event. ev_version says which version the
  -- evidence belongs to: a write that leaves it behind brought no evidence, and is audited as made by hand.
  ev_version          BIGINT       NOT NULL DEFAULT 0,
  ev_trigger          VARCHAR(16)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  ev_action           VARCHAR(32)  CHARACTER SET ascii COLLATE ascii_bin NULL,
  ev_outcome          VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NULL,
  ev_request_id       VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NULL,
  ev_latency_ms       INT UNSIGNED NULL,
  ev_trace_id         VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NULL,
  ev_actor            VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NULL,
  -- NULL once terminal: the sweep's index then holds open rows only.
  is_open             TINYINT AS (IF(status IN ('WAIT_PAY', 'PAYING', 'PAYED', 'REFUNDING'), 1, NULL)) VIRTUAL,
  -- NULL once the attempt has definitely failed: a target has at most one attempt that is open or successful.
  target_guard        TINYINT AS (IF(status IN ('PAY_FAIL', 'REFUNDED'), NULL, 1)) VIRTUAL,

  PRIMARY KEY (id),
  UNIQUE KEY uk_trade_order_no (trade_order_no),
  UNIQUE KEY uk_refund_order_no (refund_order_no),
  UNIQUE KEY uk_biz_attempt (user_id, scene, biz_key, attempt_no),
  UNIQUE KEY uk_open_target (user_id, scene, biz_key, target_guard),
  KEY idx_open_id_due (is_open, id, next_retry_time),

  CONSTRAINT ck_flow_amount CHECK (amount > 0),
  CONSTRAINT ck_flow_numbers CHECK (id > 0 AND user_id > 0 AND attempt_no > 0 AND version >= 0 AND retry_count >= 0),
  CONSTRAINT ck_flow_trade_order_no CHECK (
    CAST(trade_order_no AS BINARY)
      = CAST(CONCAT('h2r_', LOWER(CONV(user_id, 10, 36)), '_', LOWER(CONV(id, 10, 36))) AS BINARY)),
  CONSTRAINT ck_flow_refund_order_no CHECK (
    CAST(refund_order_no AS BINARY)
      = CAST(CONCAT('r_h2r_', LOWER(CONV(user_id, 10, 36)), '_', LOWER(CONV(id, 10, 36))) AS BINARY)),
  -- A binary collation still pads with blanks, hence the LIKE.
  CONSTRAINT ck_flow_status CHECK (
    status IN ('WAIT_PAY', 'PAYING', 'PAY_FAIL', 'PAYED', 'BIZ_SUCCESS', 'REFUNDING', 'REFUNDED')
    AND status NOT LIKE '% '),
  CONSTRAINT ck_flow_context CHECK (biz_context IS NULL OR CHAR_LENGTH(biz_context) <= 4096),
  CONSTRAINT ck_flow_cancel CHECK ((cancel_requested_at IS NULL) = (cancel_requested_by IS NULL)),
  CONSTRAINT ck_flow_hold CHECK (
    (hold_reason IS NULL) = (hold_since IS NULL) AND (hold_reason IS NULL) = (hold_by IS NULL)),
  CONSTRAINT ck_flow_refund CHECK (
    (refund_amount IS NULL) = (refund_reason IS NULL) AND (refund_amount IS NULL) = (refund_source IS NULL)
    AND (refund_amount IS NOT NULL) = (status IN ('REFUNDING', 'REFUNDED'))
    AND (refund_amount IS NULL OR refund_amount = amount)),
  CONSTRAINT ck_flow_finished CHECK (
    (finished_at IS NOT NULL) = (status IN ('PAY_FAIL', 'BIZ_SUCCESS', 'REFUNDED')))
) ENGINE = InnoDB DEFAULT CHARACTER SET = utf8mb4 COLLATE = utf8mb4_bin;

-- Ids are handed out in blocks, one UPDATE per block and process: a creation knows its id, and so its order numbers,
-- before it inserts. A block that a dead process did not use up is a gap; nothing relies on ids being dense.
CREATE TABLE flow_id_block (
  id      TINYINT NOT NULL,
  next_id BIGINT  NOT NULL,
  PRIMARY KEY (id),
  CONSTRAINT ck_block_single CHECK (id = 1),
  CONSTRAINT ck_block_next CHECK (next_id > 0)
) ENGINE = InnoDB DEFAULT CHARACTER SET = utf8mb4 COLLATE = utf8mb4_bin;

INSERT INTO flow_id_block (id, next_id) VALUES (1, 1);
