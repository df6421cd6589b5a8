-- Why: a channel's callback is kept before it is answered, so that no crash loses it and no repetition is taken for news.
--
-- A row is evidence that somebody said something; nothing in it ever decides on a payment. Rows are never deleted by the
-- service. Number, type, channel and event id together are the event: a payment's and a refund's event of one order, or
-- two channels that count alike, never hide each other.

CREATE TABLE pay_inbox (
  id           BIGINT       NOT NULL AUTO_INCREMENT,
  -- What the event is. The order number is the channel's word: it may belong to no order of ours.
  order_no     VARCHAR(96)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  event_type   VARCHAR(16)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  channel      VARCHAR(32)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  event_id     VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  -- What it claims. NULL: it does not say.
  claim        VARCHAR(16)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  amount       BIGINT       NULL,
  currency     VARCHAR(16)  CHARACTER SET ascii COLLATE ascii_bin NULL,
  -- The body as it was signed, byte for byte.
  raw          MEDIUMBLOB   NOT NULL,
  trace_id     VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NULL,
  -- Where it stands. Every claim and every end adds one to the version. While a process works on it, it is due again only
  -- when that process has had its time.
  state        VARCHAR(16)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  version      BIGINT       NOT NULL DEFAULT 0,
  tries        INT          NOT NULL DEFAULT 0,
  note         VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NULL,
  received_at  DATETIME(3)  NOT NULL,
  next_try_at  DATETIME(3)  NOT NULL,
  processed_at DATETIME(3)  NULL,
  -- NULL once there is nothing left to do: the index of what is open then holds open rows only.
  is_open      TINYINT AS (IF(state = 'NEW', 1, NULL)) VIRTUAL,

  PRIMARY KEY (id),
  UNIQUE KEY uk_inbox_event (order_no, event_type, channel, event_id),
  KEY idx_inbox_open (is_open, id, next_try_at),

  -- A binary collation still pads with blanks, hence the LIKE.
  CONSTRAINT ck_inbox_state CHECK (
    state IN ('NEW', 'PROCESSED', 'CONTRADICTED', 'GIVEN_UP') AND state NOT LIKE '% '),
  CONSTRAINT ck_inbox_type CHECK (event_type IN ('PAYMENT', 'REFUND') AND event_type NOT LIKE '% '),
  CONSTRAINT ck_inbox_claim CHECK (claim IN ('SUCCESS', 'FAILED', 'PROCESSING') AND claim NOT LIKE '% '),
  CONSTRAINT ck_inbox_money CHECK ((amount IS NULL) = (currency IS NULL)),
  CONSTRAINT ck_inbox_processed CHECK ((processed_at IS NULL) = (state = 'NEW')),
  CONSTRAINT ck_inbox_counts CHECK (version >= 0 AND tries >= 0),
  CONSTRAINT ck_inbox_raw CHECK (LENGTH(raw) <= 65536)
) ENGINE = InnoDB DEFAULT CHARACTER SET = utf8mb4 COLLATE = utf8mb4_bin;
