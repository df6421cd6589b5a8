//! Each scripted fault does to the world, and tells the caller, what its name says.

use chrono::TimeDelta;
use flow_core::answer::{
    ChargeAnswer, ErrorCode, ExecuteAnswer, FactAnswer, NoAnswer, RefundAnswer, UnavailableCause,
    UnknownCause,
};
use flow_core::flow::Flow;
use flow_core::ports::{Business as _, Wallet as _};
use flow_core::state::State;
use flow_testkit::clock::ManualClock;
use flow_testkit::fakes::{Call, FakeWorld, Fault, Lie};
use flow_testkit::samples;
use pay_sim::ledger::{Deferral, Switches};

const LOST: NoAnswer = NoAnswer::Unknown(UnknownCause::TimedOut);

fn world_and_flow() -> (FakeWorld, Flow) {
    let clock = ManualClock::new();
    let flow = samples::flow(1, State::Paying, clock.now());
    (FakeWorld::new(clock), flow)
}

async fn debit(world: &FakeWorld, flow: &Flow) -> ChargeAnswer {
    world.wallet().debit(&samples::charge_order(flow)).await.answer
}

async fn query(world: &FakeWorld, flow: &Flow) -> ChargeAnswer {
    world.wallet().query(&flow.trade_order_no).await.answer
}

async fn execute(world: &FakeWorld, flow: &Flow) -> ExecuteAnswer {
    world.business().execute(&samples::execution(flow)).await.answer
}

async fn fact(world: &FakeWorld, flow: &Flow) -> FactAnswer {
    world.business().fact(&flow.target).await.answer
}

#[tokio::test]
async fn a_dropped_answer_leaves_the_effect() {
    let (world, flow) = world_and_flow();
    for call in [Call::Debit, Call::Refund, Call::Execute] {
        world.fail_next(call, Fault::DropAnswer(UnknownCause::TimedOut));
    }
    assert_eq!(debit(&world, &flow).await, ChargeAnswer::None(LOST));
    assert_eq!(world.ledger(&flow.trade_order_no).charges, 1);
    let refund = world.wallet().refund(&samples::refund_order(&flow)).await.answer;
    assert_eq!(refund, RefundAnswer::None(LOST));
    assert_eq!(world.ledger(&flow.trade_order_no).refunds, 1);
    assert_eq!(execute(&world, &flow).await, ExecuteAnswer::None(LOST));
    assert_eq!(world.ledger(&flow.trade_order_no).grants, 1);
}

#[tokio::test]
async fn a_dropped_request_leaves_nothing() {
    let (world, flow) = world_and_flow();
    for call in [Call::Debit, Call::Execute] {
        world.fail_next(call, Fault::DropRequest(UnknownCause::ConnectionLost));
    }
    let lost = NoAnswer::Unknown(UnknownCause::ConnectionLost);
    assert_eq!(debit(&world, &flow).await, ChargeAnswer::None(lost));
    assert_eq!(execute(&world, &flow).await, ExecuteAnswer::None(lost));
    assert!(!world.ledger(&flow.trade_order_no).known);
    assert_eq!((world.calls(Call::Debit), world.calls(Call::Execute)), (1, 1), "lost calls are counted");
}

#[tokio::test]
async fn a_late_message_arrives_when_it_is_delivered() {
    let (world, flow) = world_and_flow();
    for call in [Call::Debit, Call::Execute] {
        world.fail_next(call, Fault::Late(UnknownCause::TimedOut));
    }
    assert_eq!(debit(&world, &flow).await, ChargeAnswer::None(LOST));
    assert_eq!(execute(&world, &flow).await, ExecuteAnswer::None(LOST));
    assert_eq!((world.late_messages(), world.ledger(&flow.trade_order_no).known), (2, false));
    assert_eq!(world.deliver_late(), 2);
    let ledger = world.ledger(&flow.trade_order_no);
    assert_eq!((ledger.charges, ledger.grants, world.late_messages()), (1, 1, 0));
}

#[tokio::test]
async fn a_late_message_after_its_time_does_nothing_unless_the_mutant_is_on() {
    for (ignore_not_after, grants) in [(false, 0), (true, 1)] {
        let (world, flow) = world_and_flow();
        world.set_switches(Switches { ignore_not_after, ..Switches::default() });
        world.fail_next(Call::Execute, Fault::Late(UnknownCause::TimedOut));
        execute(&world, &flow).await;
        world.clock().advance_to(flow.deadline);
        world.deliver_late();
        assert_eq!(world.ledger(&flow.trade_order_no).grants, grants);
    }
}

#[tokio::test]
async fn an_unavailable_system_has_not_heard_of_it() {
    let (world, flow) = world_and_flow();
    let refusal = NoAnswer::Unavailable { cause: UnavailableCause::Throttled, retry_after_ms: Some(250) };
    let fault = Fault::Unavailable { cause: UnavailableCause::Throttled, retry_after_ms: Some(250) };
    for call in Call::ALL {
        world.fail_next(call, fault.clone());
    }
    let wallet = world.wallet();
    assert_eq!(debit(&world, &flow).await, ChargeAnswer::None(refusal));
    assert_eq!(query(&world, &flow).await, ChargeAnswer::None(refusal));
    assert_eq!(wallet.close(&flow.trade_order_no).await.answer, ChargeAnswer::None(refusal));
    assert_eq!(wallet.refund(&samples::refund_order(&flow)).await.answer, RefundAnswer::None(refusal));
    assert_eq!(wallet.query_refund(&flow.refund_order_no).await.answer, RefundAnswer::None(refusal));
    assert_eq!(execute(&world, &flow).await, ExecuteAnswer::None(refusal));
    assert_eq!(fact(&world, &flow).await, FactAnswer::None(refusal));
    assert!(!world.ledger(&flow.trade_order_no).known);
    assert!(matches!(debit(&world, &flow).await, ChargeAnswer::Success(_)), "the script is used up");
}

#[tokio::test]
async fn a_deferred_call_is_carried_out_when_somebody_asks() {
    let (world, flow) = world_and_flow();
    world.fail_next(Call::Debit, Fault::Defer(Deferral::NextQuery));
    assert_eq!(debit(&world, &flow).await, ChargeAnswer::Processing);
    assert_eq!(world.ledger(&flow.trade_order_no).charges, 0);
    assert!(matches!(query(&world, &flow).await, ChargeAnswer::Success(_)));
    world.fail_next(Call::Execute, Fault::Defer(Deferral::UntilMs(world.clock().now_ms() + 1_000)));
    assert_eq!(execute(&world, &flow).await, ExecuteAnswer::Processing);
    assert_eq!(fact(&world, &flow).await, FactAnswer::NotDone);
    world.clock().advance_ms(1_000);
    assert!(matches!(fact(&world, &flow).await, FactAnswer::Done { .. }));
}

#[tokio::test]
async fn a_refusal_is_definite_and_sticks_for_a_charge() {
    let (world, flow) = world_and_flow();
    world.fail_next(Call::Debit, Fault::Refuse("RISK".to_owned()));
    let refused = ChargeAnswer::Rejected(ErrorCode::clean("RISK"));
    assert_eq!(debit(&world, &flow).await, refused);
    assert_eq!(debit(&world, &flow).await, refused);
}

type IsTold = fn(&Flow, &ChargeAnswer) -> bool;

#[tokio::test]
async fn lies_are_told_after_the_truth_happened() {
    let lies: [(Lie, IsTold); 6] = [
        (Lie::Processing, |_, answer| *answer == ChargeAnswer::Processing),
        (Lie::NotFound, |_, answer| *answer == ChargeAnswer::NotFound),
        (Lie::Conflict, |_, answer| *answer == ChargeAnswer::Conflict),
        (Lie::WrongAmount, |flow, answer| success(answer).is_some_and(|receipt| receipt.money != flow.money)),
        (Lie::WrongCurrency, |flow, answer| {
            success(answer).is_some_and(|receipt| receipt.money.currency() != flow.money.currency())
        }),
        (Lie::WrongUser, |flow, answer| {
            success(answer).is_some_and(|receipt| receipt.user_id != flow.target.user_id)
        }),
    ];
    for (lie, is_told) in lies {
        let (world, flow) = world_and_flow();
        world.fail_next(Call::Debit, Fault::Lie(lie));
        let answer = debit(&world, &flow).await;
        assert!(is_told(&flow, &answer), "{lie:?}: {answer:?}");
        assert_eq!(world.ledger(&flow.trade_order_no).charges, 1, "{lie:?}");
    }
    let (world, flow) = world_and_flow();
    world.fail_next(Call::Fact, Fault::Lie(Lie::Contradiction));
    assert_eq!(fact(&world, &flow).await, FactAnswer::Contradiction);
}

fn success(answer: &ChargeAnswer) -> Option<&flow_core::answer::Receipt> {
    if let ChargeAnswer::Success(receipt) = answer { Some(receipt) } else { None }
}

#[tokio::test]
async fn the_far_side_reads_its_own_clock() {
    let ours = ManualClock::new();
    let flow = samples::flow(1, State::Paying, ours.now());
    let world = FakeWorld::new(ours.process(-2_000));
    ours.advance_to(flow.deadline + TimeDelta::milliseconds(1_999));
    assert_eq!(execute(&world, &flow).await, ExecuteAnswer::Done, "by its clock the deadline has not passed");
    let (other_world, other) =
        (FakeWorld::new(ours.process(-1_999)), samples::flow(2, State::Paying, flow.created_at));
    assert!(matches!(execute(&other_world, &other).await, ExecuteAnswer::Rejected(_)));
}
