-- The accounts of the payment-consistency service, on MySQL 8.0.19+ and MariaDB 10.11+. Not a migration: an
-- administrator runs it once, after putting in own names and passwords. `pay` is the schema.
--
-- Two accounts, so that a process that is taken over at run time can neither alter the schema nor lift its guards.
--
-- 1. The migration account runs the migrations, and its rights are what the guard triggers work with: it is their
--    DEFINER. Keep it; a trigger whose definer is gone refuses every write (error 1449). With binary logging on, both
--    servers let it create triggers only with SUPER or while log_bin_trust_function_creators = 1 (error 1419
--    otherwise; SET_ANY_DEFINER on MySQL and BINLOG ADMIN on MariaDB do not help, as tried on 9.7 and 10.11). The
--    variable is the smaller right: set it for the time of the migration alone.
--
--      SET GLOBAL log_bin_trust_function_creators = 1;   -- migrate, then set it back to 0
--
--    TRUNCATE, DROP and ALTER are beyond what a trigger can refuse: this account has them, the other one has not.

CREATE USER IF NOT EXISTS 'pay_migrate'@'%' IDENTIFIED BY 'change-me-1';

GRANT SELECT, INSERT, UPDATE, CREATE, ALTER, INDEX, DROP, REFERENCES, TRIGGER, CREATE ROUTINE, ALTER ROUTINE, EXECUTE
  ON `pay`.* TO 'pay_migrate'@'%';

-- 2. The run-time account: what the service's statements use, and nothing else. No DELETE, no DDL, no right to write
--    the event log (triggers do, with the other account's rights), and no right to change a column that is frozen.
--    Run this after the migrations: column rights want the table.

CREATE USER IF NOT EXISTS 'pay_run'@'%' IDENTIFIED BY 'change-me-2';

GRANT SELECT, INSERT ON `pay`.`internal_pay_flow` TO 'pay_run'@'%';

GRANT UPDATE (
    status, version, next_retry_time, retry_count, last_error_code, channel_request_id, cancel_requested_at,
    cancel_requested_by, hold_reason, hold_since, hold_by, refund_amount, refund_reason, refund_source,
    wallet_pay_txn, wallet_refund_txn, paid_at, finished_at, state_entered_at, update_time, ev_version, ev_trigger,
    ev_action, ev_outcome, ev_request_id, ev_latency_ms, ev_trace_id, ev_actor
  ) ON `pay`.`internal_pay_flow` TO 'pay_run'@'%';

GRANT SELECT, INSERT ON `pay`.`pay_request_key` TO 'pay_run'@'%';

GRANT SELECT ON `pay`.`pay_flow_event` TO 'pay_run'@'%';

GRANT SELECT, UPDATE (next_id) ON `pay`.`flow_id_block` TO 'pay_run'@'%';

GRANT SELECT, INSERT, UPDATE (state, version, tries, note, next_try_at, processed_at)
  ON `pay`.`pay_inbox` TO 'pay_run'@'%';

GRANT SELECT ON `pay`.`_sqlx_migrations` TO 'pay_run'@'%';

GRANT EXECUTE ON FUNCTION `pay`.`flow_guard_triggers` TO 'pay_run'@'%';

-- Notifications: triggers write the rows and the attempts. The service says who is to be told, and what became of each.
-- (MariaDB asks for UPDATE on every column where a row may be there already.)
GRANT SELECT, INSERT, UPDATE ON `pay`.`pay_notify_caller` TO 'pay_run'@'%';

GRANT SELECT, UPDATE (
    delivery, next_attempt_time, attempts, tries, claim_token, last_answer, last_http_status, last_latency_ms,
    last_attempt_at, delivered_at, resent_at, resent_by
  ) ON `pay`.`pay_outbox` TO 'pay_run'@'%';

GRANT SELECT ON `pay`.`pay_outbox_attempt` TO 'pay_run'@'%';

-- Reconciliation: nothing of a payment is written. Triggers keep the trail. Entries that waited over a midnight are the
-- only rows that the service deletes.
-- (UPDATE on every column where a row may be there already, as above. Triggers freeze what a batch is about.)
GRANT SELECT, INSERT, UPDATE ON `pay`.`recon_batch` TO 'pay_run'@'%';

GRANT SELECT, INSERT, UPDATE ON `pay`.`recon_batch_part` TO 'pay_run'@'%';

GRANT SELECT, INSERT, UPDATE (
    flow_id, state, version, findings, finding_count, kinds, moves_money, stake_minor, stake_currency, local_record,
    bill_records, assigned_to, proposed_state, proposed_by, proposed_reason, confirmed_by, changed_at, closed_at,
    ev_version, ev_kind, ev_actor, ev_note
  ) ON `pay`.`recon_ticket` TO 'pay_run'@'%';

GRANT SELECT ON `pay`.`recon_ticket_trail` TO 'pay_run'@'%';

GRANT SELECT, INSERT, UPDATE, DELETE ON `pay`.`recon_carry` TO 'pay_run'@'%';
