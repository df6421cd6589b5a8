//! Time and chance. The system implementations are the only code that may touch the real ones (`clippy.toml`).

use std::sync::OnceLock;
use std::time::Instant;

use rand::RngExt as _;

use crate::retry::JitterPermille;

/// A monotonic clock. Wall-clock time for decisions comes from the database alone.
pub trait Clock: Send + Sync {
    /// Milliseconds since some fixed moment in the past; never goes back.
    fn monotonic_ms(&self) -> u64;
}

/// Chance, for spreading retries.
pub trait Jitter: Send + Sync {
    /// The next draw.
    fn draw(&self) -> JitterPermille;
}

/// The machine's monotonic clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "this is the system implementation of the Clock port")]
    fn monotonic_ms(&self) -> u64 {
        static START: OnceLock<Instant> = OnceLock::new();
        let start = *START.get_or_init(Instant::now);
        u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// The operating system's randomness.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemJitter;

impl Jitter for SystemJitter {
    #[allow(clippy::disallowed_methods, reason = "this is the system implementation of the Jitter port")]
    fn draw(&self) -> JitterPermille {
        JitterPermille::new(rand::rng().random_range(0..1000))
    }
}
