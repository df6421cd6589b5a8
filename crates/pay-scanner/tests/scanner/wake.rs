//! Wake-ups as a broker may deliver them: on time, late, early, twice, out of order, of nobody. The row decides.

use std::sync::Arc;

use flow_core::answer::UnknownCause;
use flow_core::flow::{Flow, Trigger};
use flow_core::ids::Version;
use flow_core::ports::{Awaken as _, Awoken, WakeUp};
use flow_core::state::State;
use flow_testkit::fakes::{Call, Fault};
use flow_testkit::ledger_check::{OrderFacts, assert_none, check_settled};
use flow_testkit::mem_store::{StoreFault, StoreOp};
use flow_testkit::samples;
use pay_scanner::advance::{Advance as _, AdvanceDue};
use pay_scanner::wake::WakeFlow;

use super::convergence::Product;

const FLOW: i64 = 1;

struct Rig {
    product: Product,
    wake: WakeFlow,
}

impl Rig {
    /// A flow whose debit's answer was lost: in `PAYING`, due again in a second or more.
    async fn with_lost_debit() -> Rig {
        let product = Product::new();
        product.create(FLOW, 86_400);
        let advancer = product.advancer(1);
        let first = AdvanceDue::new(Arc::new(product.store.clone()), Arc::clone(&advancer), 10_000);
        product.world.fail_next(Call::Debit, Fault::DropAnswer(UnknownCause::TimedOut));
        first.advance(samples::flow_id(FLOW)).await.expect("the store is up");
        let wake = WakeFlow::new(Arc::new(product.store.clone()), advancer, 10_000);
        let rig = Rig { product, wake };
        assert_eq!((rig.flow().state, rig.queries()), (State::Paying, 0));
        rig
    }

    fn flow(&self) -> Flow {
        self.product.store.flow(samples::flow_id(FLOW)).expect("it was made")
    }

    fn queries(&self) -> u64 {
        self.product.world.calls(Call::Query)
    }

    /// The wake-up that the row's last writer asked for.
    fn asked(&self) -> WakeUp {
        WakeUp { flow_id: samples::flow_id(FLOW), version: self.flow().version, at_once: false }
    }

    fn until_due_ms(&self) -> u64 {
        u64::try_from((self.flow().next_retry_time - self.product.clock.now()).num_milliseconds()).unwrap()
    }

    fn assert_paid_once(&self) {
        let facts = |flow: &Flow| OrderFacts::from(&self.product.world.ledger(&flow.trade_order_no));
        let store = &self.product.store;
        assert_none(&check_settled(&store.flows(), &store.all_events(), facts));
        assert_eq!(self.flow().state, State::BizSuccess);
    }
}

#[tokio::test]
async fn on_time_the_flow_is_advanced_and_the_audit_says_by_whom() {
    let rig = Rig::with_lost_debit().await;
    let asked = rig.asked();
    rig.product.clock.advance_ms(rig.until_due_ms());
    assert_eq!(rig.wake.awaken(asked).await, Awoken::Done);
    rig.assert_paid_once();
    let events = rig.product.store.events_of(samples::flow_id(FLOW));
    assert!(events.iter().any(|event| event.trigger == Trigger::Wake.as_str()), "{events:?}");
}

#[tokio::test]
async fn late_by_ten_minutes_it_finds_what_there_is_to_do() {
    let rig = Rig::with_lost_debit().await;
    let asked = rig.asked();
    rig.product.clock.advance_ms(600_000);
    assert_eq!(rig.wake.awaken(asked).await, Awoken::Done);
    rig.assert_paid_once();
}

#[tokio::test]
async fn early_it_asks_nobody_and_comes_again_when_the_row_is_due() {
    let rig = Rig::with_lost_debit().await;
    let (asked, before) = (rig.asked(), rig.flow());
    let Awoken::NotYet { in_ms } = rig.wake.awaken(asked).await else { panic!("it was early") };
    assert_eq!((rig.flow(), rig.queries()), (before, 0), "neither row nor wallet was touched");
    assert!((rig.until_due_ms()..=rig.until_due_ms() + 1).contains(&in_ms), "{in_ms}");
    rig.product.clock.advance_ms(in_ms);
    assert_eq!(rig.wake.awaken(asked).await, Awoken::Done);
    rig.assert_paid_once();
}

#[tokio::test]
async fn early_by_too_much_it_is_left_to_the_scanner() {
    let rig = Rig::with_lost_debit().await;
    let due = rig.product.clock.now() + chrono::TimeDelta::hours(2);
    rig.product.store.write_by_hand(samples::flow_id(FLOW), |flow| flow.next_retry_time = due).unwrap();
    assert_eq!(rig.wake.awaken(rig.asked()).await, Awoken::Done);
    assert_eq!((rig.flow().state, rig.queries()), (State::Paying, 0));
}

#[tokio::test]
async fn doubled_it_costs_a_read() {
    let rig = Rig::with_lost_debit().await;
    let asked = rig.asked();
    rig.product.clock.advance_ms(rig.until_due_ms());
    let (one, two) = tokio::join!(rig.wake.awaken(asked), rig.wake.awaken(asked));
    assert_eq!((one, two), (Awoken::Done, Awoken::Done));
    let calls = rig.queries();
    assert_eq!(rig.wake.awaken(asked).await, Awoken::Done);
    assert_eq!(rig.queries(), calls, "a flow that has ended is not asked about");
    rig.assert_paid_once();
}

#[tokio::test]
async fn an_older_versions_does_nothing_before_the_row_is_due_and_no_harm_after() {
    let rig = Rig::with_lost_debit().await;
    let older = WakeUp { version: Version::FIRST, at_once: true, ..rig.asked() };
    assert_eq!(rig.wake.awaken(older).await, Awoken::Done);
    let newer = WakeUp { version: Version(u64::MAX), ..rig.asked() };
    assert_eq!(rig.wake.awaken(newer).await, Awoken::Done);
    assert_eq!((rig.flow().state, rig.queries()), (State::Paying, 0));
    rig.product.clock.advance_ms(rig.until_due_ms());
    assert_eq!(rig.wake.awaken(older).await, Awoken::Done);
    rig.assert_paid_once();
}

/// A call whose budget ran out goes on at once, although the row still shows its turn.
#[tokio::test]
async fn at_once_means_that_the_turn_was_given_up() {
    let rig = Rig::with_lost_debit().await;
    assert_eq!(rig.wake.awaken(WakeUp { at_once: true, ..rig.asked() }).await, Awoken::Done);
    rig.assert_paid_once();
}

#[tokio::test]
async fn of_a_flow_that_is_not_there_nothing_becomes() {
    let rig = Rig::with_lost_debit().await;
    let nobodys = WakeUp { flow_id: samples::flow_id(4_711), ..rig.asked() };
    assert_eq!(rig.wake.awaken(nobodys).await, Awoken::Done);
    assert_eq!(rig.product.store.flows().len(), 1);
}

#[tokio::test]
async fn a_held_flow_stays_held() {
    let rig = Rig::with_lost_debit().await;
    let due = rig.product.clock.now();
    let hold =
        flow_core::flow::Hold { reason: super::rig::SOME_HOLD, since: due, by: super::rig::somebody() };
    rig.product.store.write_by_hand(samples::flow_id(FLOW), |flow| flow.hold = Some(hold)).unwrap();
    assert_eq!(rig.wake.awaken(WakeUp { at_once: true, ..rig.asked() }).await, Awoken::Done);
    assert_eq!((rig.flow().state, rig.queries()), (State::Paying, 0));
}

#[tokio::test]
async fn while_the_store_is_away_it_has_failed_and_is_worth_another_delivery() {
    let rig = Rig::with_lost_debit().await;
    let asked = rig.asked();
    rig.product.clock.advance_ms(rig.until_due_ms());
    rig.product.store.fail_next(StoreOp::Load, StoreFault::Unavailable);
    assert_eq!(rig.wake.awaken(asked).await, Awoken::Failed);
    assert_eq!(rig.wake.awaken(asked).await, Awoken::Done);
    rig.assert_paid_once();
}
