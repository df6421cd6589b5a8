//! The business system's suite: what the product relies on, whatever system is behind the port.

use flow_core::answer::{ExecuteAnswer, FactAnswer};
use flow_core::flow::Flow;
use flow_core::ids::OrderRef;

use super::far_side::{FarSide, FarSideFactory, late_flow, open_flow};
use crate::samples;

/// The business system's suite, one test per case.
#[macro_export]
macro_rules! business_conformance {
    ($factory:expr) => {
        $crate::conformance_cases! { business; $factory;
            an_execution_grants_once_however_often_it_is_sent,
            a_target_nobody_executed_is_not_done,
            the_fact_names_the_owner,
            an_execution_after_its_time_is_refused,
            a_granted_order_stays_the_owner_after_its_time,
            a_second_order_never_takes_the_target_over,
            a_number_with_another_target_is_a_conflict,
            targets_differ_by_case,
            racing_orders_have_one_owner,
        }
    };
}

/// The same number grants once; a repeat hears the same.
pub async fn an_execution_grants_once_however_often_it_is_sent(factory: &dyn FarSideFactory) {
    let far = factory.fresh().await;
    let flow = open_flow(&*far, 1).await;
    assert_eq!(execute(&*far, &flow).await, ExecuteAnswer::Done);
    assert_eq!(execute(&*far, &flow).await, ExecuteAnswer::Done);
    assert_eq!(grants(&*far, &flow).await, 1);
}

/// Asking for the fact of an unknown target is answered, and grants nothing.
pub async fn a_target_nobody_executed_is_not_done(factory: &dyn FarSideFactory) {
    let far = factory.fresh().await;
    let flow = open_flow(&*far, 1).await;
    assert_eq!(fact(&*far, &flow).await, FactAnswer::NotDone);
    assert_eq!(fact(&*far, &flow).await, FactAnswer::NotDone);
    assert_eq!(grants(&*far, &flow).await, 0);
}

/// A granted target names the order that owns it.
pub async fn the_fact_names_the_owner(factory: &dyn FarSideFactory) {
    let far = factory.fresh().await;
    let flow = open_flow(&*far, 1).await;
    execute(&*far, &flow).await;
    assert_eq!(fact(&*far, &flow).await, done_by(&flow));
}

/// The race that a refund must win: a message that arrives at or after `not_after` grants nothing.
pub async fn an_execution_after_its_time_is_refused(factory: &dyn FarSideFactory) {
    let far = factory.fresh().await;
    let flow = late_flow(&*far, 1).await;
    let answer = execute(&*far, &flow).await;
    assert!(matches!(answer, ExecuteAnswer::Rejected(_)), "a late execution was answered {answer:?}");
    assert_eq!(fact(&*far, &flow).await, FactAnswer::NotDone);
    assert_eq!(grants(&*far, &flow).await, 0);
}

/// A refusal of the second order, or of a late one, takes nothing from the owner.
pub async fn a_granted_order_stays_the_owner_after_its_time(factory: &dyn FarSideFactory) {
    let far = factory.fresh().await;
    let owner = open_flow(&*far, 1).await;
    execute(&*far, &owner).await;
    let mut late = late_flow(&*far, 2).await;
    late.target = owner.target.clone();
    let answer = execute(&*far, &late).await;
    assert!(matches!(answer, ExecuteAnswer::Rejected(_)), "{answer:?}");
    assert_eq!(fact(&*far, &owner).await, done_by(&owner));
}

/// The second order for a granted target is refused; the fact keeps naming the first.
pub async fn a_second_order_never_takes_the_target_over(factory: &dyn FarSideFactory) {
    let far = factory.fresh().await;
    let first = open_flow(&*far, 1).await;
    let mut second = open_flow(&*far, 2).await;
    second.target = first.target.clone();
    execute(&*far, &first).await;
    let answer = execute(&*far, &second).await;
    assert!(matches!(answer, ExecuteAnswer::Rejected(_)), "{answer:?}");
    assert_eq!(fact(&*far, &second).await, done_by(&first));
    assert_eq!((grants(&*far, &first).await, grants(&*far, &second).await), (1, 0));
}

/// Another target under a known number: a conflict, and that target is not granted.
pub async fn a_number_with_another_target_is_a_conflict(factory: &dyn FarSideFactory) {
    let far = factory.fresh().await;
    let flow = open_flow(&*far, 1).await;
    execute(&*far, &flow).await;
    let mut other = flow.clone();
    other.target = samples::target(1, "another-goal");
    assert_eq!(execute(&*far, &other).await, ExecuteAnswer::Conflict);
    assert_eq!(fact(&*far, &other).await, FactAnswer::NotDone);
    assert_eq!(fact(&*far, &flow).await, done_by(&flow));
}

/// `a` and `A` are different goals.
pub async fn targets_differ_by_case(factory: &dyn FarSideFactory) {
    let far = factory.fresh().await;
    let mut lower = open_flow(&*far, 1).await;
    let mut upper = open_flow(&*far, 2).await;
    lower.target = samples::target(1, "goal-a");
    upper.target = samples::target(1, "GOAL-A");
    execute(&*far, &lower).await;
    assert_eq!(fact(&*far, &upper).await, FactAnswer::NotDone);
    assert_eq!(execute(&*far, &upper).await, ExecuteAnswer::Done);
    assert_eq!(fact(&*far, &lower).await, done_by(&lower));
}

/// Two orders that arrive together: one owner, one refusal.
pub async fn racing_orders_have_one_owner(factory: &dyn FarSideFactory) {
    let far = factory.fresh().await;
    let first = open_flow(&*far, 1).await;
    let mut second = open_flow(&*far, 2).await;
    second.target = first.target.clone();
    let (a, b) = tokio::join!(execute(&*far, &first), execute(&*far, &second));
    let done = [&a, &b].into_iter().filter(|answer| **answer == ExecuteAnswer::Done).count();
    assert_eq!(done, 1, "{a:?} and {b:?}");
    assert_eq!(grants(&*far, &first).await + grants(&*far, &second).await, 1);
}

async fn execute(far: &dyn FarSide, flow: &Flow) -> ExecuteAnswer {
    far.business().execute(&samples::execution(flow)).await.answer
}

async fn fact(far: &dyn FarSide, flow: &Flow) -> FactAnswer {
    far.business().fact(&flow.target).await.answer
}

async fn grants(far: &dyn FarSide, flow: &Flow) -> usize {
    far.facts(&flow.trade_order_no).await.grants
}

fn done_by(flow: &Flow) -> FactAnswer {
    FactAnswer::Done { owner: OrderRef::new(flow.trade_order_no.as_str()).unwrap() }
}
