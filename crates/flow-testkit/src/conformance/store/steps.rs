//! Steps that the cases are made of.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use flow_core::answer::ErrorCode;
use flow_core::cas::{CasWrite, Change, WriteEvidence};
use flow_core::decide::Transition;
use flow_core::flow::{Flow, RefundReason, Trigger};
use flow_core::ids::FlowId;
use flow_core::ports::{CasOutcome, Created, FlowStore, NewFlow, ScanPage, StoreError};
use flow_core::state::State;

use super::{StoreBench, StoreFactory};
use crate::samples;

pub(super) type Store = Arc<dyn FlowStore>;

/// An empty store; the bench is returned to be kept.
pub(super) async fn fresh(factory: &dyn StoreFactory) -> (Store, StoreBench) {
    let bench = factory.fresh().await;
    (Arc::clone(&bench.store), bench)
}

pub(super) async fn now(store: &Store) -> DateTime<Utc> {
    store.now().await.expect("the database tells its time")
}

/// A first attempt by number, with a deadline ten minutes ahead.
pub(super) async fn new_flow(store: &Store, number: i64) -> NewFlow {
    samples::new_flow(number, now(store).await + TimeDelta::minutes(10))
}

pub(super) async fn create(store: &Store, new: NewFlow) -> Flow {
    match store.create(new).await.expect("the store is up") {
        // Read back: a store may estimate the times that a creation returns.
        Created::Inserted(seen) => load(store, seen.value.id).await,
        refused @ (Created::KeyTaken | Created::TargetTaken) => {
            panic!("the row was not inserted: {refused:?}")
        }
    }
}

/// A row by number, in `WAIT_PAY`.
pub(super) async fn created(store: &Store, number: i64) -> Flow {
    let new = new_flow(store, number).await;
    create(store, new).await
}

/// A row by number, brought to a state over legal edges.
pub(super) async fn created_in(store: &Store, number: i64, state: State) -> Flow {
    let flow = created(store, number).await;
    bring(store, flow, state).await
}

/// Brings a row in `WAIT_PAY` to a state over legal edges.
pub(super) async fn bring(store: &Store, flow: Flow, state: State) -> Flow {
    let mut flow = flow;
    for transition in path_to(&flow, state) {
        flow = apply(store, write(&flow, moved(transition))).await;
    }
    flow
}

fn path_to(flow: &Flow, state: State) -> Vec<Transition> {
    let receipt = samples::receipt_for(flow);
    let enter = Transition::EnterPaying;
    let fail = Transition::FailPayment(ErrorCode::clean("INSUFFICIENT_FUNDS"));
    let paid = Transition::ConfirmPayment(receipt.clone());
    let refund = Transition::DecideRefund(RefundReason::DeadlinePassed);
    match state {
        State::WaitPay => vec![],
        State::Paying => vec![enter],
        State::PayFail => vec![enter, fail],
        State::Payed => vec![enter, paid],
        State::BizSuccess => vec![enter, paid, Transition::ConfirmBusiness],
        State::Refunding => vec![enter, paid, refund],
        State::Refunded => vec![enter, paid, refund, Transition::ConfirmRefund(receipt)],
    }
}

/// One of each transition.
pub(super) fn transitions(flow: &Flow) -> [Transition; 6] {
    [
        Transition::EnterPaying,
        Transition::FailPayment(ErrorCode::clean("INSUFFICIENT_FUNDS")),
        Transition::ConfirmPayment(samples::receipt_for(flow)),
        Transition::ConfirmBusiness,
        Transition::DecideRefund(RefundReason::OwnedByOther),
        Transition::ConfirmRefund(samples::receipt_for(flow)),
    ]
}

pub(super) const fn moved(transition: Transition) -> Change {
    Change::Move { transition, next_in_ms: 1_500 }
}

pub(super) fn rescheduled(retry_count: u32) -> Change {
    Change::Reschedule { next_in_ms: 2_000, retry_count, code: ErrorCode::clean("WALLET.PROCESSING") }
}

/// A write of the row as it is, with no more evidence than an entrance.
pub(super) fn write(flow: &Flow, change: Change) -> CasWrite {
    CasWrite {
        flow_id: flow.id,
        from: flow.state,
        version: flow.version,
        change,
        evidence: WriteEvidence::of(Trigger::Scanner),
    }
}

/// Makes the write and compares the row, in every column, with what [`CasWrite::apply`] says of it. All times of one
/// write are one moment of the database's clock.
pub(super) async fn apply(store: &Store, write: CasWrite) -> Flow {
    let before = load(store, write.flow_id).await;
    let from = now(store).await;
    let outcome = store.cas(write.clone()).await.expect("the store is up");
    assert_eq!(outcome, CasOutcome::Applied, "{write:?}");
    let to = now(store).await;
    let after = load(store, write.flow_id).await;
    assert!((from..=to).contains(&after.updated_at), "written at {}, not in {from}..={to}", after.updated_at);
    assert_eq!(after, write.apply(&before, after.updated_at), "the row is not what apply says: {write:?}");
    after
}

pub(super) async fn load(store: &Store, flow_id: FlowId) -> Flow {
    store.load(flow_id).await.expect("the store is up").value.expect("the row exists")
}

/// The write must be refused by a guard, and neither row nor audit log may show it.
pub(super) async fn refused(store: &Store, write: CasWrite) {
    let before = load(store, write.flow_id).await;
    let events_before = event_count(store, write.flow_id).await;
    match store.cas(write.clone()).await {
        Err(StoreError::Guarded { .. }) => {}
        Ok(outcome) => panic!("an illegal write was answered {outcome:?}: {write:?}"),
        Err(
            error @ (StoreError::Unavailable { .. }
            | StoreError::OutcomeUnknown
            | StoreError::Corrupt { .. }
            | StoreError::Unexpected(_)),
        ) => panic!("an illegal write was answered {error:?}: {write:?}"),
    }
    assert_eq!(load(store, write.flow_id).await, before, "a refused write left a trace: {write:?}");
    assert_eq!(
        event_count(store, write.flow_id).await,
        events_before,
        "a refused write left an event: {write:?}"
    );
}

pub(super) async fn event_count(store: &Store, flow_id: FlowId) -> usize {
    store.events(flow_id, None, 1_000).await.expect("the store is up").len()
}

/// The first page of the whole id space, of rows due `ahead_ms` from now.
pub(super) async fn page(store: &Store, ahead_ms: i64) -> ScanPage {
    let due_by = now(store).await + TimeDelta::milliseconds(ahead_ms);
    ScanPage { partition: 0, partitions: 1, after_id: 0, due_by, limit_rows: 1_000 }
}

pub(super) async fn due(store: &Store, page: ScanPage) -> Vec<FlowId> {
    let due = store.list_due_after(page).await.expect("the store is up");
    due.into_iter().map(|due| due.id).collect()
}
