//! The wallet: a ledger we do not own, idempotent by our order numbers, which can be asked.

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use crate::answer::{Answered, ChargeAnswer, RefundAnswer};
use crate::flow::RefundReason;
use crate::ids::{RefundOrderNo, TradeOrderNo, UserId};
use crate::money::Money;

/// A charge to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChargeOrder {
    /// The wallet's idempotency key.
    pub trade_order_no: TradeOrderNo,
    /// Whose balance.
    pub user_id: UserId,
    /// How much.
    pub money: Money,
    /// After this moment the charge is not wanted any more; a wallet may refuse it then.
    pub not_after: DateTime<Utc>,
}

/// A refund to make: always in full.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefundOrder {
    /// The wallet's idempotency key.
    pub refund_order_no: RefundOrderNo,
    /// The charge that is paid back.
    pub trade_order_no: TradeOrderNo,
    /// Whose balance.
    pub user_id: UserId,
    /// How much.
    pub money: Money,
    /// Why.
    pub reason: RefundReason,
}

/// A wallet. Every call returns within the adapter's own time limit and never fails: what is not an answer is
/// classified as [`crate::answer::NoAnswer`].
#[async_trait]
pub trait Wallet: Send + Sync {
    /// Charges; the same number never charges twice.
    async fn debit(&self, order: &ChargeOrder) -> Answered<ChargeAnswer>;
    /// Asks about a charge. `user_id` and `money` are what the answer is verified against by the decisions.
    async fn query(&self, trade_order_no: &TradeOrderNo) -> Answered<ChargeAnswer>;
    /// Bars an order that was not charged, so that a debit arriving later is refused.
    async fn close(&self, trade_order_no: &TradeOrderNo) -> Answered<ChargeAnswer>;
    /// Pays back; the same number never pays back twice.
    async fn refund(&self, order: &RefundOrder) -> Answered<RefundAnswer>;
    /// Asks about a refund.
    async fn query_refund(&self, refund_order_no: &RefundOrderNo) -> Answered<RefundAnswer>;
}
