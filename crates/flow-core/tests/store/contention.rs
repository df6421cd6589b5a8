//! Locks: deadlocks are tried again, and a locked row holds up nobody else for long.

use std::time::Duration;

use flow_core::decide::Transition;
use flow_core::ports::{CasOutcome, FlowStore as _, StoreError};
use flow_core::state::State;
use sqlx::{AssertSqlSafe, Executor as _, MySqlConnection};

use crate::harness::{Schema, created, loaded, moving, on_both_servers, rescheduling, until};

on_both_servers!(
    a_deadlock_is_tried_again,
    a_locked_row_holds_up_nobody_for_long,
    many_locked_rows_are_answered_in_bounded_time,
);

async fn lock(root: &mut MySqlConnection, id: impl std::fmt::Display) -> Result<(), sqlx::Error> {
    let lock = format!("SELECT id FROM internal_pay_flow WHERE id = {id} FOR UPDATE");
    root.execute(AssertSqlSafe(lock)).await.map(|_| ())
}

/// Statements of this schema that change flows and have not come back.
async fn updates_under_way(root: &mut MySqlConnection) -> i64 {
    let statement = "SELECT CAST(COUNT(*) AS SIGNED) FROM information_schema.processlist \
                     WHERE db = DATABASE() AND info LIKE 'UPDATE%internal_pay_flow%'";
    sqlx::query_scalar(statement).fetch_one(root).await.unwrap()
}

/// Two transactions that lock two rows in opposite orders; ours has done less, so that the server picks it.
async fn a_deadlock_is_tried_again(schema: Schema) {
    let store = schema.store().await;
    let (mut first, mut second) = (created(&store, 1).await, created(&store, 2).await);
    let blocker = created(&store, 3).await;
    let mut root = schema.root().await;
    root.execute("CREATE TABLE heavy (id INT PRIMARY KEY AUTO_INCREMENT, v INT)").await.unwrap();
    // On a busy machine the store's second of patience may end before our lock is asked for; then once more.
    for _ in 0..20 {
        let before = deadlocks(&mut root).await;
        root.execute("BEGIN").await.unwrap();
        let values = vec!["(1)"; 2_000].join(", ");
        root.execute(AssertSqlSafe(format!("INSERT INTO heavy (v) VALUES {values}"))).await.unwrap();
        lock(&mut root, second.id).await.unwrap();
        // A third row holds the committer up until both writes have queued up behind it.
        let mut other = schema.root().await;
        other.execute("BEGIN").await.unwrap();
        lock(&mut other, blocker.id).await.unwrap();
        let tasks: Vec<_> =
            [rescheduling(&loaded(&store, &blocker).await), rescheduling(&first), rescheduling(&second)]
                .map(|write| {
                    let store = store.clone();
                    tokio::spawn(async move { store.cas(write).await })
                })
                .into();
        let mut looker = schema.root().await;
        while updates_under_way(&mut looker).await == 0 {}
        other.execute("ROLLBACK").await.unwrap();
        // The first row is ours as soon as nobody else gets it without waiting.
        until("the store's commit has locked the first row", async || {
            let mut looker = schema.root().await;
            let probe = format!("SELECT id FROM internal_pay_flow WHERE id = {} FOR UPDATE NOWAIT", first.id);
            looker.execute(AssertSqlSafe(probe)).await.is_err()
        })
        .await;
        let locked = lock(&mut root, first.id).await;
        root.execute("ROLLBACK").await.unwrap();
        for task in tasks {
            assert_eq!(task.await.unwrap().unwrap(), CasOutcome::Applied);
        }
        (first, second) = (loaded(&store, &first).await, loaded(&store, &second).await);
        if locked.is_ok() && deadlocks(&mut root).await > before {
            return;
        }
    }
    panic!("no deadlock came about in which the store lost");
}

/// Counted by the server. Other tests' deadlocks count too, hence only ever "more than before".
async fn deadlocks(root: &mut MySqlConnection) -> i64 {
    sqlx::query_scalar(
        "SELECT CAST(count AS SIGNED) FROM information_schema.innodb_metrics WHERE name = 'lock_deadlocks'",
    )
    .fetch_one(root)
    .await
    .unwrap()
}

async fn a_locked_row_holds_up_nobody_for_long(schema: Schema) {
    let store = schema.store().await;
    let locked = created(&store, 1).await;
    let mut flows = Vec::new();
    for number in 2..12 {
        flows.push(created(&store, number).await);
    }
    let mut root = schema.root().await;
    root.execute("BEGIN").await.unwrap();
    lock(&mut root, locked.id).await.unwrap();
    let waiting = {
        let (store, write) = (store.clone(), moving(&locked, Transition::EnterPaying));
        tokio::spawn(async move { store.cas(write).await })
    };
    let others: Vec<_> = flows
        .iter()
        .map(|flow| {
            let (store, write) = (store.clone(), moving(flow, Transition::EnterPaying));
            tokio::spawn(async move { store.cas(write).await })
        })
        .collect();
    for other in others {
        // Well below the time after which the server gives up on a locked row.
        let outcome = tokio::time::timeout(Duration::from_secs(4), other).await;
        assert_eq!(outcome.expect("not held up").unwrap().unwrap(), CasOutcome::Applied);
    }
    assert!(!waiting.is_finished());
    root.execute("ROLLBACK").await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap(), CasOutcome::Applied);

    // A row that stays locked is given up in the end, and nothing was written.
    let mut options = schema.options();
    options.statement_timeout_ms = 2_000;
    let impatient = flow_core::store::MySqlStore::connect(options).await.unwrap();
    let locked = loaded(&store, &locked).await;
    root.execute("BEGIN").await.unwrap();
    lock(&mut root, locked.id).await.unwrap();
    let refused = impatient.cas(rescheduling(&locked)).await;
    assert!(matches!(refused, Err(StoreError::Unavailable { .. })), "{refused:?}");
    root.execute("ROLLBACK").await.unwrap();
    assert_eq!(loaded(&store, &locked).await, locked);
    assert_eq!(locked.state, State::Paying);
}

/// Each locked row is waited for in turn; whoever stands far back in the queue hears so instead of waiting for them all.
async fn many_locked_rows_are_answered_in_bounded_time(schema: Schema) {
    const ROWS: i64 = 30;
    const BOUND: Duration = Duration::from_secs(15);
    let mut options = schema.options();
    // Longer than a row is waited for.
    options.statement_timeout_ms = 1_800;
    let store = std::sync::Arc::new(flow_core::store::MySqlStore::connect(options).await.unwrap());
    let mut flows = Vec::new();
    for number in 1..=ROWS {
        flows.push(created(&store, number).await);
    }
    let mut root = schema.root().await;
    root.execute("BEGIN").await.unwrap();
    root.execute("SELECT id FROM internal_pay_flow FOR UPDATE").await.unwrap();
    let writing = flows.iter().map(|flow| {
        let (store, write) = (store.clone(), rescheduling(flow));
        tokio::spawn(async move { store.cas(write).await })
    });
    let writing: Vec<_> = writing.collect();
    let answers = tokio::time::timeout(BOUND, async {
        let mut answers = Vec::new();
        for task in writing {
            answers.push(task.await.unwrap());
        }
        answers
    });
    let answers = answers.await.expect("every write is answered in bounded time");
    for answer in &answers {
        assert!(matches!(answer, Err(StoreError::Unavailable { .. })), "{answer:?}");
    }
    root.execute("ROLLBACK").await.unwrap();
    // Nothing was written, as was said.
    for flow in &flows {
        assert_eq!(loaded(&store, flow).await.version, flow.version);
        assert_eq!(store.cas(rescheduling(flow)).await.unwrap(), CasOutcome::Applied);
    }
}
