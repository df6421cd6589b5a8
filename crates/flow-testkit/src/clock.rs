//! A clock that moves when the test says so.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use chrono::{DateTime, TimeDelta, Utc};
use flow_core::ports::Clock;

/// One shared time line, read through a per-process skew. Clones share both; [`ManualClock::process`] shares the time
/// line alone.
#[derive(Debug, Clone)]
pub struct ManualClock {
    elapsed_ms: Arc<AtomicI64>,
    skew_ms: Arc<AtomicI64>,
}

/// Where every manual clock starts: 2026-01-01T00:00:00Z, in Unix milliseconds.
pub const START_MS: i64 = 1_767_225_600_000;

impl ManualClock {
    /// A clock that stands at [`START_MS`].
    pub fn new() -> ManualClock {
        ManualClock { elapsed_ms: Arc::new(AtomicI64::new(0)), skew_ms: Arc::new(AtomicI64::new(0)) }
    }

    /// The wall clock of another process on the same time line, `skew_ms` ahead (or, negative, behind).
    pub fn process(&self, skew_ms: i64) -> ManualClock {
        ManualClock { elapsed_ms: Arc::clone(&self.elapsed_ms), skew_ms: Arc::new(AtomicI64::new(skew_ms)) }
    }

    /// Changes how far this process is ahead (or, negative, behind).
    pub fn set_skew_ms(&self, skew_ms: i64) {
        self.skew_ms.store(skew_ms, Ordering::SeqCst);
    }

    /// Moves the time line on, for every process on it.
    pub fn advance_ms(&self, ms: u64) {
        let ms = i64::try_from(ms).expect("a test moves the clock by less than 292 million years");
        self.elapsed_ms.fetch_add(ms, Ordering::SeqCst);
    }

    /// Moves the time line on until this process reads `moment`; never back.
    pub fn advance_to(&self, moment: DateTime<Utc>) {
        let missing_ms = (moment - self.now()).num_milliseconds();
        self.advance_ms(u64::try_from(missing_ms).unwrap_or(0));
    }

    /// Unix milliseconds, as this process reads them.
    pub fn now_ms(&self) -> i64 {
        START_MS + self.elapsed_ms.load(Ordering::SeqCst) + self.skew_ms.load(Ordering::SeqCst)
    }

    /// The time, as this process reads it.
    pub fn now(&self) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::milliseconds(self.now_ms())
    }
}

impl Default for ManualClock {
    fn default() -> ManualClock {
        ManualClock::new()
    }
}

impl Clock for ManualClock {
    fn monotonic_ms(&self) -> u64 {
        // A skew shifts wall clocks, not the time that passes.
        u64::try_from(self.elapsed_ms.load(Ordering::SeqCst)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_share_the_time_line_but_not_the_skew() {
        let ours = ManualClock::new();
        let theirs = ours.process(250);
        ours.advance_ms(1_000);
        assert_eq!(theirs.now_ms() - ours.now_ms(), 250);
        assert_eq!(theirs.monotonic_ms(), 1_000);
        theirs.set_skew_ms(-250);
        assert_eq!(theirs.now_ms() - ours.now_ms(), -250);
        let later = ours.now() + TimeDelta::seconds(5);
        ours.advance_to(later);
        assert_eq!(ours.now(), later);
        ours.advance_to(later - TimeDelta::seconds(3));
        assert_eq!(ours.now(), later, "time does not go back");
    }
}
