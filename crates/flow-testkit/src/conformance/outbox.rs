//! The outbox's suite: rows that come with the change they tell of, claims, settlements, lists.

use std::any::Any;
use std::sync::Arc;

use async_trait::async_trait;
use flow_core::cas::Change;
use flow_core::flow::{Flow, HoldReason};
use flow_core::notify::{Delivery, DeliveryAnswer, EventId, NextStep, NotifiedChange};
use flow_core::ports::{
    CasOutcome, ClaimPage, Claimed, FlowStore, NotifiedCaller, Outbox, OutboxFilter, OutboxRow, Resent,
    Settled, Settlement,
};
use flow_core::state::State;
use tokio::task::JoinSet;

use super::store::steps::{bring, created, created_in, moved, rescheduled, transitions, write};
use crate::samples;

/// Makes outboxes to test.
#[async_trait]
pub trait OutboxFactory: Send + Sync {
    /// An empty store with its outbox.
    async fn fresh(&self) -> OutboxBench;
}

/// An empty store and its outbox under test.
pub struct OutboxBench {
    /// The store whose writes fill the outbox.
    pub store: Arc<dyn FlowStore>,
    /// The outbox.
    pub outbox: Arc<dyn Outbox>,
    /// The same data, as another process sees it.
    pub second: Arc<dyn Outbox>,
    /// Lets so many milliseconds pass by the database's clock.
    pub pass: Arc<dyn Pass>,
    /// Whatever must outlive the case.
    pub keep: Box<dyn Any + Send + Sync>,
}

/// Passing time.
#[async_trait]
pub trait Pass: Send + Sync {
    /// Lets so many milliseconds pass by the database's clock.
    async fn pass_ms(&self, ms: u64);
}

/// The outbox's suite, one test per case.
#[macro_export]
macro_rules! outbox_conformance {
    ($factory:expr) => {
        $crate::conformance_cases! { outbox; $factory;
            every_end_is_told_of_and_nothing_else_that_moves,
            holds_and_releases_are_told_of,
            nobody_is_told_who_did_not_ask,
            a_lost_write_tells_nobody,
            many_ends_at_once_are_each_told_of_once,
            a_claimed_row_is_nobody_elses_until_the_claim_ends,
            of_many_claims_at_once_each_row_goes_to_one,
            one_receivers_backlog_is_in_no_others_way,
            a_settled_row_has_its_answer_and_its_line,
            a_postponed_row_counts_nothing,
            a_settlement_without_the_claim_is_lost,
            a_dead_row_is_sent_again_on_request,
            rows_are_listed_newest_first_in_pages,
            what_is_owed_is_summarised_by_receiver,
        }
    };
}

async fn fresh(factory: &dyn OutboxFactory) -> OutboxBench {
    let bench = factory.fresh().await;
    let caller = NotifiedCaller { caller: samples::caller(), is_enabled: true };
    bench.outbox.set_callers(&[caller]).await.expect("the store is up");
    bench
}

fn page(limit_rows: u32, claim_ms: u64) -> ClaimPage {
    ClaimPage { caller: samples::caller(), limit_rows, claim_ms }
}

fn id_of(flow: &Flow) -> EventId {
    EventId { flow_id: flow.id, version: flow.version }
}

async fn rows(outbox: &Arc<dyn Outbox>) -> Vec<OutboxRow> {
    outbox.find_notifications(&OutboxFilter::default(), None, 1_000).await.expect("the store is up").rows
}

async fn row(outbox: &Arc<dyn Outbox>, id: EventId) -> OutboxRow {
    let filter = OutboxFilter { id: Some(id), ..OutboxFilter::default() };
    let mut found = outbox.find_notifications(&filter, None, 10).await.expect("the store is up").rows;
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

async fn claim(outbox: &Arc<dyn Outbox>, limit_rows: u32, claim_ms: u64) -> Vec<Claimed> {
    outbox.claim_due(page(limit_rows, claim_ms)).await.expect("the store is up")
}

fn settlement(claimed: &Claimed, code: u16, next: NextStep) -> Settlement {
    Settlement {
        id: claimed.notification.id,
        claim: claimed.claim.clone(),
        answer: DeliveryAnswer::Status { code, retry_after_ms: None },
        latency_ms: 7,
        next,
    }
}

/// One row for every terminal state, with the version that ended it; none for a step on the way or a reschedule.
pub async fn every_end_is_told_of_and_nothing_else_that_moves(factory: &dyn OutboxFactory) {
    let bench = fresh(factory).await;
    let mut ended = Vec::new();
    for (number, state) in (1..).zip(State::ALL) {
        let flow = created_in(&bench.store, number, state).await;
        if state.is_terminal() {
            ended.push(flow);
        } else if state != State::WaitPay {
            let outcome = bench.store.cas(write(&flow, rescheduled(1))).await.expect("the store is up");
            assert_eq!(outcome, CasOutcome::Applied);
        }
    }
    let told = rows(&bench.outbox).await;
    assert_eq!(told.len(), ended.len(), "{told:?}");
    for flow in ended {
        let row = row(&bench.outbox, id_of(&flow)).await;
        let said = &row.notification;
        assert_eq!((said.change, said.state), (NotifiedChange::Ended, flow.state));
        assert_eq!(
            (&said.caller, said.user_id, &said.scene),
            (&flow.caller, flow.target.user_id, &flow.target.scene)
        );
        assert_eq!((&said.biz_key, &said.trade_order_no), (&flow.target.biz_key, &flow.trade_order_no));
        assert_eq!(said.at, flow.updated_at);
        assert_eq!((row.delivery, row.attempts, row.tries), (Delivery::Pending, 0, 0));
        assert_eq!((row.last_answer, row.delivered_at, row.resent_by), (None, None, None));
    }
}

/// A hold and its release are two rows of two versions, with the state that the flow keeps.
pub async fn holds_and_releases_are_told_of(factory: &dyn OutboxFactory) {
    let bench = fresh(factory).await;
    let flow = created_in(&bench.store, 1, State::Payed).await;
    let hold = Change::Hold { reason: HoldReason::Operator, by: samples::actor("alice") };
    for change in [hold, Change::Release] {
        let now = bench.store.load(flow.id).await.expect("the store is up").value.expect("it is there");
        assert_eq!(bench.store.cas(write(&now, change)).await.expect("the store is up"), CasOutcome::Applied);
    }
    let told: Vec<_> = rows(&bench.outbox).await.into_iter().map(|row| row.notification).collect();
    let said: Vec<_> = told.iter().map(|said| (said.id.version.0, said.change, said.state)).collect();
    let version = flow.version.0;
    assert_eq!(
        said,
        [
            (version + 2, NotifiedChange::Released, State::Payed),
            (version + 1, NotifiedChange::Held, State::Payed),
        ]
    );
}

/// Neither who was never named nor who was switched off; a change of the switch counts from then on.
pub async fn nobody_is_told_who_did_not_ask(factory: &dyn OutboxFactory) {
    let bench = factory.fresh().await;
    let switch = async |is_enabled| {
        let caller = NotifiedCaller { caller: samples::caller(), is_enabled };
        bench.outbox.set_callers(&[caller]).await.expect("the store is up");
    };
    let other = NotifiedCaller { caller: samples::caller_named("other"), is_enabled: true };
    bench.outbox.set_callers(&[other]).await.expect("the store is up");
    created_in(&bench.store, 1, State::PayFail).await;
    switch(true).await;
    let told = created_in(&bench.store, 2, State::PayFail).await;
    switch(false).await;
    created_in(&bench.store, 3, State::PayFail).await;
    let ids: Vec<_> = rows(&bench.outbox).await.into_iter().map(|row| row.notification.id).collect();
    assert_eq!(ids, [id_of(&told)]);
}

/// No change, nothing to tell.
pub async fn a_lost_write_tells_nobody(factory: &dyn OutboxFactory) {
    let bench = fresh(factory).await;
    let flow = created_in(&bench.store, 1, State::Paying).await;
    let fail = transitions(&flow)[1].clone();
    let mut late = write(&flow, moved(fail));
    late.version = late.version.next();
    assert_eq!(bench.store.cas(late).await.expect("the store is up"), CasOutcome::Lost);
    assert_eq!(rows(&bench.outbox).await, []);
}

/// Writes that share a commit write their rows in it.
pub async fn many_ends_at_once_are_each_told_of_once(factory: &dyn OutboxFactory) {
    let bench = fresh(factory).await;
    let mut ending = JoinSet::new();
    for number in 1..=24 {
        let flow = created_in(&bench.store, number, State::Paying).await;
        let (store, fail) = (Arc::clone(&bench.store), transitions(&flow)[1].clone());
        ending.spawn(async move { store.cas(write(&flow, moved(fail))).await.expect("the store is up") });
    }
    let outcomes = ending.join_all().await;
    assert!(outcomes.iter().all(|outcome| *outcome == CasOutcome::Applied), "{outcomes:?}");
    assert_eq!(rows(&bench.outbox).await.len(), 24);
}

/// Not due for anybody while it is claimed; due again when the claim has ended.
pub async fn a_claimed_row_is_nobody_elses_until_the_claim_ends(factory: &dyn OutboxFactory) {
    let bench = fresh(factory).await;
    created_in(&bench.store, 1, State::PayFail).await;
    let first = claim(&bench.outbox, 10, 400).await;
    assert_eq!(first.len(), 1);
    assert_eq!(claim(&bench.second, 10, 400).await, []);
    bench.pass.pass_ms(500).await;
    let second = claim(&bench.second, 10, 60_000).await;
    assert_eq!(second.len(), 1);
    assert_eq!(second[0].notification, first[0].notification);
    assert_ne!(second[0].claim, first[0].claim);
}

/// Two processes claim at once, again and again: every row goes to exactly one claim.
pub async fn of_many_claims_at_once_each_row_goes_to_one(factory: &dyn OutboxFactory) {
    let bench = fresh(factory).await;
    for number in 1..=30 {
        created_in(&bench.store, number, State::PayFail).await;
    }
    let mut claiming = JoinSet::new();
    for n in 0..12 {
        let outbox = Arc::clone(if n % 2 == 0 { &bench.outbox } else { &bench.second });
        claiming.spawn(async move { claim(&outbox, 7, 60_000).await });
    }
    let mut ids: Vec<EventId> =
        claiming.join_all().await.into_iter().flatten().map(|c| c.notification.id).collect();
    loop {
        let more = claim(&bench.outbox, 7, 60_000).await;
        if more.is_empty() {
            break;
        }
        ids.extend(more.into_iter().map(|claimed| claimed.notification.id));
    }
    ids.sort();
    let claims = ids.len();
    ids.dedup();
    assert_eq!((claims, ids.len()), (30, 30));
}

/// What is due for one is found past whatever waits for another.
pub async fn one_receivers_backlog_is_in_no_others_way(factory: &dyn OutboxFactory) {
    let bench = fresh(factory).await;
    let other = NotifiedCaller { caller: samples::caller_named("other"), is_enabled: true };
    bench.outbox.set_callers(&[other]).await.expect("the store is up");
    for number in 1..=5 {
        created_in(&bench.store, number, State::PayFail).await;
    }
    let mut new = super::store::steps::new_flow(&bench.store, 6).await;
    new.caller = samples::caller_named("other");
    let flow = super::store::steps::create(&bench.store, new).await;
    let flow = bring(&bench.store, flow, State::PayFail).await;
    let page = ClaimPage { caller: samples::caller_named("other"), limit_rows: 1, claim_ms: 60_000 };
    let claimed = bench.outbox.claim_due(page).await.expect("the store is up");
    assert_eq!(claimed.iter().map(|claimed| claimed.notification.id).collect::<Vec<_>>(), [id_of(&flow)]);
}

/// Delivered, tried again later, given up: each with a line of the attempt.
pub async fn a_settled_row_has_its_answer_and_its_line(factory: &dyn OutboxFactory) {
    let bench = fresh(factory).await;
    let flow = created_in(&bench.store, 1, State::PayFail).await;
    let id = id_of(&flow);
    for (tries, (code, next)) in
        [(503, NextStep::Retry { in_ms: 0 }), (500, NextStep::Retry { in_ms: 60_000 })]
            .into_iter()
            .enumerate()
    {
        let claimed = claim(&bench.outbox, 1, 60_000).await;
        assert_eq!(claimed[0].tries as usize, tries);
        let settled =
            bench.outbox.settle(settlement(&claimed[0], code, next)).await.expect("the store is up");
        assert_eq!(settled, Settled::Written);
    }
    assert_eq!(claim(&bench.outbox, 1, 60_000).await, [], "not due yet");
    let pending = row(&bench.outbox, id).await;
    assert_eq!((pending.delivery, pending.attempts, pending.tries), (Delivery::Pending, 2, 2));
    assert_eq!((pending.last_answer.as_deref(), pending.last_http_status), (Some("FAILED"), Some(500)));

    let other = created_in(&bench.store, 2, State::PayFail).await;
    let claimed = claim(&bench.outbox, 1, 60_000).await;
    bench.outbox.settle(settlement(&claimed[0], 204, NextStep::Delivered)).await.expect("the store is up");
    let delivered = row(&bench.outbox, id_of(&other)).await;
    assert_eq!((delivered.delivery, delivered.attempts), (Delivery::Delivered, 1));
    assert!(delivered.delivered_at.is_some() && delivered.last_attempt_at.is_some());

    let lines = bench.outbox.attempts(id, 0, 10).await.expect("the store is up");
    let said: Vec<_> = lines
        .iter()
        .map(|line| (line.attempt_no, line.answer.as_str(), line.http_status, line.latency_ms))
        .collect();
    assert_eq!(said, [(1, "FAILED", Some(503), 7), (2, "FAILED", Some(500), 7)]);
    assert_eq!(bench.outbox.attempts(id, 1, 10).await.expect("the store is up"), lines[1..]);
    assert_eq!(bench.outbox.attempts(id, 0, 1).await.expect("the store is up"), lines[..1]);
}

/// Our own gate let nothing out: no attempt, no line, due again.
pub async fn a_postponed_row_counts_nothing(factory: &dyn OutboxFactory) {
    let bench = fresh(factory).await;
    let flow = created_in(&bench.store, 1, State::PayFail).await;
    let claimed = claim(&bench.outbox, 1, 60_000).await;
    let postponed = Settlement {
        answer: DeliveryAnswer::NotSent { wait_ms: 1 },
        ..settlement(&claimed[0], 0, NextStep::Postponed { in_ms: 0 })
    };
    assert_eq!(bench.outbox.settle(postponed).await.expect("the store is up"), Settled::Written);
    let row = row(&bench.outbox, id_of(&flow)).await;
    assert_eq!((row.delivery, row.attempts, row.last_answer), (Delivery::Pending, 0, None));
    assert_eq!(bench.outbox.attempts(id_of(&flow), 0, 10).await.expect("the store is up"), []);
    assert_eq!(claim(&bench.outbox, 1, 60_000).await.len(), 1);
}

/// Settled once; and not by one whose claim has gone to somebody else.
pub async fn a_settlement_without_the_claim_is_lost(factory: &dyn OutboxFactory) {
    let bench = fresh(factory).await;
    let flow = created_in(&bench.store, 1, State::PayFail).await;
    let first = claim(&bench.outbox, 1, 200).await.remove(0);
    bench.pass.pass_ms(300).await;
    let second = claim(&bench.second, 1, 60_000).await.remove(0);
    let settle = async |claimed: &Claimed, next| {
        bench.outbox.settle(settlement(claimed, 200, next)).await.expect("the store is up")
    };
    assert_eq!(settle(&first, NextStep::Dead).await, Settled::ClaimLost);
    assert_eq!(settle(&second, NextStep::Delivered).await, Settled::Written);
    assert_eq!(settle(&second, NextStep::Dead).await, Settled::ClaimLost);
    let row = row(&bench.outbox, id_of(&flow)).await;
    assert_eq!((row.delivery, row.attempts), (Delivery::Delivered, 1));
}

/// The schedule starts over, the count of attempts goes on; a pending one is left alone.
pub async fn a_dead_row_is_sent_again_on_request(factory: &dyn OutboxFactory) {
    let bench = fresh(factory).await;
    let flow = created_in(&bench.store, 1, State::PayFail).await;
    let (id, by) = (id_of(&flow), samples::actor("bob"));
    let resend = async |id| bench.outbox.resend(id, &by).await.expect("the store is up");
    assert_eq!(resend(id).await, Resent::Pending);
    let claimed = claim(&bench.outbox, 1, 60_000).await.remove(0);
    bench.outbox.settle(settlement(&claimed, 410, NextStep::Dead)).await.expect("the store is up");
    assert_eq!(claim(&bench.outbox, 1, 60_000).await, [], "given up");
    assert_eq!(resend(id).await, Resent::Queued);
    let queued = row(&bench.outbox, id).await;
    assert_eq!((queued.delivery, queued.attempts, queued.tries), (Delivery::Pending, 1, 0));
    assert_eq!(queued.resent_by.as_deref(), Some("bob"));
    let claimed = claim(&bench.outbox, 1, 60_000).await.remove(0);
    bench.outbox.settle(settlement(&claimed, 200, NextStep::Delivered)).await.expect("the store is up");
    let lines = bench.outbox.attempts(id, 0, 10).await.expect("the store is up");
    assert_eq!(lines.iter().map(|line| line.attempt_no).collect::<Vec<_>>(), [1, 2]);
    let nobody = EventId { version: id.version.next(), ..id };
    assert_eq!(resend(nobody).await, Resent::NotFound);
}

/// By outcome and by application, with a cursor.
pub async fn rows_are_listed_newest_first_in_pages(factory: &dyn OutboxFactory) {
    let bench = fresh(factory).await;
    let mut ids = Vec::new();
    for number in 1..=5 {
        ids.push(id_of(&created_in(&bench.store, number, State::PayFail).await));
    }
    ids.reverse();
    let first = claim(&bench.outbox, 1, 60_000).await.remove(0);
    bench.outbox.settle(settlement(&first, 404, NextStep::Dead)).await.expect("the store is up");
    let list = async |filter: OutboxFilter, before, limit_rows| {
        let page =
            bench.outbox.find_notifications(&filter, before, limit_rows).await.expect("the store is up");
        (page.rows.iter().map(|row| row.notification.id).collect::<Vec<_>>(), page.has_more)
    };
    let all = OutboxFilter::default();
    assert_eq!(list(all.clone(), None, 2).await, (ids[..2].to_vec(), true));
    assert_eq!(list(all.clone(), Some(ids[1]), 3).await, (ids[2..].to_vec(), false));
    let dead = OutboxFilter { delivery: Some(Delivery::Dead), ..all.clone() };
    assert_eq!(list(dead, None, 10).await, (vec![first.notification.id], false));
    let other = OutboxFilter { caller: Some(samples::caller_named("other")), ..all };
    assert_eq!(list(other, None, 10).await, (vec![], false));
}

/// Pending with the oldest age, dead; delivered is owed no more.
pub async fn what_is_owed_is_summarised_by_receiver(factory: &dyn OutboxFactory) {
    let bench = fresh(factory).await;
    created(&bench.store, 9).await;
    assert_eq!(bench.outbox.summarise_outbox().await.expect("the store is up"), []);
    for number in 1..=4 {
        created_in(&bench.store, number, State::PayFail).await;
    }
    bench.pass.pass_ms(50).await;
    let claimed = claim(&bench.outbox, 2, 60_000).await;
    for (claimed, next) in claimed.iter().zip([NextStep::Dead, NextStep::Delivered]) {
        bench.outbox.settle(settlement(claimed, 200, next)).await.expect("the store is up");
    }
    let owed = bench.outbox.summarise_outbox().await.expect("the store is up");
    assert_eq!(owed.len(), 1, "{owed:?}");
    assert_eq!((&owed[0].caller, owed[0].pending_rows, owed[0].dead_rows), (&samples::caller(), 2, 1));
    assert!((50..60_000).contains(&owed[0].oldest_pending_ms), "{owed:?}");
}
