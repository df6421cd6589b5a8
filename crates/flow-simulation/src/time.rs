//! Virtual time: the runtime's paused clock moves it on, and everybody else's clock is read off it.

use std::sync::Arc;
use std::time::Duration;

use flow_core::ports::Clock;
use flow_testkit::clock::ManualClock;
use tokio::time::Instant;

/// The one time line of a run, and the clocks of those who have one of their own.
#[derive(Debug)]
pub(crate) struct Time {
    start: Instant,
    /// The database's: the reference.
    pub(crate) database: ManualClock,
    /// The wallet's, skewed against the database's.
    pub(crate) wallet: ManualClock,
    /// The business system's.
    pub(crate) business: ManualClock,
}

impl Time {
    pub(crate) fn new(wallet_skew_ms: i64, business_skew_ms: i64) -> Time {
        let database = ManualClock::new();
        Time {
            start: now(),
            wallet: database.process(wallet_skew_ms),
            business: database.process(business_skew_ms),
            database,
        }
    }

    /// Milliseconds since the start.
    pub(crate) fn now_ms(&self) -> u64 {
        ms(now() - self.start)
    }

    /// Brings the manual clocks up to the present; before anybody reads one.
    pub(crate) fn sync(&self) {
        let (now_ms, shown_ms) = (self.now_ms(), self.database.monotonic_ms());
        if now_ms > shown_ms {
            self.database.advance_ms(now_ms - shown_ms);
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "the runtime's clock is paused: this is virtual time")]
fn now() -> Instant {
    Instant::now()
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Sleeps in virtual time.
pub(crate) async fn sleep_ms(ms: u64) {
    if ms > 0 {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }
}

/// A process's monotonic clock: begins anywhere, and runs a little fast or slow.
#[derive(Debug)]
pub(crate) struct ProcessClock {
    time: Arc<Time>,
    offset_ms: u64,
    /// Parts per million; negative is slow.
    drift_ppm: i64,
}

impl ProcessClock {
    pub(crate) fn new(time: Arc<Time>, offset_ms: u64, drift_ppm: i64) -> ProcessClock {
        ProcessClock { time, offset_ms, drift_ppm }
    }
}

impl Clock for ProcessClock {
    fn monotonic_ms(&self) -> u64 {
        let passed = i64::try_from(self.time.now_ms()).unwrap_or(i64::MAX / 2_000_000);
        let drifted = passed.saturating_add(passed.saturating_mul(self.drift_ppm) / 1_000_000);
        self.offset_ms.saturating_add(u64::try_from(drifted).unwrap_or(0))
    }
}
