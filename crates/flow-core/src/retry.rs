//! When a flow that did not move is tried again.
//!
//! Pure: the random part of a delay comes in as a [`JitterPermille`]. A flow is never dropped and never failed for
//! having been tried often; past the end of the schedule it keeps the last interval.

/// The random part of a delay, 0 to 999: drawn by the shell, so that a run can be repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JitterPermille(u16);

impl JitterPermille {
    /// Folds any number into the range.
    pub const fn new(number: u16) -> JitterPermille {
        JitterPermille(number % 1000)
    }

    /// No jitter: the delay as the schedule has it.
    pub const NONE: JitterPermille = JitterPermille(0);

    /// The part of `span_ms` that this jitter picks: 0 inclusive to `span_ms` exclusive.
    pub const fn of(self, span_ms: u64) -> u64 {
        span_ms / 1000 * self.0 as u64 + span_ms % 1000 * self.0 as u64 / 1000
    }
}

/// Delays between tries in one state, in milliseconds; the last one repeats for ever.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    delays_ms: Vec<u64>,
}

/// Why a list of delays is no schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// There must be a first delay.
    #[error("a retry schedule needs at least one delay")]
    Empty,
    /// A delay of nothing would make a busy loop; a delay of weeks would forget the flow.
    #[error("delay number {position} is {delay_ms} ms; allowed are 1 to {} ms", Schedule::MAX_DELAY_MS)]
    OutOfRange {
        /// Which delay, from 0.
        position: usize,
        /// Its value.
        delay_ms: u64,
    },
    /// More entries than anybody can read.
    #[error("a retry schedule has at most {} delays", Schedule::MAX_DELAYS)]
    TooLong,
}

impl Schedule {
    /// Longest delay: one day.
    pub const MAX_DELAY_MS: u64 = 24 * 60 * 60 * 1000;
    /// Most entries.
    pub const MAX_DELAYS: usize = 64;
    /// 1 s, 2 s, 5 s, 15 s, 1 m, 5 m, 15 m, 30 m, 1 h, 2 h, then every 2 h.
    pub const DEFAULT_MS: [u64; 10] =
        [1_000, 2_000, 5_000, 15_000, 60_000, 300_000, 900_000, 1_800_000, 3_600_000, 7_200_000];

    /// Checks and keeps the delays.
    ///
    /// # Errors
    /// [`ScheduleError`] naming the entry that is wrong.
    pub fn new(delays_ms: Vec<u64>) -> Result<Schedule, ScheduleError> {
        if delays_ms.is_empty() {
            return Err(ScheduleError::Empty);
        }
        if delays_ms.len() > Self::MAX_DELAYS {
            return Err(ScheduleError::TooLong);
        }
        if let Some((position, &delay_ms)) =
            delays_ms.iter().enumerate().find(|(_, ms)| !(1..=Self::MAX_DELAY_MS).contains(*ms))
        {
            return Err(ScheduleError::OutOfRange { position, delay_ms });
        }
        Ok(Schedule { delays_ms })
    }

    /// Delay in milliseconds after `tries` counted tries: the schedule's entry plus up to a quarter of it.
    pub fn delay_ms(&self, tries: u32, jitter: JitterPermille) -> u64 {
        let last = self.delays_ms.len() - 1;
        let base_ms = self.delays_ms[usize::try_from(tries).unwrap_or(last).min(last)];
        base_ms + jitter.of(base_ms / 4 + 1)
    }
}

impl Default for Schedule {
    fn default() -> Schedule {
        Schedule { delays_ms: Self::DEFAULT_MS.to_vec() }
    }
}

/// Delay in milliseconds before a *postponed* try, one that was surely not executed: the time the refusing side
/// asked for, plus a share of `spread_ms`, so that what piled up during an outage does not come back as one wave.
pub fn postpone_ms(retry_after_ms: u64, spread_ms: u64, jitter: JitterPermille) -> u64 {
    retry_after_ms.min(Schedule::MAX_DELAY_MS) + jitter.of(spread_ms) + 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn default_schedule_is_the_documented_one() {
        let schedule = Schedule::default();
        let expected_s = [1, 2, 5, 15, 60, 300, 900, 1800, 3600, 7200, 7200, 7200];
        for (tries, seconds) in (0..).zip(expected_s) {
            assert_eq!(schedule.delay_ms(tries, JitterPermille::NONE), seconds * 1000, "after {tries} tries");
        }
        assert_eq!(schedule.delay_ms(u32::MAX, JitterPermille::NONE), 7_200_000);
    }

    #[test]
    fn wrong_schedules_are_refused() {
        assert_eq!(Schedule::new(vec![]), Err(ScheduleError::Empty));
        assert_eq!(Schedule::new(vec![1, 0]), Err(ScheduleError::OutOfRange { position: 1, delay_ms: 0 }));
        assert!(Schedule::new(vec![Schedule::MAX_DELAY_MS]).is_ok());
        assert!(Schedule::new(vec![Schedule::MAX_DELAY_MS + 1]).is_err());
        assert_eq!(Schedule::new(vec![1; 65]), Err(ScheduleError::TooLong));
    }

    #[test]
    fn a_jitter_picks_its_share_of_a_span() {
        let table = [
            (0, 7_777, 0),
            (500, 1_000, 500),
            (999, 999, 998),
            (250, 10_400, 2_600),
            (333, 7_777, 2_589),
            (1_500, 1_000, 500),
        ];
        for (permille, span_ms, expected_ms) in table {
            assert_eq!(JitterPermille::new(permille).of(span_ms), expected_ms, "{permille} of {span_ms}");
        }
    }

    #[test]
    fn delays_with_jitter() {
        let (schedule, half, most) =
            (Schedule::default(), JitterPermille::new(500), JitterPermille::new(999));
        assert_eq!(schedule.delay_ms(0, most), 1_250, "a quarter more, the whole of it");
        assert_eq!(schedule.delay_ms(4, half), 67_500);
        assert_eq!(postpone_ms(5, 1_000, half), 506);
        assert_eq!(
            postpone_ms(Schedule::MAX_DELAY_MS + 1, 0, half),
            Schedule::MAX_DELAY_MS + 1,
            "capped, and one more"
        );
    }

    proptest! {
        #[test]
        fn a_delay_lies_within_its_entry_and_a_quarter_more(tries in 0u32..40, jitter in 0u16..2000) {
            let schedule = Schedule::default();
            let base = schedule.delay_ms(tries, JitterPermille::NONE);
            let delay = schedule.delay_ms(tries, JitterPermille::new(jitter));
            prop_assert!(delay >= base && delay <= base + base / 4);
        }

        #[test]
        fn a_postponement_lasts_at_least_what_was_asked_for(
            after in 0u64..10_000_000, spread in 0u64..600_000, jitter in 0u16..1000,
        ) {
            let delay = postpone_ms(after, spread, JitterPermille::new(jitter));
            prop_assert!(delay > after && delay <= after + spread + 1);
        }
    }
}
