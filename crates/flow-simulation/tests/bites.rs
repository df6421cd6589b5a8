//! The simulation notices what it claims to notice: every deliberate fault is found, and its story is short.

use std::collections::BTreeSet;

use flow_simulation::campaign::Campaign;
use flow_simulation::run::{Setup, run};
use flow_simulation::shrink::shrink;
use flow_testkit::mutants::{Mutant, Subject};

/// Seeds that each fault gets here, from where it is known to be near. From 0 on, all of them are found within 10 000
/// seeds: `cargo xtask sim --mutants` shows where.
const SEEDS_PER_MUTANT: u64 = 400;

/// Faults that are not found among the first seeds, and a seed shortly before one that finds them. Whoever changes the
/// worlds takes new ones from `cargo xtask sim --mutants`.
const RARE: [(Mutant, u64); 8] = [
    (Mutant::NoGrace, 400),
    (Mutant::CloseUnconfirmed, 300),
    (Mutant::LateFollow, 200),
    (Mutant::NoNotAfter, 100),
    (Mutant::UnavailableIsNotDone, 600),
    (Mutant::NoSettleMargin, 500),
    (Mutant::HearingClock, 1_600),
    (Mutant::CasWithoutVersion, 400),
];

#[test]
fn every_deliberate_fault_is_found() {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut missed = Vec::new();
    for mutant in Mutant::ALL {
        let from = RARE.iter().find(|(rare, _)| *rare == mutant).map_or(0, |(_, seed)| *seed);
        let seeds = from..from + SEEDS_PER_MUTANT;
        let campaign =
            Campaign { seeds, subject: Subject::with(mutant), doubled: false, threads, enough_failures: 1 };
        let totals = campaign.run(|_| {});
        match totals.failures.first_key_value() {
            Some((seed, broken)) => println!("{:<30} seed {seed:>6}: {broken}", mutant.name()),
            None => missed.push(mutant.name()),
        }
    }
    assert!(missed.is_empty(), "not found within {SEEDS_PER_MUTANT} seeds: {missed:?}");
}

#[test]
fn a_failing_seed_becomes_a_short_story() {
    let subject = Subject::with(Mutant::TimeoutIsFailure);
    let campaign = Campaign { seeds: 0..200, subject, doubled: false, threads: 1, enough_failures: 5 };
    let found = campaign.run(|_| {});
    let setups = found.failures.keys().map(|seed| Setup { seed: *seed, subject, ..Setup::default() });
    // Some stories are short to begin with.
    let runs = setups.map(|setup| (run(&setup), setup));
    let (long, setup) = runs.max_by_key(|(ran, _)| ran.events).expect("this fault is found soon");
    let (short, ran) = shrink(&setup);
    assert!(ran.broken.is_some(), "the short story still breaks a promise");
    let left: BTreeSet<_> = ran.incidents.difference(&short.left_out).collect();
    assert!(left.len() <= 4, "a client and a lost answer are enough: {left:?}");
    assert!(ran.events < long.events, "{} events of {}", ran.events, long.events);
    assert!(ran.lines.len() <= 60, "{} lines", ran.lines.len());
    let sound = run(&Setup { subject: Subject::SHIPPED, ..short });
    assert_eq!(sound.broken, None, "the product keeps its promises in the same story");
}
