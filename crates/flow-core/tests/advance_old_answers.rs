//! An answer tells how things were when it was given, not when it was heard. Whatever is concluded from it together
//! with the time must use the time before the question was sent.

mod product;

use flow_core::answer::UnknownCause;
use flow_core::flow::{Flow, Trigger};
use flow_core::ports::FlowStore as _;
use flow_core::state::State;
use flow_testkit::clock::ManualClock;
use flow_testkit::fakes::{Call, Fault, Switches};
use flow_testkit::samples;

use product::{GRACE_MS, Product, SETTLE_MARGIN_MS, by};

fn ms_until(clock: &ManualClock, moment: chrono::DateTime<chrono::Utc>) -> u64 {
    u64::try_from((moment - clock.now()).num_milliseconds()).expect("the moment lies ahead")
}

/// Brings a fresh row to `PAYED` while the business system cannot be reached.
async fn payed(product: &Product) -> Flow {
    let flow = product.created();
    product.world.fail_next(Call::Execute, Fault::DropRequest(UnknownCause::TimedOut));
    let flow = product.advance(&flow).await;
    assert_eq!(flow.state, State::Payed);
    flow
}

#[tokio::test]
async fn a_fact_read_before_the_deadline_and_heard_after_the_margin_does_not_refund() {
    let product = Product::new(true);
    let flow = payed(&product).await;
    product.clock.advance_ms(ms_until(&product.clock, flow.deadline) - 1);
    // One millisecond before the deadline: the execution is still on the network when the fact is read, and arrives
    // right after it, in time. The fact's answer takes longer than deadline and margin.
    product.world.fail_next(Call::Execute, Fault::Late(UnknownCause::TimedOut));
    let (world, clock) = (product.world.clone(), product.clock.clone());
    product.world.script().after_next(Call::Fact, move || {
        world.deliver_late();
        clock.advance_ms(SETTLE_MARGIN_MS + 1);
    });
    let flow = product.advance(&flow).await;
    assert_eq!(product.world.ledger(&flow.trade_order_no).grants, 1, "the benefit was handed over in time");
    assert_ne!(flow.state, State::Refunded);
    product.assert_kept();
    assert_eq!(product.advance(&flow).await.state, State::BizSuccess);
}

#[tokio::test]
async fn a_not_found_given_before_the_deadline_and_heard_after_the_grace_does_not_fail_the_payment() {
    let product = Product::new(false);
    let flow = product.created();
    product.world.fail_next(Call::Debit, Fault::Late(UnknownCause::TimedOut));
    let flow = product.advance(&flow).await;
    assert_eq!(flow.state, State::Paying);
    product.clock.advance_ms(ms_until(&product.clock, flow.deadline) - 1);
    // The debit arrives right after the wallet said that it knows no such order; we hear that much later.
    let (world, clock) = (product.world.clone(), product.clock.clone());
    product.world.script().after_next(Call::Query, move || {
        world.deliver_late();
        clock.advance_ms(GRACE_MS + 1);
    });
    let flow = product.advance(&flow).await;
    assert_eq!(product.world.ledger(&flow.trade_order_no).charges, 1, "the charge happened in time");
    assert_ne!(flow.state, State::PayFail);
    product.assert_kept();
}

#[tokio::test]
async fn a_refused_close_is_judged_by_the_time_of_the_query_before_it() {
    // Configured as able to close, as by default; the wallet says otherwise only when it is asked to.
    let product = Product::new(true);
    product.world.set_switches(Switches { close_unsupported: true, ..Switches::default() });
    let flow = product.created();
    product.world.fail_next(Call::Debit, Fault::Late(UnknownCause::TimedOut));
    product.advance(&flow).await;
    let cancelled =
        product.advancer.request_cancel(flow.id, &samples::actor("shop"), &by(Trigger::Sync)).await;
    cancelled.expect("the store is up");
    product.clock.advance_ms(ms_until(&product.clock, flow.deadline) - 1);
    // The debit arrives, in time, right after the wallet said that it knows no such order. We hear that after the
    // grace, and only then ask to close.
    let (world, clock) = (product.world.clone(), product.clock.clone());
    product.world.script().after_next(Call::Query, move || {
        world.deliver_late();
        clock.advance_ms(GRACE_MS + 1);
    });
    let flow = product.advance(&flow).await;
    assert_eq!(product.world.ledger(&flow.trade_order_no).charges, 1, "the charge happened in time");
    assert_ne!(flow.state, State::PayFail);
    product.assert_kept();
    assert_eq!(product.advance(&flow).await.state, State::Refunded);
}

#[tokio::test]
async fn a_stalled_debit_after_a_cancellation_is_not_lost() {
    let product = Product::new(false);
    let flow = product.created();
    // The first caller stalls right before its debit. Meanwhile the payment is cancelled, the grace passes, and another
    // process looks at the flow; then the first caller goes on, well before the deadline.
    let other = Product::over(&product.clock, &product.store, &product.world, false);
    let flow_id = flow.id;
    product.world.script().before_next(Call::Debit, move || {
        let others_turn = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime can be built");
            runtime.block_on(async {
                let cancelled =
                    other.advancer.request_cancel(flow_id, &samples::actor("shop"), &by(Trigger::Sync)).await;
                cancelled.expect("the store is up");
                other.clock.advance_ms(GRACE_MS + 1);
                let flow =
                    other.store.load(flow_id).await.expect("the store is up").value.expect("the row exists");
                other.advance(&flow).await
            })
        });
        others_turn.join().expect("the other process does not panic");
    });
    product.advance(&flow).await;
    product.assert_kept();
}
