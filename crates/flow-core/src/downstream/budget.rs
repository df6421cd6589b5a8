//! A rate budget: so many calls a second, with a burst. Pure, by the generic cell rate algorithm in integers.

/// Calls a second and the burst above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetLimits {
    /// Sustained rate; at least 1.
    pub calls_per_s: u32,
    /// Calls that may come at once; at least 1.
    pub burst_calls: u32,
}

/// The budget of one downstream.
#[derive(Debug)]
pub struct Budget {
    interval_us: u64,
    tolerance_us: u64,
    /// Theoretical arrival time of the next call if calls came evenly, in microseconds.
    next_us: u64,
}

impl Budget {
    /// An unspent budget.
    pub const fn new(limits: BudgetLimits) -> Budget {
        let calls_per_s = if limits.calls_per_s == 0 { 1 } else { limits.calls_per_s };
        let interval_us = 1_000_000 / calls_per_s as u64;
        let tolerance_us = interval_us * (limits.burst_calls.saturating_sub(1)) as u64;
        Budget { interval_us, tolerance_us, next_us: 0 }
    }

    /// Books one call and returns how long to wait before making it, in milliseconds; or, if that were longer than
    /// `max_wait_ms`, books nothing and returns the wait as an error.
    ///
    /// # Errors
    /// The waiting time that was too long.
    pub fn book(&mut self, now_ms: u64, max_wait_ms: u64) -> Result<u64, u64> {
        let wait_ms = self.wait_ms(now_ms);
        if wait_ms > max_wait_ms {
            return Err(wait_ms);
        }
        self.next_us = self.next_us.max(now_ms.saturating_mul(1_000)) + self.interval_us;
        Ok(wait_ms)
    }

    /// How long a call that is booked now would have to wait, in milliseconds; books nothing.
    pub fn wait_ms(&self, now_ms: u64) -> u64 {
        self.next_us
            .saturating_sub(now_ms.saturating_mul(1_000))
            .saturating_sub(self.tolerance_us)
            .div_ceil(1_000)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_burst_passes_then_calls_are_spaced() {
        let mut budget = Budget::new(BudgetLimits { calls_per_s: 10, burst_calls: 3 });
        assert_eq!([budget.book(0, 0), budget.book(0, 0), budget.book(0, 0)], [Ok(0), Ok(0), Ok(0)]);
        assert_eq!(budget.book(0, 50), Err(100));
        assert_eq!(budget.book(0, 100), Ok(100));
        assert_eq!(budget.book(0, 1000), Ok(200));
        assert_eq!(budget.book(300, 0), Ok(0));
    }

    proptest! {
        #[test]
        fn never_more_than_rate_times_time_plus_burst(
            rate in 1u32..500, burst in 1u32..50, gaps in prop::collection::vec(0u64..40, 1..400),
        ) {
            let mut budget = Budget::new(BudgetLimits { calls_per_s: rate, burst_calls: burst });
            let mut now_ms = 0;
            let mut calls = 0u64;
            for gap in gaps {
                now_ms += gap;
                if budget.book(now_ms, 0).is_ok() {
                    calls += 1;
                }
                // The interval is cut to whole microseconds: at 500 calls/s that is exact, below it errs by < 0.1 %.
                let allowed = (now_ms + 1) * u64::from(rate) * 1001 / 1_000_000 + u64::from(burst) + 1;
                prop_assert!(calls <= allowed, "{calls} calls in {now_ms} ms");
            }
        }
    }
}
