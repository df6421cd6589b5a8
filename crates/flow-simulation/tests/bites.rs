//! The simulation notices what it claims to notice: every deliberate fault is found, and its story is short.

use std::collections::BTreeSet;

use flow_simulation::campaign::Campaign;
use flow_simulation::run::{Setup, run};
use flow_simulation::shrink::shrink;
use flow_testkit::mutants::{Mutant, Subject};

#[test]
fn a_failing_seed_becomes_a_short_story() {
    let subject = Subject::with(Mutant::TimeoutIsFailure);
    let campaign = Campaign { seeds: 0..200, subject, threads: 1, enough_failures: 1 };
    let found = campaign.run(|_| {});
    let (seed, _) = found.failures.first_key_value().expect("this fault is found soon");
    let setup = Setup { seed: *seed, subject, ..Setup::default() };
    let long = run(&setup);
    let (short, ran) = shrink(&setup);
    assert!(ran.broken.is_some(), "the short story still breaks a promise");
    let left: BTreeSet<_> = ran.incidents.difference(&short.left_out).collect();
    assert!(left.len() <= 4, "a client and a lost answer are enough: {left:?}");
    assert!(ran.events < long.events, "{} events of {}", ran.events, long.events);
    assert!(ran.lines.len() <= 60, "{} lines", ran.lines.len());
    let sound = run(&Setup { subject: Subject::SHIPPED, ..short });
    assert_eq!(sound.broken, None, "the product keeps its promises in the same story");
}
