//! Chance that can be repeated.

use std::sync::Mutex;

use flow_core::ports::Jitter;
use flow_core::retry::JitterPermille;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

/// The same draw every time.
#[derive(Debug, Clone, Copy)]
pub struct FixedJitter(pub u16);

impl FixedJitter {
    /// Delays exactly as the schedule has them.
    pub const NONE: FixedJitter = FixedJitter(0);
}

impl Jitter for FixedJitter {
    fn draw(&self) -> JitterPermille {
        JitterPermille::new(self.0)
    }
}

/// Draws from a seed.
#[derive(Debug)]
pub struct SeededJitter(Mutex<StdRng>);

impl SeededJitter {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> SeededJitter {
        SeededJitter(Mutex::new(StdRng::seed_from_u64(seed)))
    }
}

impl Jitter for SeededJitter {
    fn draw(&self) -> JitterPermille {
        let mut rng = self.0.lock().expect("no draw panics");
        JitterPermille::new(rng.random_range(0..1000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_one_sequence() {
        let draws = |seed| {
            let jitter = SeededJitter::new(seed);
            (0..20).map(|_| jitter.draw().of(1_000)).collect::<Vec<_>>()
        };
        assert_eq!(draws(7), draws(7));
        assert_ne!(draws(7), draws(8));
        assert_eq!(FixedJitter::NONE.draw().of(1_000), 0);
    }
}
