//! The crash matrix: real processes over a real database, killed before and after every statement and every external
//! call, one point at a time. After each death the same binary is started again, clients repeat what got no answer, the
//! scanner converges, and rows, audit log, keys and the simulator's books must tell of one payment: nothing lost,
//! nothing doubled.
//!
//! `cargo xtask crash-matrix` runs it alone; `PAY_CRASH_ONLY=text` picks the cases whose point, story or process has
//! the text in it. The matrix is printed, and kept in `target/crash-matrix/`.

mod cases;
mod lane;
mod matrix;
mod observe;
mod play;
mod sources;
mod stories;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, ensure};
use e2e::Flavor;
use xtask::db::NATS_SLUG;
use xtask::programs::Program;
use xtask::stack::{Patience, Profile};

use cases::{Case, Setup, Victim};
use lane::{Lane, ORDER_FILE_VARIABLE};
use play::{Line, NoLine};

/// A point that was not come to is tried so often in all.
const TRIES: u32 = 3;

e2e::on_both_servers! {
    every_point_is_survived within 900 s;
}

/// Lines and failures, from all lanes.
#[derive(Default)]
struct Results {
    lines: Mutex<Vec<(usize, Line)>>,
    failures: Mutex<Vec<String>>,
    done: AtomicUsize,
}

impl Results {
    fn fail(&self, what: String) {
        self.failures.lock().expect("no lane panicked").push(what);
    }
}

async fn every_point_is_survived(flavor: Flavor) -> anyhow::Result<()> {
    only_one_build_has_points()?;
    let only = std::env::var("PAY_CRASH_ONLY").ok().filter(|text| !text.is_empty());
    let wanted = |case: &Case| {
        let name = format!("{} {:?} {}", case.point(), case.story, case.victim.as_str());
        only.as_ref().is_none_or(|text| name.contains(text.as_str()))
    };
    let (has_redis, has_broker) = (!Program::Redis.is_missing(), !e2e::is_missing(NATS_SLUG));
    if !has_redis {
        eprintln!("the points at the entry lock are left out: no Redis or Valkey server can be had here");
    }
    if !has_broker {
        eprintln!("the points at the broker are left out: no nats-server can be had here");
    }
    let can_be_had =
        |case: &Case| (has_redis || !case.is_at_entry_lock()) && (has_broker || case.setup != Setup::Broker);
    let all = cases::all().into_iter().enumerate();
    let cases: Vec<(usize, Case)> = all.filter(|(_, case)| wanted(case) && can_be_had(case)).collect();
    ensure!(!cases.is_empty(), "no case has {only:?} in it");
    let patience = Patience::of(std::time::Duration::ZERO);
    let results = Results::default();
    let total = cases.len();
    let lanes = lanes(&cases);
    let all = &results;
    let running = lanes.iter().map(|(name, setup, cases)| async move {
        if let Err(error) = run_lane(flavor, name, *setup, cases, total, all).await {
            all.fail(format!("{name}: {error:#}"));
        }
    });
    futures_util::future::join_all(running).await;
    let mut lines = results.lines.into_inner().expect("no lane panicked");
    lines.sort_by_key(|(index, _)| *index);
    let lines: Vec<Line> = lines.into_iter().map(|(_, line)| line).collect();
    let text = matrix::render(&lines);
    println!("{text}");
    let path = matrix::keep(flavor, &text)?;
    eprintln!(
        "{} of {total} cases on {flavor} in {:.1?}; kept in {}",
        lines.len(),
        patience.elapsed(),
        path.display()
    );
    let failures = results.failures.into_inner().expect("no lane panicked");
    ensure!(failures.is_empty(), "{} cases failed:\n{}", failures.len(), failures.join("\n"));
    ensure!(lines.len() == total, "{} of {total} cases have a line", lines.len());
    Ok(())
}

/// The binaries that every other suite runs are built as they ship, and can not be told to die.
fn only_one_build_has_points() -> anyhow::Result<()> {
    for (profile, expected) in [(Profile::Debug, false), (Profile::CrashPoints, true)] {
        for name in ["pay-api", "pay-scanner", "pay-recon"] {
            let path = profile.binary(name);
            let binary = std::fs::read(&path).with_context(|| {
                format!("can not read {}; `cargo xtask crash-matrix` builds it", path.display())
            })?;
            let variable = ORDER_FILE_VARIABLE.as_bytes();
            let found = binary.windows(variable.len()).any(|bytes| bytes == variable);
            ensure!(found == expected, "crash points in {}: {found}", path.display());
        }
    }
    Ok(())
}

type LaneCases = (&'static str, Setup, Vec<(usize, Case)>);

/// Cases that can go on at the same time, each group over processes of its own.
fn lanes(cases: &[(usize, Case)]) -> Vec<LaneCases> {
    let of = |setup: Setup, mine: fn(&Case) -> bool| {
        cases.iter().filter(|(_, case)| case.setup == setup && mine(case)).copied().collect::<Vec<_>>()
    };
    let lanes = [
        ("crash_api", Setup::NoTimer, of(Setup::NoTimer, |case| case.victim == Victim::Api)),
        ("crash_scanner", Setup::NoTimer, of(Setup::NoTimer, |case| case.victim != Victim::Api)),
        ("crash_timer", Setup::Timer, of(Setup::Timer, |_| true)),
        ("crash_broker", Setup::Broker, of(Setup::Broker, |_| true)),
        ("crash_waves", Setup::OneCommitter, of(Setup::OneCommitter, |_| true)),
    ];
    lanes.into_iter().filter(|(_, _, cases)| !cases.is_empty()).collect()
}

async fn run_lane(
    flavor: Flavor,
    name: &str,
    setup: Setup,
    cases: &[(usize, Case)],
    total: usize,
    results: &Results,
) -> anyhow::Result<()> {
    let mut lane = Lane::open(flavor, setup, name).await?;
    for (index, case) in cases {
        let line = run_case(&mut lane, case).await;
        let done = results.done.fetch_add(1, Ordering::Relaxed) + 1;
        let title = format!("{} #{} {:?} ({})", case.point(), case.pass, case.story, case.victim.as_str());
        match line {
            Ok(line) => {
                eprintln!("[{done}/{total}] {title}: {} -> {} ({:.1?})", line.left, line.found, line.took);
                results.lines.lock().expect("no lane panicked").push((*index, line));
            }
            Err(error) => {
                let logs = lane.site.stack.dir().display();
                eprintln!("[{done}/{total}] {title}: FAILED: {error}");
                results.fail(format!("{title}: {error}\n  logs: {logs}"));
                lane.recover().await?;
            }
        }
    }
    // What is held is held on purpose; a scanner that was stopped in the middle of a round finds its time limits over.
    lane.site.close_expecting(&["flow is held", "round failed; the next one starts over"]).await
}

async fn run_case(lane: &mut Lane, case: &Case) -> Result<Line, String> {
    let mut missed = String::new();
    for _ in 0..TRIES {
        match play::play(lane, case).await {
            Ok(line) => return Ok(line),
            Err(NoLine::Broken(error)) => return Err(format!("{error:#}")),
            Err(NoLine::NotReached(error)) => {
                missed = format!("not reached: {error:#}");
                eprintln!("{} #{} {:?}: {missed}", case.point(), case.pass, case.story);
                lane.recover().await.map_err(|error| format!("{missed}; and then {error:#}"))?;
            }
        }
    }
    Err(missed)
}
