//! A compare-and-swap as a value: which writes may be made at all, and what they leave.

use chrono::TimeDelta;
use flow_core::answer::ErrorCode;
use flow_core::cas::{CasWrite, Change, HELD_UNTIL, WriteEvidence};
use flow_core::decide::Transition;
use flow_core::flow::{Flow, HoldReason, RefundReason, Trigger};
use flow_core::ids::Version;
use flow_core::state::State;
use flow_testkit::clock::ManualClock;
use flow_testkit::samples;

fn flow_in(state: State) -> Flow {
    samples::flow(1, state, ManualClock::new().now())
}

fn write(flow: &Flow, change: Change) -> CasWrite {
    let evidence = WriteEvidence::of(Trigger::Recon);
    CasWrite { flow_id: flow.id, from: flow.state, version: flow.version, change, evidence }
}

fn moved(transition: Transition) -> Change {
    Change::Move { transition, next_in_ms: 1_000 }
}

fn transitions(flow: &Flow) -> [Transition; 6] {
    [
        Transition::EnterPaying,
        Transition::FailPayment(ErrorCode::clean("NO_FUNDS")),
        Transition::ConfirmPayment(samples::receipt_for(flow)),
        Transition::ConfirmBusiness,
        Transition::DecideRefund(RefundReason::Cancelled),
        Transition::ConfirmRefund(samples::receipt_for(flow)),
    ]
}

#[test]
fn of_42_moves_six_are_legal() {
    let mut legal = Vec::new();
    for state in State::ALL {
        let flow = flow_in(state);
        for transition in transitions(&flow) {
            let write = write(&flow, moved(transition));
            if write.is_legal() {
                legal.push((write.from.as_str(), write.to().as_str()));
            }
        }
    }
    let edges = [
        ("WAIT_PAY", "PAYING"),
        ("PAYING", "PAY_FAIL"),
        ("PAYING", "PAYED"),
        ("PAYED", "BIZ_SUCCESS"),
        ("PAYED", "REFUNDING"),
        ("REFUNDING", "REFUNDED"),
    ];
    assert_eq!(legal, edges);
}

#[test]
fn writes_that_stay_are_legal_on_open_rows_alone() {
    let by = samples::actor("alice");
    let reschedule = Change::Reschedule { next_in_ms: 1, retry_count: 1, code: ErrorCode::clean("X") };
    let hold = Change::Hold { reason: HoldReason::Operator, by: by.clone() };
    let changes =
        [(reschedule, false), (hold, false), (Change::Release, false), (Change::RequestCancel { by }, true)];
    for state in State::ALL {
        for (change, is_cancel) in &changes {
            let write = write(&flow_in(state), change.clone());
            let before_charge = matches!(state, State::WaitPay | State::Paying);
            let expected = if *is_cancel { before_charge } else { !state.is_terminal() };
            assert_eq!(write.is_legal(), expected, "{change:?} in {state}");
            assert_eq!(write.to(), state);
        }
    }
}

#[test]
fn a_write_expects_one_row_one_state_one_version() {
    let flow = flow_in(State::Paying);
    let write = write(&flow, Change::Release);
    assert!(write.matches(&flow));
    assert!(!write.matches(&Flow { version: Version(1), ..flow.clone() }));
    assert!(!write.matches(&Flow { state: State::Payed, ..flow.clone() }));
    assert!(!write.matches(&Flow { id: samples::flow_id(2), ..flow }));
}

#[test]
fn a_move_starts_the_count_over_and_is_due_in_time() {
    let mut flow = flow_in(State::Paying);
    flow.retry_count = 9;
    flow.last_error_code = Some(ErrorCode::clean("UNKNOWN.TIMED_OUT"));
    let now = flow.created_at + TimeDelta::seconds(5);
    let receipt = samples::receipt_for(&flow);
    let next = write(&flow, moved(Transition::ConfirmPayment(receipt.clone()))).apply(&flow, now);
    assert_eq!((next.state, next.version), (State::Payed, flow.version.next()));
    assert_eq!((next.retry_count, next.last_error_code), (0, None));
    assert_eq!((next.state_entered_at, next.updated_at, next.paid_at), (now, now, Some(now)));
    assert_eq!(next.next_retry_time, now + TimeDelta::seconds(1));
    assert_eq!((next.wallet_pay_txn, next.finished_at), (receipt.transaction, None));
}

#[test]
fn a_refund_freezes_its_terms_and_its_entrance() {
    let flow = flow_in(State::Payed);
    let next = write(&flow, moved(Transition::DecideRefund(RefundReason::OwnedByOther)))
        .apply(&flow, flow.created_at);
    let terms = next.refund.expect("the terms are frozen with the decision");
    assert_eq!(terms.amount, flow.money.amount(), "always the whole charge");
    assert_eq!((terms.reason, terms.source), (RefundReason::OwnedByOther, Trigger::Recon));
}

#[test]
fn a_hold_rests_until_it_is_released_and_keeps_the_state() {
    let flow = flow_in(State::Refunding);
    let hold = Change::Hold { reason: HoldReason::RefundRefused, by: samples::actor("system") };
    let held = write(&flow, hold).apply(&flow, flow.created_at);
    assert_eq!((held.state, held.next_retry_time), (State::Refunding, HELD_UNTIL));
    let now = flow.created_at + TimeDelta::days(3);
    let released = write(&held, Change::Release).apply(&held, now);
    assert_eq!((released.hold, released.retry_count, released.next_retry_time), (None, 0, now));
}

#[test]
fn no_write_touches_identity_money_or_deadline() {
    let by = samples::actor("alice");
    for state in State::ALL {
        let flow = flow_in(state);
        let mut changes: Vec<Change> = transitions(&flow).into_iter().map(moved).collect();
        changes.push(Change::Release);
        changes.push(Change::Hold { reason: HoldReason::Operator, by: by.clone() });
        changes.push(Change::RequestCancel { by: by.clone() });
        changes.push(Change::Reschedule {
            next_in_ms: u64::MAX,
            retry_count: 1,
            code: ErrorCode::clean("X"),
        });
        for write in changes.into_iter().map(|change| write(&flow, change)).filter(CasWrite::is_legal) {
            let next = write.apply(&flow, flow.created_at);
            assert_eq!((next.id, &next.target, next.attempt_no), (flow.id, &flow.target, flow.attempt_no));
            assert_eq!(
                (&next.trade_order_no, &next.refund_order_no),
                (&flow.trade_order_no, &flow.refund_order_no)
            );
            assert_eq!(
                (&next.money, next.deadline, next.created_at),
                (&flow.money, flow.deadline, flow.created_at)
            );
            assert_eq!(
                (&next.wallet, &next.business, &next.context),
                (&flow.wallet, &flow.business, &flow.context)
            );
            assert_eq!((&next.caller, next.version), (&flow.caller, flow.version.next()));
        }
    }
}
