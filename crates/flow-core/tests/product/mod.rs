//! One process of the product over the in-memory database and far side, for tests of `advance`.
#![allow(dead_code, reason = "each suite uses its part")]

use std::sync::Arc;

use flow_core::advance::{AdvanceSettings, Advancer, Call as AdvanceCall};
use flow_core::downstream::{BreakerLimits, BudgetLimits, BusinessRules, Downstreams, Limits, WalletRules};
use flow_core::flow::{Flow, Trigger};
use flow_core::ports::{Created, WakeQueue};
use flow_testkit::clock::ManualClock;
use flow_testkit::fakes::FakeWorld;
use flow_testkit::jitter::FixedJitter;
use flow_testkit::ledger_check::{OrderFacts, assert_none, check};
use flow_testkit::mem_store::MemStore;
use flow_testkit::samples;
use flow_testkit::wake::RecordingWake;

pub(crate) const SETTLE_MARGIN_MS: u64 = 5_000;
pub(crate) const GRACE_MS: u64 = 300_000;

/// A gate that is never felt.
pub(crate) const WIDE: Limits = Limits {
    max_concurrent_calls: 8,
    queue_wait_ms: 1_000,
    budget: BudgetLimits { calls_per_s: 1_000, burst_calls: 1_000 },
    breaker: BreakerLimits { failures_to_open: 1_000, open_ms: 1, max_open_ms: 1, probes: 1 },
};

pub(crate) struct Product {
    pub(crate) clock: ManualClock,
    pub(crate) store: MemStore,
    pub(crate) world: FakeWorld,
    pub(crate) wake: Arc<RecordingWake>,
    pub(crate) advancer: Advancer,
}

impl Product {
    pub(crate) fn new(wallet_can_close: bool) -> Product {
        let clock = ManualClock::new();
        let (store, world) = (MemStore::new(clock.clone()), FakeWorld::new(clock.clone()));
        Product::over(&clock, &store, &world, wallet_can_close)
    }

    /// One process over this database and this far side.
    pub(crate) fn over(
        clock: &ManualClock,
        store: &MemStore,
        world: &FakeWorld,
        wallet_can_close: bool,
    ) -> Product {
        Product::limited(clock, store, world, wallet_can_close, WIDE)
    }

    /// The same, with a gate of this kind before each downstream.
    pub(crate) fn limited(
        clock: &ManualClock,
        store: &MemStore,
        world: &FakeWorld,
        wallet_can_close: bool,
        limits: Limits,
    ) -> Product {
        let wallet = WalletRules {
            can_close: wallet_can_close,
            in_flight_grace_ms: GRACE_MS,
            refund_tries_before_hold: 5,
        };
        let business = BusinessRules { settle_margin_ms: SETTLE_MARGIN_MS, unreadable_hold_ms: 600_000 };
        let downstreams = Downstreams::builder(Arc::new(clock.clone()))
            .wallet(samples::wallet_name(), Arc::new(world.wallet()), wallet, limits)
            .business(samples::business_name(), Arc::new(world.business()), business, limits)
            .build();
        let wake = Arc::new(RecordingWake::new());
        let advancer = Advancer::new(
            Arc::new(store.clone()),
            downstreams,
            Arc::clone(&wake) as Arc<dyn WakeQueue>,
            Arc::new(clock.clone()),
            Arc::new(FixedJitter::NONE),
            AdvanceSettings::default(),
        );
        Product { clock: clock.clone(), store: store.clone(), world: world.clone(), wake, advancer }
    }

    /// A row in `WAIT_PAY` with ten minutes to go.
    pub(crate) fn created(&self) -> Flow {
        let deadline = self.clock.now() + chrono::TimeDelta::minutes(10);
        match self.store.create_now(samples::new_flow(1, deadline)) {
            Created::Inserted(seen) => seen.value,
            refused @ (Created::KeyTaken | Created::TargetTaken) => panic!("{refused:?}"),
        }
    }

    pub(crate) async fn advance(&self, flow: &Flow) -> Flow {
        self.advancer.advance(flow.id, &by(Trigger::Scanner)).await.expect("the store is up").flow
    }

    /// Nothing may be left on the network, and no promise may be broken by what arrives last.
    pub(crate) fn assert_kept(&self) {
        self.world.deliver_late();
        let facts = |flow: &Flow| OrderFacts::from(&self.world.ledger(&flow.trade_order_no));
        assert_none(&check(&self.store.flows(), &self.store.all_events(), facts));
    }
}

pub(crate) fn by(trigger: Trigger) -> AdvanceCall {
    AdvanceCall { trigger, trace_id: None, budget_ms: 60_000 }
}
