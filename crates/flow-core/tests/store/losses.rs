//! Lost connections and servers that do not answer.

use std::time::Duration;

use flow_core::ports::{CasOutcome, FlowStore as _, StoreError};
use flow_core::store::MySqlStore;
use sqlx::{AssertSqlSafe, Executor as _, MySqlConnection};

use crate::harness::{Schema, created, loaded, new_flow, on_both_servers, rescheduling, until};

on_both_servers!(
    a_connection_lost_while_writing_leaves_the_outcome_unknown,
    dead_idle_connections_are_replaced,
    a_read_that_hangs_is_given_up_and_its_connection_with_it,
    a_lease_is_lost_with_its_connection,
    leases_that_come_and_go_share_a_connection,
    sessions_end_when_they_fall_silent_and_a_lease_does_not,
    a_full_queue_refuses_at_once,
    closing_waits_for_what_was_handed_over,
);

async fn kill(root: &mut MySqlConnection, condition: &str) -> usize {
    let statement = format!(
        "SELECT CAST(id AS SIGNED) FROM information_schema.processlist \
         WHERE db = DATABASE() AND id <> CONNECTION_ID() AND {condition}"
    );
    let ids: Vec<i64> = sqlx::query_scalar(AssertSqlSafe(statement)).fetch_all(&mut *root).await.unwrap();
    for id in &ids {
        // One that has gone by itself is as good.
        drop(root.execute(AssertSqlSafe(format!("KILL {id}"))).await);
    }
    ids.len()
}

async fn a_connection_lost_while_writing_leaves_the_outcome_unknown(schema: Schema) {
    let store = schema.store().await;
    let flow = created(&store, 1).await;
    let mut root = schema.root().await;
    root.execute("BEGIN").await.unwrap();
    root.execute("SELECT id FROM internal_pay_flow FOR UPDATE").await.unwrap();
    let writing = {
        let (store, write) = (store.clone(), rescheduling(&flow));
        tokio::spawn(async move { store.cas(write).await })
    };
    let mut killer = schema.root().await;
    while kill(&mut killer, "info LIKE 'UPDATE internal_pay_flow%'").await == 0 {}
    let outcome = writing.await.unwrap();
    assert!(matches!(outcome, Err(StoreError::OutcomeUnknown)), "{outcome:?}");
    root.execute("ROLLBACK").await.unwrap();
    // It was not written, as it happens; what counts is that a look tells, and that the next write works.
    let flow = loaded(&store, &flow).await;
    assert_eq!(store.cas(rescheduling(&flow)).await.unwrap(), CasOutcome::Applied);
    assert_eq!(loaded(&store, &flow).await.version, flow.version.next());
}

async fn dead_idle_connections_are_replaced(schema: Schema) {
    let store = schema.store().await;
    let flow = created(&store, 1).await;
    let mut killer = schema.root().await;
    assert!(kill(&mut killer, "TRUE").await >= 2, "a reader and a committer");
    assert_eq!(loaded(&store, &flow).await.id, flow.id, "a read is made once more");
    match store.cas(rescheduling(&flow)).await {
        Ok(CasOutcome::Applied) | Err(StoreError::OutcomeUnknown) => {}
        other => panic!("{other:?}"),
    }
    let flow = loaded(&store, &flow).await;
    assert_eq!(store.cas(rescheduling(&flow)).await.unwrap(), CasOutcome::Applied);
}

async fn a_read_that_hangs_is_given_up_and_its_connection_with_it(schema: Schema) {
    let mut options = schema.options();
    options.statement_timeout_ms = 300;
    options.read_connections = 1;
    let store = MySqlStore::connect(options).await.unwrap();
    let flow = created(&store, 1).await;
    let mut root = schema.root().await;
    root.execute("LOCK TABLES internal_pay_flow WRITE").await.unwrap();
    for _ in 0..3 {
        let hung = store.load(flow.id).await;
        assert!(matches!(hung, Err(StoreError::Unavailable { .. })), "{hung:?}");
    }
    root.execute("UNLOCK TABLES").await.unwrap();
    assert_eq!(loaded(&store, &flow).await.id, flow.id);
}

async fn a_lease_is_lost_with_its_connection(schema: Schema) {
    let store = schema.store().await;
    let mut lease = store.try_lease(0, 2).await.unwrap().expect("nobody else has it");
    assert!(lease.still_held().await);
    assert!(store.try_lease(0, 2).await.unwrap().is_none());
    let mut killer = schema.root().await;
    kill(&mut killer, "TRUE").await;
    assert!(!lease.still_held().await);
    assert!(!lease.still_held().await, "lost for good");
    until("the server frees the lock of a killed connection", async || {
        store.try_lease(0, 2).await.unwrap().is_some()
    })
    .await;
}

async fn leases_that_come_and_go_share_a_connection(schema: Schema) {
    let store = schema.store().await;
    store.try_lease(0, 2).await.unwrap().expect("nobody has it").release().await;
    let mut root = schema.root().await;
    let connections =
        "SELECT CAST(id AS SIGNED) FROM information_schema.processlist WHERE db = DATABASE() ORDER BY id";
    let before: Vec<i64> = sqlx::query_scalar(connections).fetch_all(&mut root).await.unwrap();
    for partition in [0, 1].repeat(10) {
        store.try_lease(partition, 2).await.unwrap().expect("nobody has it").release().await;
    }
    let after: Vec<i64> = sqlx::query_scalar(connections).fetch_all(&mut root).await.unwrap();
    assert_eq!(before, after, "no connection came or went");

    // All of them dead: the next lease finds out, and is taken on a new one.
    kill(&mut root, "TRUE").await;
    let mut lease = store.try_lease(1, 2).await.unwrap().expect("nobody has it");
    assert!(lease.still_held().await);
}

/// The server waits twenty seconds for a sign of life on what may hold rows or locks, and the lease gives one every five.
async fn sessions_end_when_they_fall_silent_and_a_lease_does_not(schema: Schema) {
    let store = schema.store().await;
    let mut lease = store.try_lease(0, 2).await.unwrap().expect("nobody else has it");
    let mut root = schema.root().await;
    let statement = "SELECT CAST(COALESCE(MAX(time), -1) AS SIGNED) FROM information_schema.processlist \
                     WHERE db = DATABASE() AND id = IS_USED_LOCK(CONCAT('pay-flow-sweep.', \
                     LEFT(SHA2(DATABASE(), 256), 16), '.0.2'))";
    let mut silent_s = async || sqlx::query_scalar::<_, i64>(statement).fetch_one(&mut root).await.unwrap();
    until("the lease to be silent for a moment", async || silent_s().await >= 3).await;
    until("the lease to say something by itself", async || silent_s().await == 0).await;
    assert!(lease.still_held().await);
    lease.release().await;
}

async fn a_full_queue_refuses_at_once(schema: Schema) {
    let mut options = schema.options();
    options.queue_rows = 2;
    options.max_batch_rows = 1;
    let store = std::sync::Arc::new(MySqlStore::connect(options).await.unwrap());
    let flow = created(&store, 1).await;
    let mut root = schema.root().await;
    root.execute("BEGIN").await.unwrap();
    root.execute("SELECT id FROM internal_pay_flow FOR UPDATE").await.unwrap();
    let held_up = {
        let (store, write) = (store.clone(), rescheduling(&flow));
        tokio::spawn(async move { store.cas(write).await })
    };
    let mut looker = schema.root().await;
    let statement = "SELECT CAST(COUNT(*) AS SIGNED) FROM information_schema.processlist \
                     WHERE db = DATABASE() AND info LIKE 'UPDATE internal_pay_flow%'";
    while sqlx::query_scalar::<_, i64>(statement).fetch_one(&mut looker).await.unwrap() == 0 {}
    let mut waiting = Vec::new();
    for number in 10..14 {
        let (store, new) = (store.clone(), new_flow(&store, number).await);
        waiting.push(tokio::spawn(async move { store.create(new).await }));
    }
    let mut refused = 0;
    until("two of four are refused", async || {
        refused = waiting.iter().filter(|task| task.is_finished()).count();
        refused >= 2
    })
    .await;
    root.execute("ROLLBACK").await.unwrap();
    let mut outcomes = Vec::new();
    for task in waiting {
        outcomes.push(task.await.unwrap());
    }
    let refused =
        outcomes.iter().filter(|outcome| matches!(outcome, Err(StoreError::Unavailable { .. }))).count();
    assert_eq!(refused, 2, "{outcomes:?}");
    assert_eq!(held_up.await.unwrap().unwrap(), CasOutcome::Applied);
}

async fn closing_waits_for_what_was_handed_over(schema: Schema) {
    let store = schema.store().await;
    let mut tasks = Vec::new();
    for number in 1..=200 {
        let (store, new) = (store.clone(), new_flow(&store, number).await);
        tasks.push(tokio::spawn(async move { store.create(new).await }));
    }
    // Some are handed over by now, some are not; none may be lost between the two.
    assert!(store.close(Duration::from_secs(30)).await);
    let mut inserted: i64 = 0;
    for task in tasks {
        match task.await.unwrap() {
            Ok(_) => inserted += 1,
            Err(StoreError::Unavailable { .. }) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
    let mut root = schema.root().await;
    let rows: i64 =
        sqlx::query_scalar("SELECT COUNT(*) FROM internal_pay_flow").fetch_one(&mut root).await.unwrap();
    assert_eq!(rows, inserted);
}
