//! The words of the two contracts: requests, answers and refusals, free of any transport.

use serde::{Deserialize, Serialize};

/// An amount in integer minor units of a currency or asset; never a float.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Money {
    /// Minor units; the exponent is the wallet's own.
    pub amount: i64,
    /// Currency or asset code, compared byte by byte.
    pub currency: String,
}

/// A business target: what is bought, by whom. At most one order ever owns it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Target {
    /// The user who receives the benefit.
    #[serde(with = "decimal_id")]
    pub user_id: u64,
    /// The kind of business.
    pub scene: String,
    /// The long-lived identity of the target within the scene.
    pub biz_key: String,
}

/// A request to take money, identified by `trade_order_no`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Debit {
    /// Idempotency identity of the charge.
    pub trade_order_no: String,
    /// Whose balance.
    #[serde(with = "decimal_id")]
    pub user_id: u64,
    /// How much.
    pub money: Money,
    /// The charge must not take effect at or after this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_after_ms: Option<i64>,
}

/// A request to give money of a charge back, identified by `refund_order_no`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refund {
    /// Idempotency identity of the refund.
    pub refund_order_no: String,
    /// The charge it gives back.
    pub trade_order_no: String,
    /// Whose balance; must be the user of the charge.
    #[serde(with = "decimal_id")]
    pub user_id: u64,
    /// How much, in the currency of the charge.
    pub money: Money,
}

/// A request to grant the benefit to a target on behalf of one order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Execution {
    /// The order that will own the benefit.
    pub trade_order_no: String,
    /// What is granted.
    pub target: Target,
    /// The grant must not take effect at or after this time.
    pub not_after_ms: i64,
}

/// How the world carries out a call; anything but `Normal` is the work of a fault rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Course {
    /// At once, by the contract.
    #[default]
    Normal,
    /// Accepted now, carried out later; the answer is PROCESSING (NOT_DONE for an execution).
    Defer(Deferral),
    /// Refused definitely, with this code. An order that already has an outcome keeps it.
    Refuse {
        /// The failure or refusal code to answer.
        code: String,
    },
}

/// When a deferred call is carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Deferral {
    /// At the first touch at or after this time (Unix milliseconds).
    UntilMs(i64),
    /// When somebody queries it.
    NextQuery,
}

/// Deliberate mutants and missing abilities of the far side. All off is a system that keeps its contract.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Switches {
    /// `execute` no longer checks `not_after`: a late message grants a benefit that may already be refunded.
    pub ignore_not_after: bool,
    /// `debit` forgets its idempotency: the same number charges again. Shows that the ledger counts.
    pub double_charge: bool,
    /// `refund` forgets its idempotency: the same number pays back again. Shows the same.
    pub double_refund: bool,
    /// The wallet can not close an order.
    pub close_unsupported: bool,
}

/// State of a wallet order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum DebitStatus {
    /// Charged.
    Success,
    /// Definitely not charged, now or ever.
    Failed,
    /// The outcome is not known yet.
    Processing,
    /// Closed before it was charged; will never be charged.
    Closed,
}

/// The wallet's answer about an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DebitView {
    /// The order.
    pub trade_order_no: String,
    /// Its state.
    pub status: DebitStatus,
    /// Whose balance; none for a number that was closed before any debit arrived.
    pub user_id: Option<u64>,
    /// How much; none for a number that was closed before any debit arrived.
    pub money: Option<Money>,
    /// The wallet's own number of the charge.
    pub transaction_id: Option<String>,
    /// Why it failed.
    pub failure_code: Option<String>,
    /// When the state became final.
    pub finished_at_ms: Option<i64>,
}

/// Why a debit got no order view.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DebitRefusal {
    /// The number is bound to another user, amount or currency.
    #[error("this trade order number is bound to other parameters; the existing order is unchanged")]
    OrderConflict,
    /// Zero or negative.
    #[error("the amount must be positive; nothing was charged")]
    InvalidAmount,
}

/// Why a close could not be answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CloseRefusal {
    /// This wallet has no such ability.
    #[error("this wallet can not close orders; the order is unchanged, query it instead")]
    Unsupported,
}

/// State of a refund order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum RefundStatus {
    /// Given back.
    Success,
    /// Not given back; the same number may be tried again.
    Failed,
    /// The outcome is not known yet.
    Processing,
}

/// The wallet's answer about a refund.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefundView {
    /// The refund.
    pub refund_order_no: String,
    /// The charge it gives back.
    pub trade_order_no: String,
    /// Its state.
    pub status: RefundStatus,
    /// Whose balance.
    pub user_id: u64,
    /// How much.
    pub money: Money,
    /// The wallet's own number of the refund.
    pub transaction_id: Option<String>,
    /// Why the last attempt failed.
    pub failure_code: Option<String>,
    /// When the state became what it is.
    pub finished_at_ms: Option<i64>,
}

/// Why a refund was not recorded. All are definite: no money moved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RefundRefusal {
    /// The number is bound to other parameters, or user or currency are not those of the charge.
    #[error(
        "this refund order number, or the charge it names, is bound to other parameters; nothing was refunded"
    )]
    RefundConflict,
    /// There is no charge to give back.
    #[error("the order was not charged; nothing was refunded")]
    OrderNotCharged,
    /// Together with earlier refunds it would give back more than was taken.
    #[error("the refunds of this order would exceed its charge; nothing was refunded")]
    RefundExceedsCharge,
    /// Zero or negative.
    #[error("the amount must be positive; nothing was refunded")]
    InvalidAmount,
}

/// Whether a benefit was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum FactStatus {
    /// Granted; the owner is named.
    Done,
    /// Not granted (yet).
    NotDone,
}

/// The business system's answer to an execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutionView {
    /// Whether the target is done.
    pub status: FactStatus,
    /// The order that owns the benefit.
    pub owner_order_no: Option<String>,
    /// Why this attempt was refused; a later one with the same number may succeed.
    pub refusal_code: Option<String>,
}

/// Why an execution was refused. All are definite: this call granted nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExecuteRefusal {
    /// `now >= not_after`.
    #[error("the execution arrived at or after its not_after; nothing was granted")]
    DeadlinePassed,
    /// Another order owns the target.
    #[error("the target is owned by order {owner_order_no}; nothing was granted")]
    OwnedByOther {
        /// The order that owns it.
        owner_order_no: String,
    },
    /// The number is bound to another target or `not_after`.
    #[error("this trade order number is bound to another execution; nothing was granted")]
    ExecutionConflict,
}

/// The business fact of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FactView {
    /// Whether the target is done.
    pub status: FactStatus,
    /// The order that owns the benefit; always set with `Done`, never with `NotDone`.
    pub owner_order_no: Option<String>,
    /// When it was granted.
    pub finished_at_ms: Option<i64>,
}

/// A `u64` identity as a JSON string of decimal digits (JSON numbers lose digits beyond 2^53).
pub mod decimal_id {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    use std::borrow::Cow;

    /// Writes the identity as a string.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(id: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(id)
    }

    /// Reads the identity from a string of digits, without sign, blanks or leading zeros.
    ///
    /// # Errors
    /// When it is anything else, or does not fit.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        parse(&text)
            .ok_or_else(|| D::Error::custom("must be a string holding an unsigned 64-bit decimal number"))
    }

    /// The identity a text spells, or none.
    #[must_use]
    pub fn parse(text: &str) -> Option<u64> {
        let canonical = text == "0" || !text.starts_with('0');
        if canonical && text.bytes().all(|b| b.is_ascii_digit()) { text.parse().ok() } else { None }
    }
}
