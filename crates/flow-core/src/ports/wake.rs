//! Waking a flow after a delay. A wake-up carries nothing to decide on, and losing every one only costs time: the
//! scanner finds each non-terminal row from the database alone.

use async_trait::async_trait;

use crate::ids::{FlowId, Version};

/// Why a wake-up was not taken. Never a reason to fail a payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WakeError {
    /// The queue holds as many as it may; the scanner will find the flow.
    #[error("the wake-up queue is full; the scanner will find the flow")]
    Full,
    /// The queue cannot be reached or is stopping; the scanner will find the flow.
    #[error("the wake-up queue is not available; the scanner will find the flow")]
    Unavailable,
}

/// A queue of delayed wake-ups.
#[async_trait]
pub trait WakeQueue: Send + Sync {
    /// Asks for `advance(flow_id)` after `delay_ms`. `version` lets doubled wake-ups of one row collapse.
    ///
    /// # Errors
    /// [`WakeError`]: count it and go on.
    async fn wake_after(&self, flow_id: FlowId, version: Version, delay_ms: u64) -> Result<(), WakeError>;
}
