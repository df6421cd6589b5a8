//! The fakes as a far side to test.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use flow_core::ids::{TradeOrderNo, UserId};
use flow_core::money::Money;
use flow_core::ports::{Business, Wallet};
use flow_testkit::clock::ManualClock;
use flow_testkit::conformance::far_side::{FarSide, FarSideFactory};
use flow_testkit::fakes::{FakeBusiness, FakeWallet, FakeWorld};
use flow_testkit::ledger_check::OrderFacts;

pub(crate) struct FakeFactory;

struct FakeFarSide {
    world: FakeWorld,
    wallet: FakeWallet,
    business: FakeBusiness,
}

#[async_trait]
impl FarSideFactory for FakeFactory {
    async fn fresh(&self) -> Box<dyn FarSide> {
        let world = FakeWorld::new(ManualClock::new());
        Box::new(FakeFarSide { wallet: world.wallet(), business: world.business(), world })
    }
}

#[async_trait]
impl FarSide for FakeFarSide {
    fn wallet(&self) -> &dyn Wallet {
        &self.wallet
    }

    fn business(&self) -> &dyn Business {
        &self.business
    }

    async fn now(&self) -> DateTime<Utc> {
        self.world.clock().now()
    }

    async fn set_balance(&self, user_id: UserId, balance: &Money) {
        self.world.set_balance(user_id, balance);
    }

    async fn facts(&self, trade_order_no: &TradeOrderNo) -> OrderFacts {
        OrderFacts::from(&self.world.ledger(trade_order_no))
    }
}
