//! What our own gate refuses did not happen: the row is not written, not counted and not moved to the end of the line.

mod product;

use flow_core::advance::End;
use flow_core::answer::UnknownCause;
use flow_core::downstream::{BreakerLimits, BudgetLimits, Limits};
use flow_core::flow::{Flow, Trigger};
use flow_core::state::State;
use flow_testkit::clock::ManualClock;
use flow_testkit::fakes::{Call, FakeWorld, Fault};
use flow_testkit::mem_store::MemStore;

use product::{Product, WIDE, by};

fn with(limits: Limits) -> Product {
    let clock = ManualClock::new();
    let (store, world) = (MemStore::new(clock.clone()), FakeWorld::new(clock.clone()));
    Product::limited(&clock, &store, &world, true, limits)
}

/// Lets the gate refuse, and looks for traces.
async fn assert_left_as_it_is(product: &Product, flow: &Flow, call: Call, retry_in_ms: u64) {
    let (calls, events) = (product.world.calls(call), product.store.all_events().len());
    let wakes = product.wake.calls().len();
    let advanced = product.advancer.advance(flow.id, &by(Trigger::Timer)).await.expect("the store is up");
    assert_eq!(advanced.end, End::GateClosed { retry_in_ms });
    assert_eq!(&advanced.flow, flow);
    assert_eq!(product.store.all_events().len(), events, "something was written");
    assert_eq!(product.world.calls(call), calls, "a call went out");
    let woken: Vec<_> =
        product.wake.calls()[wakes..].iter().map(|call| (call.version, call.delay_ms)).collect();
    assert_eq!(woken, [(flow.version, retry_in_ms)]);
}

#[tokio::test]
async fn an_open_breaker_leaves_no_trace_and_one_probe_opens_it_again() {
    let breaker = BreakerLimits { failures_to_open: 1, open_ms: 5_000, max_open_ms: 5_000, probes: 1 };
    let product = with(Limits { breaker, ..WIDE });
    let flow = product.created();
    product.world.fail_next(Call::Debit, Fault::DropRequest(UnknownCause::TimedOut));
    let flow = product.advance(&flow).await;
    assert_eq!((flow.state, flow.retry_count), (State::Paying, 1), "the try that was made counts");

    assert_left_as_it_is(&product, &flow, Call::Query, 5_001).await;
    product.clock.advance_ms(4_999);
    assert_left_as_it_is(&product, &flow, Call::Query, 2).await;
    product.clock.advance_ms(1);
    assert_eq!(product.advance(&flow).await.state, State::BizSuccess);
}

#[tokio::test]
async fn a_spent_budget_leaves_no_trace_and_the_next_call_is_made_when_it_is_there() {
    let budget = BudgetLimits { calls_per_s: 1, burst_calls: 1 };
    let product = with(Limits { budget, queue_wait_ms: 0, ..WIDE });
    let flow = product.created();
    product.world.fail_next(Call::Debit, Fault::DropRequest(UnknownCause::TimedOut));
    let flow = product.advance(&flow).await;
    assert_eq!((flow.state, flow.retry_count), (State::Paying, 1));

    assert_left_as_it_is(&product, &flow, Call::Query, 1_001).await;
    product.clock.advance_ms(1_000);
    // The query goes out; the debit that it calls for finds the budget spent again.
    let queries = product.world.calls(Call::Query);
    assert_eq!(product.advance(&flow).await, flow);
    assert_eq!(product.world.calls(Call::Query), queries + 1);
    product.assert_kept();
}

#[tokio::test(start_paused = true)]
async fn the_scanner_waits_for_its_turn_and_a_debit_after_its_query() {
    let budget = BudgetLimits { calls_per_s: 1, burst_calls: 1 };
    let product = with(Limits { budget, queue_wait_ms: 100, ..WIDE });
    let flow = product.created();
    product.world.fail_next(Call::Debit, Fault::DropRequest(UnknownCause::TimedOut));
    let flow = product.advance(&flow).await;
    // The timer's call would wait for 100 ms at most, and the next place is free in a second.
    assert_left_as_it_is(&product, &flow, Call::Query, 1_001).await;
    // The scanner's waits, and so does the debit that its answer calls for.
    assert_eq!(product.advance(&flow).await.state, State::BizSuccess);
}

#[tokio::test]
async fn an_execution_that_is_refused_costs_no_reading_of_the_fact() {
    let breaker = BreakerLimits { failures_to_open: 1, open_ms: 5_000, max_open_ms: 5_000, probes: 1 };
    let product = with(Limits { breaker, ..WIDE });
    let flow = product.created();
    product.world.fail_next(Call::Execute, Fault::DropRequest(UnknownCause::TimedOut));
    let flow = product.advance(&flow).await;
    assert_eq!(flow.state, State::Payed);
    let facts = product.world.calls(Call::Fact);
    assert_left_as_it_is(&product, &flow, Call::Execute, 5_001).await;
    assert_eq!(product.world.calls(Call::Fact), facts);
    product.clock.advance_ms(5_000);
    assert_eq!(product.advance(&flow).await.state, State::BizSuccess);
}
