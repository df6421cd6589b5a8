//! The business system: hands over the benefit, at most once per target, and says who owns it.

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use crate::answer::{Answered, ExecuteAnswer, FactAnswer};
use crate::ids::{Target, TradeOrderNo};

/// A benefit to hand over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Execution {
    /// The business system's idempotency key, and the owner that its record will name.
    pub trade_order_no: TradeOrderNo,
    /// What is handed over, and to whom.
    pub target: Target,
    /// The business must refuse from this moment on, in the same conditional write that checks the task.
    pub not_after: DateTime<Utc>,
    /// Opaque text from the client.
    pub context: Option<String>,
}

/// A business system. Every call returns within the adapter's own time limit and never fails: what is not an answer
/// is classified as [`crate::answer::NoAnswer`].
#[async_trait]
pub trait Business: Send + Sync {
    /// Hands over the benefit, once per number.
    async fn execute(&self, execution: &Execution) -> Answered<ExecuteAnswer>;
    /// Reads the authoritative record of the target.
    async fn fact(&self, target: &Target) -> Answered<FactAnswer>;
}
