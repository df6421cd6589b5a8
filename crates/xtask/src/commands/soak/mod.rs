//! `cargo xtask soak`: everything that `cargo xtask test` runs a bounded share of, at length: payments under load while
//! processes and the database are killed, the whole model, fresh seeds of the simulation, the crash matrix on both
//! servers, the fuzz targets. Every part has its turn; a part that fails makes the whole fail.

mod clients;
mod faults;
mod killer;
mod load;

use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio::process::Command;
use xtask::db::Flavor;

/// What can be chosen.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How long the load runs, in minutes; the other parts take their size from it.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    minutes: u64,
    /// This part alone; may be given several times [default: all].
    #[arg(long = "part", value_enum)]
    parts: Vec<Part>,
    /// Clients at once, for the load.
    #[arg(long, default_value_t = 64)]
    clients: usize,
    /// Repeats an earlier load's faults, payments and kills, as far as timing allows.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Which database server, for the load.
    #[arg(long, value_enum, default_value = "mysql")]
    flavor: Flavor,
}

/// What a soak is made of, in the order of its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Payments under load, with kills.
    Load,
    /// The model check, all worlds and mutants.
    Model,
    /// Fresh seeds of the simulation.
    Sim,
    /// The crash matrix on MySQL and on MariaDB.
    CrashMatrix,
    /// Every fuzz target.
    Fuzz,
}

/// About a quarter of what one core simulates in a minute.
const SIM_SEEDS_PER_MINUTE: u64 = 10_000;
/// Of each minute asked for, what each fuzz target gets.
const FUZZ_S_PER_MINUTE: u64 = 6;

impl Part {
    /// The commands that make it up; none for what this command does itself.
    fn commands(self, minutes: u64) -> Vec<Vec<String>> {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        match self {
            Part::Load => vec![],
            Part::Model => vec![words("model")],
            Part::Sim => {
                let (seeds, from) = (minutes * SIM_SEEDS_PER_MINUTE, fresh_seed());
                vec![words(&format!("sim --seeds {seeds} --from {from}"))]
            }
            Part::CrashMatrix => {
                vec![words("crash-matrix --flavor mysql"), words("crash-matrix --flavor mariadb")]
            }
            Part::Fuzz => vec![words(&format!("fuzz --seconds {}", minutes * FUZZ_S_PER_MINUTE))],
        }
    }
}

/// Runs every part that was asked for, and says how each ended.
pub(crate) async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let all = <Part as clap::ValueEnum>::value_variants();
    let mut failed = 0;
    let mut lines = Vec::new();
    for &part in all.iter().filter(|part| arguments.parts.is_empty() || arguments.parts.contains(part)) {
        let started = now();
        let ended = run_part(part, &arguments).await;
        let took = started.elapsed();
        failed += usize::from(ended.is_err());
        let how = ended.map_or_else(|error| format!("FAILED: {error:#}"), |()| "passed".to_owned());
        lines.push(format!(
            "{:<12} {:>7.0?} {how}",
            format!("{part:?}"),
            Duration::from_secs(took.as_secs())
        ));
    }
    println!("\nSoak:");
    for line in &lines {
        println!("  {line}");
    }
    anyhow::ensure!(failed == 0, "{failed} of {} parts failed", lines.len());
    Ok(())
}

async fn run_part(part: Part, arguments: &Arguments) -> anyhow::Result<()> {
    if part == Part::Load {
        return load::run(arguments).await;
    }
    let ourselves = std::env::current_exe().context("where this program lies is not known")?;
    for words in part.commands(arguments.minutes) {
        let line = words.join(" ");
        eprintln!("== cargo xtask {line}");
        let status = Command::new(&ourselves).args(&words).stdin(Stdio::null()).kill_on_drop(true).status();
        let status = status.await.with_context(|| format!("could not run cargo xtask {line}"))?;
        anyhow::ensure!(status.success(), "cargo xtask {line} failed ({status})");
    }
    Ok(())
}

#[allow(clippy::disallowed_methods, reason = "a developer's tool measures by the real clock")]
fn now() -> Instant {
    Instant::now()
}

/// Seeds that earlier runs have hardly seen: named in the command that is printed, so that they can be repeated.
#[allow(clippy::disallowed_methods, reason = "a fresh seed is what is wanted")]
fn fresh_seed() -> u64 {
    chrono::Utc::now().timestamp().unsigned_abs() * 1_000_000
}
