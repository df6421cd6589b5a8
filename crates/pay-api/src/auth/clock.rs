//! The wall clock that API keys expire by. Nothing about a payment is decided by it.

use chrono::{DateTime, Utc};

/// A wall clock, injectable so that expiry can be tested.
pub trait WallClock: Send + Sync {
    /// The time now, in UTC.
    fn now(&self) -> DateTime<Utc>;
}

/// The machine's wall clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemWallClock;

impl WallClock for SystemWallClock {
    #[allow(clippy::disallowed_methods, reason = "this is the system implementation of the WallClock port")]
    fn now(&self) -> DateTime<Utc> {
        Utc::now()
    }
}
