//! Many runs, on as many threads as there are cores: each run is single-threaded, and a seed's result does not depend
//! on which thread took it.

use std::collections::BTreeMap;
use std::ops::{AddAssign, Range};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use flow_testkit::mutants::Subject;

use crate::run::{Ran, Setup, run};

/// Sums over many runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Totals {
    /// Runs.
    pub seeds: u64,
    /// Flows.
    pub flows: u64,
    /// Events.
    pub events: u64,
    /// Virtual time, in milliseconds.
    pub virtual_ms: u64,
    /// Flows by how they ended.
    pub ends: BTreeMap<&'static str, u64>,
    /// Faults by kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// Seeds that broke a promise, with the first promise that each broke.
    pub failures: BTreeMap<u64, String>,
}

impl Totals {
    fn add(&mut self, seed: u64, ran: Ran) {
        self.seeds += 1;
        self.flows += ran.flows;
        self.events += ran.events;
        self.virtual_ms += ran.virtual_ms;
        add_counts(&mut self.ends, ran.ends);
        add_counts(&mut self.faults, ran.faults);
        self.failures.extend(ran.broken.map(|broken| (seed, broken)));
    }
}

impl AddAssign for Totals {
    fn add_assign(&mut self, other: Totals) {
        self.seeds += other.seeds;
        self.flows += other.flows;
        self.events += other.events;
        self.virtual_ms += other.virtual_ms;
        add_counts(&mut self.ends, other.ends);
        add_counts(&mut self.faults, other.faults);
        self.failures.extend(other.failures);
    }
}

fn add_counts(to: &mut BTreeMap<&'static str, u64>, from: BTreeMap<&'static str, u64>) {
    for (name, count) in from {
        *to.entry(name).or_default() += count;
    }
}

/// Which runs, and how many broken promises are enough.
#[derive(Debug, Clone)]
pub struct Campaign {
    /// The seeds.
    pub seeds: Range<u64>,
    /// What is run.
    pub subject: Subject,
    /// Every call that changes something arrives twice.
    pub doubled: bool,
    /// Threads.
    pub threads: usize,
    /// Ends after so many failing seeds.
    pub enough_failures: usize,
}

impl Campaign {
    /// Runs the seeds in order, as far as `enough_failures` allows; tells `progress` of the sums now and then, from
    /// any thread.
    pub fn run(&self, progress: impl Fn(&Totals) + Sync) -> Totals {
        let (next, enough) = (AtomicU64::new(self.seeds.start), AtomicBool::new(false));
        let totals = Mutex::new(Totals::default());
        std::thread::scope(|scope| {
            for _ in 0..self.threads.max(1) {
                scope.spawn(|| {
                    while !enough.load(Ordering::Relaxed) {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed >= self.seeds.end {
                            break;
                        }
                        let (subject, doubled) = (self.subject, self.doubled);
                        let ran = run(&Setup { seed, subject, doubled, ..Setup::default() });
                        let mut totals = totals.lock().unwrap_or_else(PoisonError::into_inner);
                        totals.add(seed, ran);
                        enough.fetch_or(totals.failures.len() >= self.enough_failures, Ordering::Relaxed);
                        progress(&totals);
                    }
                });
            }
        });
        totals.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}
