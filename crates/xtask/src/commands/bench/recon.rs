//! What comparing a bill with our flows takes, in two files of the same unsorted orders, beside DuckDB joining them.
//!
//! Ours is the reader, the sort and the comparison of `pay-recon` as it ships, without database and business system
//! (`crates/pay-recon/examples/two_files.rs`). DuckDB compares the same columns in a FULL OUTER JOIN: once with all the
//! memory it likes, once with as much as we may take.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use tokio::process::Command;
use xtask::progress::Phase;

use crate::{cargo, python};

/// The reference, from PyPI.
const DUCKDB: &str = "2.0.1";
/// What pay-recon may take for this, in MB; DuckDB's second run is held to it.
const MEMORY_GOAL_MB: u64 = 150;
/// What DuckDB ends with where the limit is too small for it.
const OUT_OF_MEMORY: &str = "OutOfMemoryException";
/// Each is run so often, and the median counts.
const RUNS: usize = 3;

/// What one program said of one run.
#[derive(Debug, Clone, Copy, Deserialize, Serialize)]
struct Run {
    orders: u64,
    differing: u64,
    all_ms: u64,
    peak_mb: u64,
}

#[derive(Debug, Serialize)]
struct Row {
    orders: u64,
    ours: Run,
    duckdb: Option<Run>,
    /// Absent where it ran out of memory, too.
    duckdb_bounded: Option<Run>,
}

/// Measures each size and prints the table.
///
/// # Errors
/// A program failed, or the two do not find the same.
pub(super) async fn run(sizes: &[u64]) -> anyhow::Result<serde_json::Value> {
    let build = ["build", "--release", "-p", "pay-recon", "--example", "two_files"];
    cargo::run("building the comparison", cargo::command(&build).env("SQLX_OFFLINE", "true")).await?;
    let ours = xtask::target_dir().join("release/examples/two_files");
    let python = match python::environment("duckdb", DUCKDB).await {
        Ok(programs) => Some(programs.join("python")),
        Err(error) => {
            eprintln!("without DuckDB beside it: {error:#}");
            None
        }
    };
    let mut rows = Vec::new();
    for orders in sizes {
        rows.push(measure(*orders, &ours, python.as_deref()).await?);
    }
    print(&rows);
    Ok(serde_json::to_value(rows)?)
}

async fn measure(orders: u64, ours: &Path, python: Option<&Path>) -> anyhow::Result<Row> {
    let folder = tempfile::tempdir_in(xtask::target_dir())?;
    let phase = Phase::start(format!("{orders} orders: making two files"));
    ask(Command::new(ours).arg("make").arg(orders.to_string()).arg(folder.path())).await?;
    phase.done();
    let phase = Phase::start(format!("{orders} orders: comparing them, {RUNS} times each"));
    let mine = median(|| command(ours, &["compare".as_ref(), folder.path()])).await?;
    let mut row = Row { orders, ours: mine, duckdb: None, duckdb_bounded: None };
    if let Some(python) = python {
        let script = xtask::workspace_root().join("crates/xtask/src/commands/bench/full_outer_join.py");
        let join = |limit: u64| {
            let mut join = command(python, &[script.as_path(), folder.path()]);
            join.arg(limit.to_string());
            join
        };
        row.duckdb = Some(median(|| join(0)).await?);
        row.duckdb_bounded = match median(|| join(MEMORY_GOAL_MB)).await {
            Ok(run) => Some(run),
            Err(error) if error.to_string().contains(OUT_OF_MEMORY) => None,
            Err(error) => return Err(error),
        };
    }
    phase.done();
    for theirs in [row.duckdb, row.duckdb_bounded].into_iter().flatten() {
        let found = |run: Run| (run.orders, run.differing);
        anyhow::ensure!(found(theirs) == found(mine), "the two find different things: {mine:?}, {theirs:?}");
    }
    Ok(row)
}

fn command(program: &Path, arguments: &[&Path]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments.iter().map(PathBuf::from)).kill_on_drop(true);
    command
}

async fn ask(command: &mut Command) -> anyhow::Result<String> {
    let output = command.kill_on_drop(true).output().await.context("could not run it")?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(
        output.status.success(),
        "{} failed: {complaint}",
        command.as_std().get_program().display()
    );
    Ok(String::from_utf8(output.stdout)?)
}

async fn median(mut make: impl FnMut() -> Command) -> anyhow::Result<Run> {
    let mut runs = Vec::with_capacity(RUNS);
    for _ in 0..RUNS {
        let said = ask(&mut make()).await?;
        runs.push(serde_json::from_str::<Run>(&said).with_context(|| format!("not a result: {said}"))?);
    }
    runs.sort_unstable_by_key(|run| run.all_ms);
    Ok(runs[RUNS / 2])
}

fn print(rows: &[Row]) {
    println!(
        "\nA bill against our flows, two unsorted files (median of {RUNS}; goal: faster than DuckDB, under {MEMORY_GOAL_MB} MB)."
    );
    println!(
        "DuckDB {DUCKDB}, FULL OUTER JOIN of the same files: free, and with a memory limit of {MEMORY_GOAL_MB} MB."
    );
    println!(
        "{:>10} {:>9} {:>11} {:>6} {:>14} {:>16} {:>12}",
        "orders", "ours s", "orders/s", "MB", "DuckDB s (MB)", "bounded s (MB)", "ours/DuckDB"
    );
    for row in rows {
        let theirs = |run: Option<Run>, none: &str| {
            run.map_or(none.to_owned(), |run| format!("{} ({})", seconds(run.all_ms), run.peak_mb))
        };
        let ratio = row.duckdb.map_or("-".to_owned(), |run| {
            let hundredths = row.ours.all_ms * 100 / run.all_ms.max(1);
            format!("{}.{:02}", hundredths / 100, hundredths % 100)
        });
        println!(
            "{:>10} {:>9} {:>11} {:>6} {:>14} {:>16} {:>12}",
            row.orders,
            seconds(row.ours.all_ms),
            row.orders * 1_000 / row.ours.all_ms.max(1),
            row.ours.peak_mb,
            theirs(row.duckdb, "-"),
            theirs(row.duckdb_bounded, row.duckdb.map_or("-", |_| "out of memory")),
            ratio
        );
    }
}

fn seconds(ms: u64) -> String {
    format!("{}.{}", ms / 1_000, ms % 1_000 / 100)
}
