//! No schedule, crash or outage breaks a promise: fixed seeds, fresh seeds, and the same seed twice.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::ops::Range;
use std::process::Command;

use flow_simulation::campaign::Campaign;
use flow_simulation::run::{Ran, Setup, run};
use flow_simulation::shrink::shrink;
use flow_testkit::mutants::Subject;

/// How many seeds each of the two ranges has.
const SEEDS: u64 = 300;

fn nothing_breaks_in(seeds: Range<u64>, doubled: bool) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let campaign = Campaign { seeds, subject: Subject::SHIPPED, doubled, threads, enough_failures: 1 };
    let totals = campaign.run(|_| {});
    if let Some((seed, broken)) = totals.failures.first_key_value() {
        let (_, ran) = shrink(&Setup { seed: *seed, doubled, ..Setup::default() });
        let story: Vec<String> = ran.lines.iter().map(ToString::to_string).collect();
        let story = story.join("\n");
        let twice = if doubled { " --doubled" } else { "" };
        panic!("seed {seed}: {broken}\nreplay: cargo xtask sim --seed {seed} --story{twice}\n{story}");
    }
    assert_eq!(totals.seeds, SEEDS);
    for end in ["BIZ_SUCCESS", "PAY_FAIL", "REFUNDED", "held"] {
        assert!(
            totals.ends.contains_key(end),
            "no flow of {} ended in {end}: {:?}",
            totals.flows,
            totals.ends
        );
    }
    assert!(totals.faults.len() > 20, "only these kinds of fault: {:?}", totals.faults.keys());
}

#[test]
fn fixed_seeds_keep_every_promise() {
    nothing_breaks_in(0..SEEDS, false);
}

/// Seed 28 once went on for ever: every wake-up that found a gate closed asked for another, and every one came twice.
#[test]
fn fixed_seeds_keep_every_promise_when_everything_arrives_twice() {
    nothing_breaks_in(0..SEEDS, true);
}

#[test]
fn fresh_seeds_keep_every_promise() {
    let first = RandomState::new().build_hasher().finish() >> 1;
    println!("fresh seeds from {first}");
    nothing_breaks_in(first..first + SEEDS, false);
}

fn told(seed: u64) -> Ran {
    run(&Setup { seed, keep_trace: true, ..Setup::default() })
}

#[test]
fn one_seed_is_one_run() {
    let mut digests = Vec::new();
    for seed in 0..25 {
        let (first, second) = (told(seed), told(seed));
        assert!(first.lines.len() > 10, "seed {seed} has a story");
        assert_eq!(first, second, "seed {seed}");
        let unheard = run(&Setup { seed, ..Setup::default() });
        assert_eq!(first.digest, unheard.digest, "keeping the story of seed {seed} changes nothing");
        digests.push(first.digest);
    }
    digests.sort_unstable();
    digests.dedup();
    assert_eq!(digests.len(), 25, "every seed is a run of its own");
}

#[test]
fn another_process_repeats_the_run() {
    for seed in [0, 7, 24] {
        let output = Command::new(env!("CARGO_BIN_EXE_sim"))
            .args(["--seed", &seed.to_string(), "--story", "--whole"])
            .output()
            .expect("the binary was built with this test");
        assert!(output.status.success(), "{output:?}");
        let ran = told(seed);
        let theirs = String::from_utf8_lossy(&output.stdout);
        let ours: Vec<String> = ran.lines.iter().map(ToString::to_string).collect();
        assert!(theirs.starts_with(&ours.join("\n")), "seed {seed}");
        assert!(theirs.contains(&format!("digest {:016x}", ran.digest)), "seed {seed}: {theirs}");
    }
}
