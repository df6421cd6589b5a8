-- Why: a request key answers a repeated request with its own flow for ever, and the event log explains every change.

CREATE TABLE pay_request_key (
  caller_id       VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  idempotency_key VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  fingerprint     CHAR(64)     CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  flow_id         BIGINT       NOT NULL,
  created_at      DATETIME(3)  NOT NULL,
  PRIMARY KEY (caller_id, idempotency_key)
) ENGINE = InnoDB DEFAULT CHARACTER SET = utf8mb4 COLLATE = utf8mb4_bin;

-- One line per version of a flow, written by triggers alone: row and line commit together, whoever writes.
CREATE TABLE pay_flow_event (
  flow_id     BIGINT       NOT NULL,
  version     BIGINT       NOT NULL,
  kind        VARCHAR(16)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  from_status VARCHAR(24)  CHARACTER SET ascii COLLATE ascii_bin NULL,
  to_status   VARCHAR(24)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  ev_trigger  VARCHAR(16)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  action      VARCHAR(32)  CHARACTER SET ascii COLLATE ascii_bin NULL,
  outcome     VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NULL,
  error_code  VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NULL,
  request_id  VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NULL,
  latency_ms  INT UNSIGNED NULL,
  trace_id    VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NULL,
  actor       VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NULL,
  created_at  DATETIME(3)  NOT NULL,
  PRIMARY KEY (flow_id, version)
) ENGINE = InnoDB DEFAULT CHARACTER SET = utf8mb4 COLLATE = utf8mb4_bin;
