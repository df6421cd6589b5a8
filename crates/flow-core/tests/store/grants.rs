//! The run-time account of `docs/grants.sql`. That it may do all that the store does is shown by `conformance`, which
//! runs as that account; here is what it may not.

use sqlx::mysql::MySqlDatabaseError;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, MySqlConnection};

use crate::harness::{Schema, created, on_both_servers};

on_both_servers!(the_run_time_account_may_not_do_more);

async fn the_run_time_account_may_not_do_more(mut schema: Schema) {
    let store = schema.store().await;
    created(&store, 1).await;
    let url = schema.run_account_url().await;
    let mut account = MySqlConnection::connect(&url).await.unwrap();
    for statement in [
        "UPDATE internal_pay_flow SET amount = 1",
        "UPDATE internal_pay_flow SET status = 'PAYING', amount = 1",
        "UPDATE internal_pay_flow SET user_id = 2",
        "UPDATE internal_pay_flow SET biz_deadline_time = NOW(3)",
        "UPDATE internal_pay_flow SET trade_order_no = 'x'",
        "UPDATE internal_pay_flow SET request_fingerprint = 'x'",
        "UPDATE internal_pay_flow SET created_at = NOW(3)",
        "DELETE FROM internal_pay_flow",
        "TRUNCATE internal_pay_flow",
        "ALTER TABLE internal_pay_flow ADD COLUMN more INT",
        "DROP TABLE internal_pay_flow",
        "DROP TRIGGER flow_before_update",
        "DROP FUNCTION flow_guard_triggers",
        "CREATE TABLE more (id INT)",
        "INSERT INTO pay_flow_event (flow_id, version, kind, to_status, ev_trigger, created_at) \
         VALUES (1, 9, 'STATE', 'PAYED', 'SYNC', NOW(3))",
        "UPDATE pay_flow_event SET kind = 'STATE'",
        "DELETE FROM pay_flow_event",
        "TRUNCATE pay_flow_event",
        "UPDATE pay_request_key SET flow_id = 2",
        "DELETE FROM pay_request_key",
        "UPDATE pay_inbox SET raw = ''",
        "UPDATE pay_inbox SET order_no = 'x'",
        "UPDATE pay_inbox SET received_at = NOW(3)",
        "DELETE FROM pay_inbox",
        "TRUNCATE pay_inbox",
        "INSERT INTO flow_id_block VALUES (2, 1)",
        "UPDATE flow_id_block SET id = 2",
        "DELETE FROM flow_id_block",
        "INSERT INTO pay_outbox (flow_id, version, caller_id, change_kind, flow_status, created_at, delivery, \
         next_attempt_time) VALUES (1, 1, 'shop', 'ENDED', 'PAY_FAIL', NOW(3), 'PENDING', NOW(3))",
        "UPDATE pay_outbox SET flow_status = 'PAYED'",
        "DELETE FROM pay_outbox",
        "TRUNCATE pay_outbox",
        "INSERT INTO pay_outbox_attempt VALUES (1, 1, 1, NOW(3), 'ACCEPTED', 200, 1)",
        "UPDATE pay_outbox_attempt SET answer = 'ACCEPTED'",
        "DELETE FROM pay_notify_caller",
        "UPDATE recon_ticket SET order_no = 'x'",
        "UPDATE recon_ticket SET opened_at = NOW(3)",
        "DELETE FROM recon_ticket",
        "INSERT INTO recon_ticket_trail VALUES (1, 9, 'GONE', 'OPEN', 'AUTO_FIXED', '', 'x', NULL, NOW(3))",
        "UPDATE recon_ticket_trail SET actor = 'x'",
        "DELETE FROM recon_ticket_trail",
        "DELETE FROM recon_batch",
        "DELETE FROM recon_batch_part",
        "TRUNCATE recon_carry",
        "DELETE FROM _sqlx_migrations",
        "SELECT * FROM mysql.user",
        "SET GLOBAL sync_binlog = 0",
    ] {
        let error =
            account.execute(AssertSqlSafe(statement)).await.unwrap_err().into_database_error().unwrap();
        let number = error.downcast_ref::<MySqlDatabaseError>().number();
        // Denied: on the schema, on the table, on the column, on the routine, a global right, a trigger.
        assert!(matches!(number, 1044 | 1142 | 1143 | 1227 | 1370 | 1419), "{statement}: {error}");
    }
}
