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

/// A wake-up as it comes back from a queue that processes share: lost, doubled, late, early or out of order, or of a flow
/// that is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WakeUp {
    /// The flow.
    pub flow_id: FlowId,
    /// The row's version when it was asked for.
    pub version: Version,
    /// Asked for without a delay: whoever asked has given up a turn that the row still shows as taken.
    pub at_once: bool,
}

/// What a wake-up came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Awoken {
    /// Done with: whatever the flow still needs stands in its row.
    Done,
    /// It came before the row is due; worth another delivery later.
    NotYet {
        /// In so many milliseconds.
        in_ms: u64,
    },
    /// It could not be worked on; worth another delivery.
    Failed,
}

/// Who is handed wake-ups by a queue that processes share.
#[async_trait]
pub trait Awaken: Send + Sync {
    /// Looks at the flow's row, and at nothing else of the wake-up but whom it names.
    async fn awaken(&self, wake_up: WakeUp) -> Awoken;
}
