//! What the wallet's and the business system's suites need besides the ports: a fresh far side, its clock, its ledger.

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use flow_core::flow::Flow;
use flow_core::ids::{TradeOrderNo, UserId};
use flow_core::money::Money;
use flow_core::ports::{Business, Wallet};
use flow_core::state::State;

use crate::ledger_check::OrderFacts;
use crate::samples;

/// Makes far sides to test.
#[async_trait]
pub trait FarSideFactory: Send + Sync {
    /// A wallet and a business system that know nothing yet and keep their contract.
    async fn fresh(&self) -> Box<dyn FarSide>;
}

/// A wallet and a business system under test.
#[async_trait]
pub trait FarSide: Send + Sync {
    /// The wallet, through the adapter under test.
    fn wallet(&self) -> &dyn Wallet;
    /// The business system, through the adapter under test.
    fn business(&self) -> &dyn Business;
    /// What the far side's clock reads.
    async fn now(&self) -> DateTime<Utc>;
    /// Sets what a user holds; until then the balance is unlimited.
    async fn set_balance(&self, user_id: UserId, balance: &Money);
    /// What really happened under a number.
    async fn facts(&self, trade_order_no: &TradeOrderNo) -> OrderFacts;
}

/// A flow by number, with a deadline an hour ahead of the far side's clock.
pub(super) async fn open_flow(far: &dyn FarSide, number: i64) -> Flow {
    let mut flow = samples::flow(number, State::Paying, far.now().await);
    flow.deadline = flow.created_at + TimeDelta::hours(1);
    flow
}

/// A flow by number, whose deadline has passed on the far side's clock.
pub(super) async fn late_flow(far: &dyn FarSide, number: i64) -> Flow {
    let mut flow = open_flow(far, number).await;
    flow.deadline = flow.created_at - TimeDelta::minutes(1);
    flow
}
