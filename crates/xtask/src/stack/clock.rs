//! The wall clock, for the one part of the workspace that sits outside the product and waits for it.

use std::time::Duration;

use tokio::time::Instant;

/// How long something is waited for.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    since: Instant,
    within: Duration,
}

impl Patience {
    /// Begins now.
    #[allow(
        clippy::disallowed_methods,
        reason = "tests and demo watch the product from outside, by the real clock"
    )]
    pub fn of(within: Duration) -> Patience {
        Patience { since: Instant::now(), within }
    }

    /// Whether the time is over.
    pub fn is_over(&self) -> bool {
        self.elapsed() >= self.within
    }

    /// The time since the beginning.
    pub fn elapsed(&self) -> Duration {
        self.since.elapsed()
    }
}

/// The wall clock's time, as clients know it.
#[allow(clippy::disallowed_methods, reason = "a client application has a clock of its own")]
pub fn utc_now() -> chrono::DateTime<chrono::Utc> {
    chrono::Utc::now()
}
