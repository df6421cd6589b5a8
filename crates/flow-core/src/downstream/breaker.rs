//! A circuit breaker as a pure state machine: time comes in, nothing is awaited.
//!
//! Own code rather than a crate because it must run under virtual time and give the waiting time back to the caller,
//! which schedules the flow by it.

/// When a breaker opens and for how long. All times in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerLimits {
    /// Failures in a row that open it.
    pub failures_to_open: u32,
    /// How long it stays open the first time; doubled each time a probe fails.
    pub open_ms: u64,
    /// Longest time it stays open.
    pub max_open_ms: u64,
    /// Calls let through at once to see whether the downstream is back.
    pub probes: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Closed { failures: u32 },
    Open { until_ms: u64, open_ms: u64 },
    HalfOpen { probes_out: u32, open_ms: u64 },
}

/// The breaker of one downstream.
#[derive(Debug)]
pub struct Breaker {
    limits: BreakerLimits,
    phase: Phase,
    /// Grows with every change of phase: an answer to a call of an earlier phase says nothing about this one.
    epoch: u64,
}

/// The right to make one call, to be given back with its outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pass {
    epoch: u64,
}

impl Breaker {
    /// A closed breaker.
    pub const fn new(limits: BreakerLimits) -> Breaker {
        Breaker { limits, phase: Phase::Closed { failures: 0 }, epoch: 0 }
    }

    /// Whether calls are being refused, for metrics.
    pub const fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open { .. } | Phase::HalfOpen { .. })
    }

    /// Asks to make a call; an error says how long to wait, in milliseconds.
    ///
    /// # Errors
    /// The waiting time while the breaker is open or its probes are out.
    pub fn enter(&mut self, now_ms: u64) -> Result<Pass, u64> {
        match self.phase {
            Phase::Closed { .. } => Ok(Pass { epoch: self.epoch }),
            Phase::Open { until_ms, open_ms: _ } if now_ms < until_ms => Err(until_ms - now_ms),
            Phase::Open { until_ms: _, open_ms } => {
                self.turn(Phase::HalfOpen { probes_out: 1, open_ms });
                Ok(Pass { epoch: self.epoch })
            }
            Phase::HalfOpen { probes_out, open_ms } if probes_out < self.limits.probes => {
                self.phase = Phase::HalfOpen { probes_out: probes_out + 1, open_ms };
                Ok(Pass { epoch: self.epoch })
            }
            Phase::HalfOpen { probes_out: _, open_ms } => Err(open_ms),
        }
    }

    /// The call got an answer, whatever it said.
    pub fn succeeded(&mut self, pass: Pass) {
        if pass.epoch != self.epoch {
            return;
        }
        match self.phase {
            Phase::Closed { .. } => self.phase = Phase::Closed { failures: 0 },
            Phase::HalfOpen { .. } => self.turn(Phase::Closed { failures: 0 }),
            Phase::Open { .. } => {}
        }
    }

    /// The call got no answer.
    pub fn failed(&mut self, pass: Pass, now_ms: u64) {
        if pass.epoch != self.epoch {
            return;
        }
        match self.phase {
            Phase::Closed { failures } if failures + 1 >= self.limits.failures_to_open => {
                self.open(now_ms, self.limits.open_ms);
            }
            Phase::Closed { failures } => self.phase = Phase::Closed { failures: failures + 1 },
            Phase::HalfOpen { probes_out: _, open_ms } => self.open(now_ms, open_ms.saturating_mul(2)),
            Phase::Open { .. } => {}
        }
    }

    /// Whether a call would be let through now; takes no place of a probe.
    ///
    /// # Errors
    /// As [`Breaker::enter`].
    pub fn peek(&mut self, now_ms: u64) -> Result<(), u64> {
        let pass = self.enter(now_ms)?;
        self.abandoned(pass);
        Ok(())
    }

    /// The call was given up before it had an outcome.
    pub fn abandoned(&mut self, pass: Pass) {
        if pass.epoch != self.epoch {
            return;
        }
        if let Phase::HalfOpen { probes_out, open_ms } = self.phase {
            self.phase = Phase::HalfOpen { probes_out: probes_out.saturating_sub(1), open_ms };
        }
    }

    fn open(&mut self, now_ms: u64, open_ms: u64) {
        let open_ms = open_ms.min(self.limits.max_open_ms);
        self.turn(Phase::Open { until_ms: now_ms.saturating_add(open_ms), open_ms });
    }

    fn turn(&mut self, phase: Phase) {
        self.phase = phase;
        self.epoch += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: BreakerLimits =
        BreakerLimits { failures_to_open: 3, open_ms: 100, max_open_ms: 350, probes: 2 };

    fn fail(breaker: &mut Breaker, now_ms: u64) {
        let pass = breaker.enter(now_ms).expect("lets the call through");
        breaker.failed(pass, now_ms);
    }

    fn opened() -> Breaker {
        let mut breaker = Breaker::new(LIMITS);
        for _ in 0..3 {
            fail(&mut breaker, 0);
        }
        breaker
    }

    #[test]
    fn opens_after_failures_in_a_row_only() {
        let mut breaker = Breaker::new(LIMITS);
        fail(&mut breaker, 0);
        fail(&mut breaker, 0);
        let pass = breaker.enter(0).unwrap();
        breaker.succeeded(pass);
        fail(&mut breaker, 0);
        fail(&mut breaker, 0);
        assert!(!breaker.is_open());
        fail(&mut breaker, 0);
        assert!(breaker.is_open());
        assert_eq!(breaker.enter(40), Err(60));
    }

    #[test]
    fn probes_are_counted_and_one_success_closes() {
        let mut breaker = opened();
        let first = breaker.enter(100).unwrap();
        assert!(breaker.enter(100).is_ok());
        assert_eq!(breaker.enter(100), Err(100));
        breaker.succeeded(first);
        assert!(!breaker.is_open());
    }

    #[test]
    fn a_failed_probe_doubles_the_wait_up_to_the_limit() {
        let mut breaker = opened();
        let mut now_ms = 0;
        for expected in [100, 200, 350, 350] {
            assert_eq!(breaker.enter(now_ms), Err(expected));
            now_ms += expected;
            fail(&mut breaker, now_ms);
        }
    }

    #[test]
    fn an_abandoned_probe_frees_its_place() {
        let mut breaker = opened();
        let first = breaker.enter(100).unwrap();
        let second = breaker.enter(100).unwrap();
        assert!(breaker.enter(100).is_err());
        breaker.abandoned(first);
        assert!(breaker.enter(100).is_ok());
        breaker.abandoned(second);
    }

    #[test]
    fn an_answer_of_an_earlier_phase_says_nothing() {
        let mut breaker = Breaker::new(LIMITS);
        let early = breaker.enter(0).unwrap();
        for _ in 0..3 {
            fail(&mut breaker, 0);
        }
        breaker.succeeded(early);
        assert!(breaker.is_open());
        let probe = breaker.enter(100).unwrap();
        breaker.failed(early, 100);
        breaker.succeeded(probe);
        assert!(!breaker.is_open());
    }
}
