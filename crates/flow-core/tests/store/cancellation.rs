//! Callers that give up at any moment: what was acknowledged is there, and nothing is left half done.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use flow_core::flow::Flow;
use flow_core::ids::TraceId;
use flow_core::ports::{CasOutcome, FlowStore as _};
use flow_core::store::MySqlStore;
use sqlx::MySqlConnection;

use crate::harness::{Schema, created, loaded, on_both_servers, rescheduling};

on_both_servers!(of_2000_cancelled_callers_none_loses_an_acknowledged_write);

const TASKS: u32 = 40;
const ROUNDS: u32 = 50;

async fn of_2000_cancelled_callers_none_loses_an_acknowledged_write(schema: Schema) {
    let mut options = schema.options();
    options.read_connections = 2;
    let store = Arc::new(MySqlStore::connect(options).await.unwrap());
    let acknowledged = Arc::new(AtomicU32::new(0));
    // Follows what a write takes on this machine at this moment, so that about half of the callers give up.
    let patience_us = Arc::new(AtomicU64::new(1_000));
    let mut tasks = Vec::new();
    for number in 0..TASKS {
        let flow = created(&store, i64::from(number) + 1).await;
        let second = schema.root().await;
        let (store, acknowledged, patience_us) = (store.clone(), acknowledged.clone(), patience_us.clone());
        tasks.push(tokio::spawn(async move {
            give_up(number, flow, &store, second, &acknowledged, &patience_us).await;
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let acknowledged = acknowledged.load(Ordering::Relaxed);
    let tried = TASKS * ROUNDS;
    assert!(acknowledged > tried / 20 && acknowledged < tried - tried / 20, "{acknowledged} of {tried}");
    // Nothing is starved or left open.
    for number in 0..TASKS {
        let id = flow_core::ids::FlowId::new(i64::from(number) + 1).unwrap();
        assert!(store.load(id).await.unwrap().value.is_some());
    }
    let mut root = schema.root().await;
    let open: i64 = sqlx::query_scalar(
        "SELECT CAST(COUNT(*) AS SIGNED) FROM information_schema.innodb_trx t \
         JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id WHERE p.db = DATABASE() AND p.command = 'Sleep'",
    )
    .fetch_one(&mut root)
    .await
    .unwrap();
    assert_eq!(open, 0, "transactions left open by idle connections");
}

/// Writes again and again, and gives up after anything from no time to more than a write takes.
async fn give_up(
    number: u32,
    mut flow: Flow,
    store: &MySqlStore,
    mut second: MySqlConnection,
    acknowledged: &AtomicU32,
    patience_us: &AtomicU64,
) {
    for round in 0..ROUNDS {
        let mut write = rescheduling(&flow);
        let trace = format!("{number}.{round}");
        write.evidence.trace_id = Some(TraceId::new(trace.clone()).unwrap());
        let share = u64::from((number * 7919 + round * 104_729) % 1_000);
        let patience = Duration::from_micros(patience_us.load(Ordering::Relaxed) * share / 500);
        match tokio::time::timeout(patience, store.cas(write.clone())).await {
            Ok(outcome) => {
                assert_eq!(outcome.unwrap(), CasOutcome::Applied);
                acknowledged.fetch_add(1, Ordering::Relaxed);
                patience_us
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |us| Some(us - us / 20))
                    .unwrap();
                let found: i64 = sqlx::query_scalar(
                    "SELECT COUNT(*) FROM pay_flow_event e JOIN internal_pay_flow f ON f.id = e.flow_id \
                     WHERE e.flow_id = ? AND e.version = ? AND e.trace_id = ? AND f.version >= e.version",
                )
                .bind(flow.id.get())
                .bind(i64::try_from(flow.version.next().0).unwrap())
                .bind(&trace)
                .fetch_one(&mut second)
                .await
                .unwrap();
                assert_eq!(found, 1, "an acknowledged write is there: {trace}");
                flow = loaded(store, &flow).await;
            }
            Err(_) => {
                patience_us
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |us| Some(us + us / 20 + 1))
                    .unwrap();
                // The write goes on without us. A read that is given up likewise must do no harm.
                drop(tokio::time::timeout(patience / 8, store.load(flow.id)).await);
                while loaded(store, &flow).await.version == flow.version {}
                flow = loaded(store, &flow).await;
            }
        }
    }
}
