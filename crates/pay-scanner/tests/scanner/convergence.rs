//! The scanner alone, with the real `advance` and two downstream systems that go wrong: every row gets terminal, and
//! what happened downstream is right.

use std::sync::Arc;

use flow_core::advance::{AdvanceSettings, Advancer};
use flow_core::answer::UnknownCause;
use flow_core::downstream::{BreakerLimits, BudgetLimits, BusinessRules, Downstreams, Limits, WalletRules};
use flow_core::ports::FlowStore;
use flow_testkit::clock::ManualClock;
use flow_testkit::fakes::{Call, FakeWorld, Fault};
use flow_testkit::jitter::SeededJitter;
use flow_testkit::ledger_check::{OrderFacts, assert_none, check_settled};
use flow_testkit::mem_store::MemStore;
use flow_testkit::samples;
use flow_testkit::wake::RecordingWake;
use pay_scanner::advance::{Advance as _, AdvanceDue, Outcome};
use pay_scanner::round::{Sweep, SweepSettings};
use tokio_util::sync::CancellationToken;

const FLOWS: i64 = 120;

pub(crate) struct Product {
    pub(crate) clock: ManualClock,
    pub(crate) store: MemStore,
    pub(crate) world: FakeWorld,
}

impl Product {
    pub(crate) fn new() -> Product {
        let clock = ManualClock::new();
        let (store, world) = (MemStore::new(clock.clone()), FakeWorld::new(clock.clone()));
        Product { clock, store, world }
    }

    pub(crate) fn create(&self, number: i64, lives_s: i64) {
        let deadline = self.clock.now() + chrono::TimeDelta::seconds(lives_s);
        self.store.create_now(samples::new_flow(number, deadline));
    }

    /// One replica's means.
    fn replica(&self, seed: u64) -> Arc<AdvanceDue> {
        let advancer = self.advancer(seed);
        Arc::new(AdvanceDue::new(Arc::new(self.store.clone()), advancer, 10_000))
    }

    pub(crate) fn advancer(&self, seed: u64) -> Arc<Advancer> {
        let limits = Limits {
            max_concurrent_calls: 64,
            queue_wait_ms: 100,
            budget: BudgetLimits { calls_per_s: 100_000, burst_calls: 100_000 },
            breaker: BreakerLimits { failures_to_open: 1_000_000, open_ms: 1, max_open_ms: 1, probes: 1 },
        };
        let wallet_rules =
            WalletRules { can_close: true, in_flight_grace_ms: 60_000, refund_tries_before_hold: 1_000 };
        let business_rules = BusinessRules { settle_margin_ms: 5_000, unreadable_hold_ms: 86_400_000 };
        let downstreams = Downstreams::builder(Arc::new(self.clock.clone()))
            .wallet(samples::wallet_name(), Arc::new(self.world.wallet()), wallet_rules, limits)
            .business(samples::business_name(), Arc::new(self.world.business()), business_rules, limits)
            .build();
        let store: Arc<dyn FlowStore> = Arc::new(self.store.clone());
        let advancer = Advancer::new(
            store,
            downstreams,
            Arc::new(RecordingWake::new()),
            Arc::new(self.clock.clone()),
            Arc::new(SeededJitter::new(seed)),
            AdvanceSettings::default(),
        );
        Arc::new(advancer)
    }

    fn scanner(&self, seed: u64) -> Sweep {
        let settings = SweepSettings { partitions: 4, page_rows: 7, max_parallel_flows: 8 };
        Sweep::new(Arc::new(self.store.clone()), self.replica(seed), Arc::new(self.clock.clone()), settings)
    }

    fn all_terminal(&self) -> bool {
        self.store.flows().iter().all(|flow| flow.state.is_terminal())
    }
}

#[tokio::test]
async fn two_replicas_bring_every_row_to_its_end_while_every_third_call_goes_wrong() {
    let product = Product::new();
    for number in 1..=FLOWS {
        // Some live too short to be executed in time, some cannot pay.
        product.create(number, if number % 3 == 0 { 20 } else { 3_600 });
        if number % 5 == 0 {
            product.world.empty_balance(samples::user(number), "CNY");
        }
    }
    let mut calls = 0_u32;
    product.world.script().set_source(move |_| {
        calls += 1;
        match calls % 9 {
            0 => Some(Fault::DropAnswer(UnknownCause::TimedOut)),
            3 => Some(Fault::DropRequest(UnknownCause::TimedOut)),
            6 => Some(Fault::Late(UnknownCause::TimedOut)),
            _ => None,
        }
    });
    let (one, two) = (product.scanner(1), product.scanner(2));
    let stop = CancellationToken::new();
    for round in 0..2_000 {
        let (ours, theirs) = tokio::join!(one.round(round, &stop), two.round(round + 2, &stop));
        ours.unwrap();
        theirs.unwrap();
        if product.all_terminal() {
            break;
        }
        product.clock.advance_ms(5_000);
    }
    let facts = |flow: &flow_core::flow::Flow| OrderFacts::from(&product.world.ledger(&flow.trade_order_no));
    assert_none(&check_settled(&product.store.flows(), &product.store.all_events(), facts));
}

#[tokio::test]
async fn a_row_rescheduled_since_it_was_listed_is_left_alone() {
    let product = Product::new();
    product.create(1, 3_600);
    let (ours, theirs) = (product.replica(1), product.replica(2));
    product.world.fail_next(Call::Debit, Fault::DropRequest(UnknownCause::TimedOut));

    assert_eq!(ours.advance(samples::flow_id(1)).await.unwrap(), Outcome::Moved);
    let (debits, queries) = (product.world.calls(Call::Debit), product.world.calls(Call::Query));
    let version = product.store.flow(samples::flow_id(1)).unwrap().version;

    assert_eq!(theirs.advance(samples::flow_id(1)).await.unwrap(), Outcome::Overtaken);
    assert_eq!((product.world.calls(Call::Debit), product.world.calls(Call::Query)), (debits, queries));
    assert_eq!(product.store.flow(samples::flow_id(1)).unwrap().version, version);
}

#[tokio::test]
async fn a_row_that_is_gone_and_a_terminal_one_are_told_apart() {
    let product = Product::new();
    product.create(1, 3_600);
    let replica = product.replica(1);
    assert_eq!(replica.advance(samples::flow_id(1)).await.unwrap(), Outcome::Moved);
    assert!(product.all_terminal());
    assert_eq!(replica.advance(samples::flow_id(1)).await.unwrap(), Outcome::Overtaken);
    assert!(!replica.advance(samples::flow_id(2)).await.unwrap_err().retryable());
}
