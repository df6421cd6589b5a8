//! The ledger check finds nothing in a story that is right, and each kind of broken promise in one that is not.

use chrono::TimeDelta;
use flow_core::answer::ErrorCode;
use flow_core::cas::{CasWrite, Change, HELD_UNTIL, WriteEvidence};
use flow_core::decide::Transition;
use flow_core::flow::{Flow, RefundReason, Trigger};
use flow_core::ids::AttemptNo;
use flow_core::ports::{CasOutcome, Created, FlowEvent};
use flow_core::state::State;
use flow_testkit::clock::ManualClock;
use flow_testkit::ledger_check::{Invariant, OrderFacts, assert_none, check, check_settled};
use flow_testkit::mem_store::MemStore;
use flow_testkit::samples;

/// One flow in each state, with an audit log that tells how it came there.
fn stories() -> (Vec<Flow>, Vec<FlowEvent>) {
    let store = MemStore::new(ManualClock::new());
    for (number, state) in (1..).zip(State::ALL) {
        let deadline = store.clock().now() + TimeDelta::minutes(10);
        let created = store.create_now(samples::new_flow(number, deadline));
        let Created::Inserted(seen) = created else { panic!("{created:?}") };
        let mut flow = seen.value;
        for transition in path_to(&flow, state) {
            let change = Change::Move { transition, next_in_ms: 1_000 };
            let evidence = WriteEvidence::of(Trigger::Scanner);
            let write =
                CasWrite { flow_id: flow.id, from: flow.state, version: flow.version, change, evidence };
            assert_eq!(store.cas_now(&write).expect("a legal write"), CasOutcome::Applied);
            flow = store.flow(flow.id).expect("the row exists");
        }
    }
    (store.flows(), store.all_events())
}

fn path_to(flow: &Flow, state: State) -> Vec<Transition> {
    let enter = Transition::EnterPaying;
    let paid = Transition::ConfirmPayment(samples::receipt_for(flow));
    let refund = Transition::DecideRefund(RefundReason::DeadlinePassed);
    match state {
        State::WaitPay => vec![],
        State::Paying => vec![enter],
        State::PayFail => vec![enter, Transition::FailPayment(ErrorCode::clean("NO_FUNDS"))],
        State::Payed => vec![enter, paid],
        State::BizSuccess => vec![enter, paid, Transition::ConfirmBusiness],
        State::Refunding => vec![enter, paid, refund],
        State::Refunded => vec![enter, paid, refund, Transition::ConfirmRefund(samples::receipt_for(flow))],
    }
}

/// What the far side should have done by the time a flow is in its state.
fn truth(flow: &Flow) -> OrderFacts {
    let (amount, currency) = (flow.money.amount(), flow.money.currency().as_str().to_owned());
    let charge = vec![(amount, currency.clone())];
    let refund = vec![(flow.refund_order_no.as_str().to_owned(), amount, currency)];
    let nothing = OrderFacts::default();
    match flow.state {
        State::WaitPay | State::Paying | State::PayFail => nothing,
        State::Payed | State::Refunding => OrderFacts { charges: charge, ..nothing },
        State::BizSuccess => OrderFacts {
            charges: charge,
            grants: 1,
            owner_of_target: Some(flow.trade_order_no.as_str().to_owned()),
            ..nothing
        },
        State::Refunded => OrderFacts { charges: charge, refunds: refund, ..nothing },
    }
}

/// What is found when the facts of the flow in `state` are spoilt.
fn found_with_facts(state: State, spoil: impl Fn(&mut OrderFacts)) -> Vec<Invariant> {
    let (flows, events) = stories();
    let facts = |flow: &Flow| {
        let mut facts = truth(flow);
        if flow.state == state {
            spoil(&mut facts);
        }
        facts
    };
    kinds(&check(&flows, &events, facts))
}

fn found_with(spoil: impl Fn(&mut Vec<Flow>, &mut Vec<FlowEvent>)) -> Vec<Invariant> {
    let (mut flows, mut events) = stories();
    spoil(&mut flows, &mut events);
    kinds(&check(&flows, &events, truth))
}

fn kinds(violations: &[flow_testkit::ledger_check::Violation]) -> Vec<Invariant> {
    let mut kinds: Vec<Invariant> = violations.iter().map(|violation| violation.invariant).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

fn in_state(flows: &mut [Flow], state: State) -> &mut Flow {
    flows.iter_mut().find(|flow| flow.state == state).expect("one story per state")
}

#[test]
fn a_story_that_is_right_breaks_no_promise() {
    let (flows, events) = stories();
    assert_none(&check(&flows, &events, truth));
    let open = check_settled(&flows, &events, truth);
    assert_eq!((kinds(&open), open.len()), (vec![Invariant::Settled], 4), "four rows are not terminal");
}

#[test]
fn double_and_wrong_charges_break_i1() {
    for state in [State::Payed, State::BizSuccess] {
        let found = found_with_facts(state, |facts| facts.charges.push((100, "CNY".to_owned())));
        assert!(found.contains(&Invariant::I1), "{state}: {found:?}");
    }
    let wrong = found_with_facts(State::Payed, |facts| facts.charges[0].0 = 99);
    assert_eq!(wrong, [Invariant::I1]);
    let unheard = found_with_facts(State::Payed, |facts| facts.charges.clear());
    assert_eq!(unheard, [Invariant::I1]);
    let early = found_with_facts(State::WaitPay, |facts| facts.charges.push((100, "CNY".to_owned())));
    assert_eq!(early, [Invariant::I1]);
}

#[test]
fn double_refunds_and_foreign_numbers_break_i2() {
    let twice = found_with_facts(State::Refunded, |facts| facts.refunds.push(facts.refunds[0].clone()));
    assert!(twice.contains(&Invariant::I2), "{twice:?}");
    let foreign = found_with_facts(State::Refunded, |facts| facts.refunds[0].0 = "r_other".to_owned());
    assert_eq!(foreign, [Invariant::I2]);
}

#[test]
fn a_refunded_or_empty_success_breaks_i3() {
    let refund = ("r_h2r_5_5".to_owned(), 100, "CNY".to_owned());
    let refunded = found_with_facts(State::BizSuccess, |facts| facts.refunds.push(refund.clone()));
    assert!(refunded.contains(&Invariant::I3), "{refunded:?}");
    let unowned = found_with_facts(State::BizSuccess, |facts| {
        facts.grants = 0;
        facts.owner_of_target = None;
    });
    assert_eq!(unowned, [Invariant::I3]);
    let free = found_with_facts(State::BizSuccess, |facts| facts.charges.clear());
    assert_eq!(free, [Invariant::I3]);
}

#[test]
fn a_refund_beside_a_benefit_or_without_money_breaks_i4() {
    let owned = found_with_facts(State::Refunded, |facts| facts.grants = 1);
    assert_eq!(owned, [Invariant::I4]);
    let unpaid = found_with_facts(State::Refunded, |facts| facts.refunds.clear());
    assert_eq!(unpaid, [Invariant::I4]);
    let about_to = found_with_facts(State::Refunding, |facts| facts.grants = 1);
    assert_eq!(about_to, [Invariant::I4]);
    let unfrozen = found_with(|flows, _| in_state(flows, State::Refunding).refund = None);
    assert_eq!(unfrozen, [Invariant::I4]);
}

#[test]
fn a_charge_that_ends_in_pay_fail_breaks_i5() {
    let found = found_with_facts(State::PayFail, |facts| facts.charges.push((100, "CNY".to_owned())));
    assert_eq!(found, [Invariant::I5]);
}

#[test]
fn a_story_that_goes_on_after_its_end_breaks_i6() {
    let found = found_with(|flows, events| {
        let flow = in_state(flows, State::PayFail);
        let last = events.iter().rfind(|event| event.flow_id == flow.id).expect("it has a story").clone();
        flow.version = flow.version.next();
        flow.state = State::Paying;
        events.push(FlowEvent {
            version: flow.version,
            from: Some(State::PayFail),
            to: State::Paying,
            ..last
        });
    });
    assert!(found.contains(&Invariant::I6), "{found:?}");
}

#[test]
fn a_row_that_is_never_due_breaks_i7() {
    let found = found_with(|flows, _| in_state(flows, State::Payed).next_retry_time = HELD_UNTIL);
    assert_eq!(found, [Invariant::I7]);
    let rests = found_with(|flows, _| in_state(flows, State::Refunded).next_retry_time = HELD_UNTIL);
    assert_eq!(rests, [], "a terminal row need not be due");
}

#[test]
fn two_attempts_that_hold_one_target_break_i8() {
    let both = found_with(|flows, _| {
        let target = in_state(flows, State::Payed).target.clone();
        let other = in_state(flows, State::BizSuccess);
        other.target = target;
        other.attempt_no = AttemptNo(2);
    });
    assert_eq!(both, [Invariant::I8]);
    let gap = found_with(|flows, _| in_state(flows, State::Payed).attempt_no = AttemptNo(2));
    assert_eq!(gap, [Invariant::I8]);
}

#[test]
fn a_missing_doubled_or_false_audit_line_breaks_i9() {
    let missing = found_with(|_, events| drop(events.remove(3)));
    assert_eq!(missing, [Invariant::I9]);
    let doubled = found_with(|_, events| events.push(events[3].clone()));
    assert_eq!(doubled, [Invariant::I9]);
    let unwritten = found_with(|flows, _| in_state(flows, State::Payed).version.0 += 1);
    assert_eq!(unwritten, [Invariant::I9]);
    let jumped = found_with(|_, events| events[2].to = State::Payed);
    assert_eq!(jumped, [Invariant::I9]);
}

#[test]
fn the_simulators_json_and_its_ledger_say_the_same() {
    let clock = ManualClock::new();
    let world = flow_testkit::fakes::FakeWorld::new(clock.clone());
    let flow = samples::flow(1, State::Payed, clock.now());
    let no = flow.trade_order_no.as_str().to_owned();
    let money = pay_sim::ledger::Money { amount: 100, currency: "CNY".to_owned() };
    let debit = pay_sim::ledger::Debit {
        trade_order_no: no.clone(),
        user_id: 1,
        money: money.clone(),
        not_after_ms: None,
    };
    let refund_order_no = flow.refund_order_no.as_str().to_owned();
    let refund = pay_sim::ledger::Refund { refund_order_no, trade_order_no: no, user_id: 1, money };
    world.with(|world, now_ms| {
        world.debit(&debit, now_ms).expect("the balance is unlimited");
        world.refund(&refund, now_ms).expect("it was charged");
    });
    let ledger = world.ledger(&flow.trade_order_no);
    let json = serde_json::to_value(&ledger).expect("a ledger is JSON");
    let facts = OrderFacts::from(&ledger);
    assert_eq!((facts.charges.len(), facts.refunds.len()), (1, 1));
    assert_eq!(OrderFacts::from_json(&json), Some(facts));
    assert_eq!(OrderFacts::from_json(&serde_json::json!({"entries": [{"effect": "gift"}]})), None);
}
