//! The outbox, met by writers that go around the program.

use flow_core::state::State;
use sqlx::mysql::MySqlDatabaseError;
use sqlx::{AssertSqlSafe, Executor as _, MySqlConnection};

use crate::harness::{Schema, created_in, on_both_servers};

on_both_servers!(what_is_owed_is_frozen_and_kept, an_end_by_hand_is_told_of, no_end_without_its_notification);

/// The server's number, where it refused.
async fn refusal(connection: &mut MySqlConnection, statement: &str) -> Option<u16> {
    let error = connection.execute(AssertSqlSafe(statement.to_owned())).await.err()?;
    let error = error.into_database_error().expect("an answer of the server");
    Some(error.downcast_ref::<MySqlDatabaseError>().number())
}

async fn tells_the_caller_of(schema: &Schema, name: &str) -> MySqlConnection {
    let mut root = schema.root().await;
    let named = format!("INSERT INTO pay_notify_caller VALUES ('{name}', 1, UTC_TIMESTAMP(3))");
    assert_eq!(refusal(&mut root, &named).await, None);
    root
}

async fn count(root: &mut MySqlConnection, table: &str) -> i64 {
    let sql = format!("SELECT COUNT(*) FROM {table}");
    sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(root).await.unwrap()
}

async fn what_is_owed_is_frozen_and_kept(schema: Schema) {
    let store = schema.store().await;
    let mut root = tells_the_caller_of(&schema, flow_testkit::samples::caller().as_str()).await;
    created_in(&store, 1, State::PayFail).await;
    for statement in [
        "UPDATE pay_outbox SET flow_status = 'BIZ_SUCCESS'",
        "UPDATE pay_outbox SET version = version + 1",
        "UPDATE pay_outbox SET caller_id = 'somebody'",
        "UPDATE pay_outbox SET change_kind = 'HELD'",
        "UPDATE pay_outbox SET created_at = NOW(3) + INTERVAL 1 DAY",
        "UPDATE pay_outbox SET attempts = 2",
        "UPDATE pay_outbox SET delivery = 'LOST'",
        "UPDATE pay_outbox SET tries = 1",
        "DELETE FROM pay_outbox",
    ] {
        let number = refusal(&mut root, statement).await;
        assert!(matches!(number, Some(1644 | 3819 | 4025)), "{statement}: {number:?}");
    }
    let attempt = "UPDATE pay_outbox SET attempts = 1, last_answer = 'FAILED', last_latency_ms = 5, \
                   last_attempt_at = NOW(3), delivery = 'DEAD'";
    assert_eq!(refusal(&mut root, attempt).await, None);
    assert_eq!(count(&mut root, "pay_outbox_attempt WHERE attempt_no = 1 AND answer = 'FAILED'").await, 1);
    assert_eq!(refusal(&mut root, "UPDATE pay_outbox_attempt SET answer = 'ACCEPTED'").await, Some(1644));
    assert_eq!(refusal(&mut root, "DELETE FROM pay_outbox").await, Some(1644), "given up is still owed");
    assert_eq!(refusal(&mut root, "UPDATE pay_outbox SET delivery = 'DELIVERED'").await, None);
    assert_eq!(
        refusal(&mut root, "DELETE FROM pay_outbox").await,
        None,
        "what was delivered may be cleared away"
    );
}

async fn an_end_by_hand_is_told_of(schema: Schema) {
    let store = schema.store().await;
    let mut root = tells_the_caller_of(&schema, flow_testkit::samples::caller().as_str()).await;
    created_in(&store, 1, State::Paying).await;
    assert_eq!(refusal(&mut root, "UPDATE internal_pay_flow SET status = 'PAY_FAIL'").await, None);
    let told = "pay_outbox o JOIN internal_pay_flow f ON f.id = o.flow_id AND f.version = o.version \
                WHERE o.change_kind = 'ENDED' AND o.flow_status = 'PAY_FAIL' AND o.delivery = 'PENDING'";
    assert_eq!(count(&mut root, told).await, 1);
}

/// One statement: what refuses the notification refuses the end, alone and among others of one commit.
async fn no_end_without_its_notification(schema: Schema) {
    let store = schema.store().await;
    let mut root = tells_the_caller_of(&schema, flow_testkit::samples::caller().as_str()).await;
    created_in(&store, 1, State::Paying).await;
    created_in(&store, 2, State::Paying).await;
    let refuse = "CREATE TRIGGER refuse BEFORE INSERT ON pay_outbox FOR EACH ROW \
                  SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no room'";
    assert_eq!(refusal(&mut root, refuse).await, None);
    for statement in [
        "UPDATE internal_pay_flow SET status = 'PAY_FAIL' WHERE id = 1",
        "UPDATE internal_pay_flow SET status = 'PAY_FAIL'",
    ] {
        assert_eq!(refusal(&mut root, statement).await, Some(1644), "{statement}");
        assert_eq!(count(&mut root, "internal_pay_flow WHERE status = 'PAYING'").await, 2, "{statement}");
    }
    let onwards = "UPDATE internal_pay_flow SET status = 'PAYED' WHERE id = 1";
    assert_eq!(refusal(&mut root, onwards).await, None, "what is no end goes on");
}
