//! Cases: compare-and-swap, guards, audit log.

use flow_core::answer::ErrorCode;
use flow_core::cas::{CasWrite, Change, HELD_UNTIL, WriteEvidence};
use flow_core::decide::Action;
use flow_core::flow::{Flow, HoldReason, RefundReason, Trigger};
use flow_core::ids::{TraceId, Version};
use flow_core::ports::{CasOutcome, FlowEvent};
use flow_core::state::State;

use super::StoreFactory;
use super::steps::{
    Store, apply, created, created_in, event_count, fresh, load, moved, new_flow, refused, rescheduled,
    transitions, write,
};
use crate::samples;

/// All six edges, on the way to each end: the row is what [`CasWrite::apply`] says.
pub async fn every_edge_is_written_as_apply_says(factory: &dyn StoreFactory) {
    let (store, _bench) = fresh(factory).await;
    // `created_in` compares after each write.
    let failed = created_in(&store, 1, State::PayFail).await;
    assert!(failed.finished_at.is_some() && failed.last_error_code.is_some());
    let done = created_in(&store, 2, State::BizSuccess).await;
    assert!(done.finished_at.is_some() && done.paid_at.is_some() && done.wallet_pay_txn.is_some());
    let refunded = created_in(&store, 3, State::Refunded).await;
    let terms = refunded.refund.expect("the terms were frozen when the refund was decided");
    assert_eq!((terms.amount, terms.reason), (100, RefundReason::DeadlinePassed));
    assert_eq!(terms.source, Trigger::Scanner);
    assert!(refunded.wallet_refund_txn.is_some());
}

/// Reschedule, hold, release and cancel: the row is what [`CasWrite::apply`] says.
pub async fn writes_that_stay_are_written_as_apply_says(factory: &dyn StoreFactory) {
    let (store, _bench) = fresh(factory).await;
    let by = samples::actor("alice");
    let flow = created_in(&store, 1, State::Paying).await;
    let flow = apply(&store, write(&flow, rescheduled(7))).await;
    assert_eq!((flow.retry_count, flow.state), (7, State::Paying));
    let flow = apply(&store, write(&flow, Change::RequestCancel { by: by.clone() })).await;
    assert!(flow.cancel.is_some());
    for reason in HoldReason::ALL {
        let flow = load(&store, flow.id).await;
        let held = apply(&store, write(&flow, Change::Hold { reason, by: by.clone() })).await;
        assert_eq!(held.next_retry_time, HELD_UNTIL, "{reason:?}");
        let released = apply(&store, write(&held, Change::Release)).await;
        assert_eq!((released.hold, released.retry_count), (None, 0));
    }
    for reason in RefundReason::ALL {
        let number = 10 + reason as i64;
        let paid = created_in(&store, number, State::Payed).await;
        let transition = flow_core::decide::Transition::DecideRefund(reason);
        let refunding = apply(&store, write(&paid, moved(transition))).await;
        assert_eq!(refunding.refund.map(|terms| terms.reason), Some(reason));
    }
}

/// A write without a downstream reference leaves the last one in place.
pub async fn a_write_keeps_the_last_downstream_reference(factory: &dyn StoreFactory) {
    let (store, _bench) = fresh(factory).await;
    let flow = created_in(&store, 1, State::Paying).await;
    let mut with_reference = write(&flow, rescheduled(1));
    with_reference.evidence.request_id = Some(samples::reference("req-1"));
    let flow = apply(&store, with_reference).await;
    assert_eq!(flow.channel_request_id, Some(samples::reference("req-1")));
    let flow = apply(&store, write(&flow, rescheduled(2))).await;
    assert_eq!(flow.channel_request_id, Some(samples::reference("req-1")));
}

/// Another version, another state, no row at all: lost, and nothing was written.
pub async fn a_write_with_another_version_or_state_is_lost(factory: &dyn StoreFactory) {
    let (store, _bench) = fresh(factory).await;
    let flow = created_in(&store, 1, State::Paying).await;
    let mut stale = write(&flow, rescheduled(1));
    stale.version = Version::FIRST;
    let mut early = write(&flow, rescheduled(1));
    early.version = flow.version.next();
    let mut elsewhere = write(&flow, rescheduled(1));
    elsewhere.from = State::Payed;
    let mut nowhere = write(&flow, rescheduled(1));
    nowhere.flow_id = samples::flow_id(i64::MAX);
    for lost in [stale, early, elsewhere, nowhere] {
        assert_eq!(store.cas(lost.clone()).await.unwrap(), CasOutcome::Lost, "{lost:?}");
    }
    assert_eq!(load(&store, flow.id).await, flow);
    assert_eq!(event_count(&store, flow.id).await, 2);
}

/// Of the 42 pairs of state and transition, the 36 that do not fit are refused.
pub async fn illegal_moves_are_refused_and_leave_nothing(factory: &dyn StoreFactory) {
    let (store, _bench) = fresh(factory).await;
    let mut illegal = 0;
    for (number, state) in (1..).zip(State::ALL) {
        let flow = created_in(&store, number, state).await;
        for transition in transitions(&flow) {
            if transition.edge().from() != state {
                refused(&store, write(&flow, moved(transition))).await;
                illegal += 1;
            }
        }
    }
    assert_eq!(illegal, 36);
}

/// I6: nothing at all is written to a terminal row.
pub async fn terminal_rows_are_never_written(factory: &dyn StoreFactory) {
    let (store, _bench) = fresh(factory).await;
    let by = samples::actor("alice");
    for (number, state) in (1..).zip([State::PayFail, State::BizSuccess, State::Refunded]) {
        let flow = created_in(&store, number, state).await;
        let changes = [
            rescheduled(1),
            Change::Hold { reason: HoldReason::Operator, by: by.clone() },
            Change::Release,
            Change::RequestCancel { by: by.clone() },
        ];
        for change in changes {
            refused(&store, write(&flow, change)).await;
        }
    }
}

/// A cancel is recorded in `WAIT_PAY` and `PAYING` alone.
pub async fn cancelling_is_refused_once_charged(factory: &dyn StoreFactory) {
    let (store, _bench) = fresh(factory).await;
    for (number, state) in (1..).zip(State::ALL) {
        let flow = created_in(&store, number, state).await;
        let cancel = write(&flow, Change::RequestCancel { by: samples::actor("shop") });
        match state {
            State::WaitPay | State::Paying => drop(apply(&store, cancel).await),
            State::PayFail | State::Payed | State::BizSuccess | State::Refunding | State::Refunded => {
                refused(&store, cancel).await;
            }
        }
    }
}

/// I9: one line per version, in order, with what was known of why.
pub async fn every_version_has_its_event_with_the_evidence(factory: &dyn StoreFactory) {
    let (store, _bench) = fresh(factory).await;
    let mut new = new_flow(&store, 1).await;
    new.trace_id = Some(trace("trace-0"));
    let flow = super::steps::create(&store, new).await;
    let flow = apply(&store, with_evidence(&flow, moved(transitions(&flow)[0].clone()), 1)).await;
    let flow = apply(&store, with_evidence(&flow, rescheduled(1), 2)).await;
    let hold = Change::Hold { reason: HoldReason::Operator, by: samples::actor("alice") };
    let flow = apply(&store, with_evidence(&flow, hold, 3)).await;
    let flow = apply(&store, write(&flow, Change::Release)).await;
    let cancel = Change::RequestCancel { by: samples::actor("alice") };
    let flow = apply(&store, with_evidence(&flow, cancel, 5)).await;
    let failed = moved(flow_core::decide::Transition::FailPayment(ErrorCode::clean("NO_FUNDS")));
    let flow = apply(&store, with_evidence(&flow, failed, 6)).await;

    let events = store.events(flow.id, None, 100).await.unwrap();
    let (waiting, paying) = (State::WaitPay, State::Paying);
    let expected = [
        ("CREATED", None, waiting),
        ("STATE", Some(waiting), paying),
        ("RESCHEDULE", Some(paying), paying),
        ("HOLD", Some(paying), paying),
        ("RELEASE", Some(paying), paying),
        ("CANCEL", Some(paying), paying),
        ("STATE", Some(paying), State::PayFail),
    ];
    assert_eq!(events.len(), expected.len(), "one line per version");
    for (version, (event, (kind, from, to))) in (0..).zip(events.iter().zip(expected)) {
        assert_eq!((event.kind.as_str(), event.from, event.to), (kind, from, to), "{event:?}");
        assert_eq!((event.flow_id, event.version), (flow.id, Version(version)), "{event:?}");
        if version == 0 {
            assert_eq!(event.trace_id.as_deref(), Some("trace-0"), "{event:?}");
        } else if version == 4 {
            assert_bare(event);
        } else {
            assert_evidence(event, version);
        }
    }
    assert!(events.is_sorted_by_key(|event| event.at), "the database's clock does not go back");
    assert_eq!(events[2].error_code.as_deref(), Some("WALLET.PROCESSING"));
    assert_eq!(events[6].error_code.as_deref(), Some("NO_FUNDS"));
    assert_eq!(events[6].at, flow.updated_at, "row and line carry one moment");
}

/// Pages of events begin after a version.
pub async fn events_are_paged_by_version(factory: &dyn StoreFactory) {
    let (store, _bench) = fresh(factory).await;
    let mut flow = created(&store, 1).await;
    created_in(&store, 2, State::Payed).await;
    for tries in 1..=4 {
        flow = apply(&store, write(&flow, rescheduled(tries))).await;
    }
    let versions = |events: Vec<FlowEvent>| events.iter().map(|event| event.version.0).collect::<Vec<_>>();
    let page = |after, limit| versions_of(&store, &flow, after, limit);
    assert_eq!(versions(page(None, 2).await), [0, 1]);
    assert_eq!(versions(page(Some(Version(1)), 2).await), [2, 3]);
    assert_eq!(versions(page(Some(Version(3)), 2).await), [4]);
    assert_eq!(versions(page(Some(Version(4)), 2).await), [0_u64; 0]);
    let unknown = store.events(samples::flow_id(i64::MAX), None, 10).await.unwrap();
    assert_eq!(unknown, []);
}

async fn versions_of(store: &Store, flow: &Flow, after: Option<Version>, limit_rows: u32) -> Vec<FlowEvent> {
    store.events(flow.id, after, limit_rows).await.expect("the store is up")
}

fn trace(text: &str) -> TraceId {
    TraceId::new(text).expect("a valid trace id")
}

fn with_evidence(flow: &Flow, change: Change, number: u32) -> CasWrite {
    let evidence = WriteEvidence {
        trigger: Trigger::Wake,
        action: Some(Action::QueryCharge),
        outcome: Some("PROCESSING"),
        request_id: Some(samples::reference(&format!("req-{number}"))),
        latency_ms: Some(100 + number),
        trace_id: Some(trace(&format!("trace-{number}"))),
        actor: Some(samples::actor("alice")),
    };
    CasWrite { evidence, ..write(flow, change) }
}

fn assert_evidence(event: &FlowEvent, number: u64) {
    assert_eq!(event.trigger, "WAKE", "{event:?}");
    assert_eq!(event.action.as_deref(), Some("QUERY_CHARGE"), "{event:?}");
    assert_eq!(event.outcome.as_deref(), Some("PROCESSING"), "{event:?}");
    assert_eq!(event.request_id, Some(format!("req-{number}")), "{event:?}");
    assert_eq!(event.latency_ms.map(u64::from), Some(100 + number), "{event:?}");
    assert_eq!(event.trace_id, Some(format!("trace-{number}")), "{event:?}");
    assert_eq!(event.actor.as_deref(), Some("alice"), "{event:?}");
}

/// Evidence of one write must not show up in the next one's line.
fn assert_bare(event: &FlowEvent) {
    assert_eq!(event.trigger, "SCANNER", "{event:?}");
    assert_eq!((&event.action, &event.outcome, &event.request_id), (&None, &None, &None), "{event:?}");
    assert_eq!((event.latency_ms, &event.trace_id, &event.actor), (None, &None, &None), "{event:?}");
}
