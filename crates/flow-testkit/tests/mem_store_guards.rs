//! The in-memory store's guards refuse what the database's triggers refuse, also to a by-hand write; and its scripted
//! failures leave exactly what they say.

use chrono::TimeDelta;
use flow_core::answer::ErrorCode;
use flow_core::cas::{CasWrite, Change, WriteEvidence};
use flow_core::flow::{Flow, Trigger};
use flow_core::ids::Version;
use flow_core::ports::{CasOutcome, Created, FlowStore as _, StoreError};
use flow_core::state::{Edge, State};
use flow_testkit::clock::ManualClock;
use flow_testkit::ledger_check::check;
use flow_testkit::mem_store::{MemStore, StoreFault, StoreOp};
use flow_testkit::samples;

fn created(store: &MemStore, number: i64) -> Flow {
    let deadline = store.clock().now() + TimeDelta::minutes(10);
    let created = store.create_now(samples::new_flow(number, deadline));
    let Created::Inserted(seen) = created else { panic!("{created:?}") };
    seen.value
}

/// Brings a row to a state by hand, over legal edges.
fn bring_by_hand(store: &MemStore, flow: &Flow, state: State) {
    let path: &[State] = match state {
        State::WaitPay => &[],
        State::Paying => &[State::Paying],
        State::PayFail => &[State::Paying, State::PayFail],
        State::Payed => &[State::Paying, State::Payed],
        State::BizSuccess => &[State::Paying, State::Payed, State::BizSuccess],
        State::Refunding => &[State::Paying, State::Payed, State::Refunding],
        State::Refunded => &[State::Paying, State::Payed, State::Refunding, State::Refunded],
    };
    for step in path {
        store.write_by_hand(flow.id, |row| row.state = *step).expect("a legal edge");
    }
}

#[test]
fn of_49_pairs_written_by_hand_six_change_the_state() {
    let mut accepted = 0;
    for from in State::ALL {
        for to in State::ALL {
            let store = MemStore::new(ManualClock::new());
            let flow = created(&store, 1);
            bring_by_hand(&store, &flow, from);
            let written = store.write_by_hand(flow.id, |row| row.state = to);
            let expected = from == to || Edge::between(from, to).is_some();
            assert_eq!(written.is_ok(), expected, "{from} -> {to}: {written:?}");
            let now = store.flow(flow.id).expect("the row exists").state;
            assert_eq!(now, if expected { to } else { from });
            accepted += usize::from(from != to && expected);
        }
    }
    assert_eq!(accepted, 6);
}

#[test]
fn identity_money_and_deadline_cannot_be_written_by_hand() {
    let store = MemStore::new(ManualClock::new());
    let flow = created(&store, 1);
    let edits: [fn(&mut Flow); 7] = [
        |row| row.money = samples::cny(1),
        |row| row.deadline += TimeDelta::hours(1),
        |row| row.target = samples::target(2, "other"),
        |row| row.caller = samples::caller_named("other-shop"),
        |row| row.wallet = samples::business_name(),
        |row| row.attempt_no = row.attempt_no.next(),
        |row| row.context = None,
    ];
    for edit in edits {
        let refused = store.write_by_hand(flow.id, edit);
        assert!(matches!(refused, Err(StoreError::Guarded { .. })), "{refused:?}");
    }
    assert_eq!(store.flow(flow.id), Some(flow));
}

#[test]
fn a_by_hand_write_is_audited_and_loses_the_machines_race() {
    let store = MemStore::new(ManualClock::new());
    let flow = created(&store, 1);
    store.write_by_hand(flow.id, |row| row.state = State::Paying).expect("a legal edge");
    let events = store.all_events();
    assert_eq!(events.last().map(|event| event.trigger.as_str()), Some("BY_HAND"));
    assert_eq!(store.cas_now(&reschedule(&flow)).expect("a legal write"), CasOutcome::Lost);
    let broken = check(&store.flows(), &events, |_| flow_testkit::ledger_check::OrderFacts::default());
    assert_eq!(broken, []);
}

fn reschedule(flow: &Flow) -> CasWrite {
    let change = Change::Reschedule { next_in_ms: 1, retry_count: 1, code: ErrorCode::clean("X") };
    let evidence = WriteEvidence::of(Trigger::Scanner);
    CasWrite { flow_id: flow.id, from: flow.state, version: flow.version, change, evidence }
}

#[tokio::test]
async fn scripted_failures_leave_exactly_what_they_say() {
    let faults = [
        (StoreFault::Unavailable, Version(0)),
        (StoreFault::OutcomeUnknown { happened: false }, Version(0)),
        (StoreFault::OutcomeUnknown { happened: true }, Version(1)),
    ];
    for (fault, version) in faults {
        let store = MemStore::new(ManualClock::new());
        let flow = created(&store, 1);
        store.fail_next(StoreOp::Cas, fault);
        let failed = store.cas(reschedule(&flow)).await;
        let unknown = matches!(failed, Err(StoreError::OutcomeUnknown));
        assert_eq!(unknown, fault != StoreFault::Unavailable, "{failed:?}");
        assert_eq!(store.flow(flow.id).map(|row| row.version), Some(version), "{fault:?}");
    }
}

#[tokio::test]
async fn a_hook_can_win_the_race_right_before_a_write() {
    let store = MemStore::new(ManualClock::new());
    let flow = created(&store, 1);
    let theirs = reschedule(&flow);
    store.before_next(StoreOp::Cas, move |store| {
        assert_eq!(store.cas_now(&theirs).expect("a legal write"), CasOutcome::Applied);
    });
    assert_eq!(store.cas(reschedule(&flow)).await.expect("the store is up"), CasOutcome::Lost);
    assert_eq!(store.calls(StoreOp::Cas), 1);
}

#[tokio::test]
async fn a_hook_can_make_an_answer_old() {
    let store = MemStore::new(ManualClock::new());
    let flow = created(&store, 1);
    let theirs = reschedule(&flow);
    store.after_next(StoreOp::Load, move |store| {
        assert_eq!(store.cas_now(&theirs).expect("a legal write"), CasOutcome::Applied);
    });
    let seen = store.load(flow.id).await.expect("the store is up").value;
    assert_eq!(seen, Some(flow.clone()), "what was read before the other write");
    assert_eq!(store.flow(flow.id).map(|row| row.version), Some(Version(1)));
}

#[tokio::test]
async fn a_broken_connection_takes_its_lease_along() {
    let store = MemStore::new(ManualClock::new());
    let mut lease = store.try_lease(0, 1).await.expect("the store is up").expect("nobody holds it");
    store.break_leases();
    assert!(!lease.still_held().await);
    let mut next = store.try_lease(0, 1).await.expect("the store is up").expect("it is free");
    lease.release().await;
    assert!(next.still_held().await, "the old holder's release takes nothing from the new one");
}
