//! Cases: many at once, and callers that go away.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use flow_core::cas::CasWrite;
use flow_core::ids::Version;
use flow_core::ports::{CasOutcome, Created, FlowFilter, NewFlow, StoreError};
use flow_core::state::State;
use tokio::task::JoinSet;

use super::StoreFactory;
use super::steps::{Store, created, created_in, event_count, fresh, load, new_flow, rescheduled, write};
use crate::samples;

/// A double click, 64 times over: one row.
pub async fn of_64_equal_creates_one_wins(factory: &dyn StoreFactory) {
    let (store, _bench) = fresh(factory).await;
    let new = new_flow(&store, 1).await;
    let outcomes = create_all(&store, std::iter::repeat_n(new, 64)).await;
    assert_eq!(outcomes.iter().filter(|outcome| is_inserted(outcome)).count(), 1, "{outcomes:?}");
    assert_eq!(rows(&store).await, 1);
}

/// I8 under 64 requests with keys of their own: one row, and the losers hear why.
pub async fn of_64_creates_for_one_target_one_wins(factory: &dyn StoreFactory) {
    let (store, _bench) = fresh(factory).await;
    let new = new_flow(&store, 1).await;
    let requests = (0..64).map(|n| NewFlow { key: samples::key(&format!("key-of-{n}")), ..new.clone() });
    let outcomes = create_all(&store, requests).await;
    assert_eq!(outcomes.iter().filter(|outcome| is_inserted(outcome)).count(), 1, "{outcomes:?}");
    let losers = outcomes.iter().filter(|outcome| matches!(outcome, Created::TargetTaken)).count();
    assert_eq!(losers, 63, "{outcomes:?}");
    assert_eq!(rows(&store).await, 1);
}

/// 64 writers of one version: one is applied, one version and one line are made.
pub async fn of_64_writes_of_one_version_one_is_applied(factory: &dyn StoreFactory) {
    let (store, bench) = fresh(factory).await;
    let flow = created_in(&store, 1, State::Paying).await;
    let mut tasks = JoinSet::new();
    for n in 0..64 {
        let store = Arc::clone(if n % 2 == 0 { &store } else { &bench.second });
        let write = write(&flow, rescheduled(n));
        tasks.spawn(async move { store.cas(write).await.expect("the store is up") });
    }
    let outcomes = tasks.join_all().await;
    let applied = outcomes.iter().filter(|outcome| matches!(outcome, CasOutcome::Applied)).count();
    assert_eq!(applied, 1, "{outcomes:?}");
    assert_eq!(load(&store, flow.id).await.version, flow.version.next());
    assert_eq!(event_count(&store, flow.id).await, 3);
}

/// Writes that arrive together may share a commit, but not each other's failures.
pub async fn a_bad_write_among_many_fails_alone(factory: &dyn StoreFactory) {
    let (store, _bench) = fresh(factory).await;
    let mut tasks = JoinSet::new();
    for number in 0..48 {
        let flow = created(&store, 1 + number).await;
        let mut good_or_bad = write(&flow, rescheduled(1));
        match number % 6 {
            1 => good_or_bad.version = Version(99),
            4 => {
                good_or_bad =
                    write(&flow, super::steps::moved(flow_core::decide::Transition::ConfirmBusiness))
            }
            _ => {}
        }
        let store = Arc::clone(&store);
        tasks.spawn(async move { (number, flow.id, store.cas(good_or_bad).await) });
    }
    for (number, flow_id, outcome) in tasks.join_all().await {
        let version = load(&store, flow_id).await.version;
        match number % 6 {
            1 => assert!(
                matches!(outcome, Ok(CasOutcome::Lost)) && version == Version(0),
                "{number}: {outcome:?}"
            ),
            4 => {
                let guarded = matches!(outcome, Err(StoreError::Guarded { .. }));
                assert!(guarded && version == Version(0), "{number}: {outcome:?}");
            }
            _ => assert!(
                matches!(outcome, Ok(CasOutcome::Applied)) && version == Version(1),
                "{number}: {outcome:?}"
            ),
        }
    }
}

/// A creation whose key is taken does not drag its neighbours down.
pub async fn a_bad_create_among_many_fails_alone(factory: &dyn StoreFactory) {
    let (store, _bench) = fresh(factory).await;
    let first = new_flow(&store, 1_000).await;
    super::steps::create(&store, first.clone()).await;
    let mut requests = Vec::new();
    for number in 0..48 {
        let mut new = new_flow(&store, 1 + number).await;
        if number % 6 == 2 {
            new.key = first.key.clone();
        }
        requests.push(new);
    }
    let outcomes = create_all(&store, requests).await;
    let taken = outcomes.iter().filter(|outcome| matches!(outcome, Created::KeyTaken)).count();
    let inserted = outcomes.iter().filter(|outcome| is_inserted(outcome)).count();
    assert_eq!((inserted, taken), (40, 8), "{outcomes:?}");
    assert_eq!(rows(&store).await, 41);
}

/// A caller that goes away right after it handed a write over does not take it back.
pub async fn a_write_outlives_its_caller(factory: &dyn StoreFactory) {
    let (store, _bench) = fresh(factory).await;
    let flow = created(&store, 1).await;
    poll_once_and_drop(&store, write(&flow, rescheduled(1))).await;
    for _ in 0..1_000 {
        if load(&store, flow.id).await.version == Version(1) {
            assert_eq!(event_count(&store, flow.id).await, 2);
            return;
        }
        // Nobody is left who would be told; look again for at most ten seconds.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("a write that was handed over was not carried out within ten seconds");
}

async fn poll_once_and_drop(store: &Store, write: CasWrite) {
    let mut handed_over = store.cas(write);
    poll_fn(|context| {
        // Its answer, if it is there already, is dropped with it.
        drop(handed_over.as_mut().poll(context));
        Poll::Ready(())
    })
    .await;
}

async fn create_all(store: &Store, requests: impl IntoIterator<Item = NewFlow>) -> Vec<Created> {
    let mut tasks = JoinSet::new();
    for new in requests {
        let store = Arc::clone(store);
        tasks.spawn(async move { store.create(new).await.expect("no deadlock, no duplicate key escapes") });
    }
    tasks.join_all().await
}

fn is_inserted(outcome: &Created) -> bool {
    matches!(outcome, Created::Inserted(_))
}

async fn rows(store: &Store) -> usize {
    store.find(&FlowFilter::default(), None, 1_000).await.expect("the store is up").flows.len()
}
