//! From a failing seed to a short story: incidents are left out, first by halves and then one by one, as long as a
//! promise is still broken.

use std::collections::BTreeSet;

use crate::dice::Point;
use crate::run::{Ran, Setup, run};

/// Most repetitions that one story is worth.
const MAX_RUNS: u32 = 3_000;

/// The smallest run found that still breaks a promise, with its events.
///
/// # Panics
/// If the run breaks none to begin with.
pub fn shrink(setup: &Setup) -> (Setup, Ran) {
    let mut best = Setup { keep_trace: false, ..setup.clone() };
    let mut ran = run(&best);
    assert!(ran.broken.is_some(), "only a run that breaks a promise can be shrunk");
    let mut runs = 0;
    let mut attempt = |candidate: Setup, best: &mut Setup, ran: &mut Ran| {
        runs += 1;
        let tried = run(&candidate);
        let keeps = runs <= MAX_RUNS && tried.broken.is_some();
        if keeps {
            *best = candidate;
            *ran = tried;
        }
        keeps
    };
    let plain = Setup { plain: true, ..best.clone() };
    attempt(plain, &mut best, &mut ran);
    loop {
        let before = remaining(&best, &ran).len();
        let mut size = before.div_ceil(2).max(1);
        loop {
            let mut rest: Vec<Point> = remaining(&best, &ran);
            while !rest.is_empty() {
                let cut = rest.split_off(rest.len().saturating_sub(size));
                let mut candidate = best.clone();
                candidate.left_out.extend(cut);
                if attempt(candidate, &mut best, &mut ran) {
                    let left: BTreeSet<Point> = remaining(&best, &ran).into_iter().collect();
                    rest.retain(|point| left.contains(point));
                }
            }
            if size == 1 {
                break;
            }
            size /= 2;
        }
        if remaining(&best, &ran).len() >= before {
            break;
        }
    }
    best.keep_trace = true;
    let ran = run(&best);
    (best, ran)
}

/// Incidents that still happen.
fn remaining(setup: &Setup, ran: &Ran) -> Vec<Point> {
    ran.incidents.iter().copied().filter(|point| !setup.left_out.contains(point)).collect()
}
