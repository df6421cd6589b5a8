//! `cargo xtask test`: both servers, the binaries, every test.

use xtask::db::Flavor;
use xtask::progress::Stopwatch;

use crate::stand::Stand;
use crate::{binaries, cargo};

/// What can be chosen.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Test on this server alone [default: both].
    #[arg(long)]
    flavor: Option<Flavor>,
    /// Arguments for the test runner, after `--`.
    #[arg(last = true)]
    runner_args: Vec<String>,
}

/// Runs it all; the first failing step ends it.
pub(crate) async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let watch = Stopwatch::start();
    let wanted = arguments.flavor.map_or_else(|| Flavor::ALL.to_vec(), |flavor| vec![flavor]);
    let stand = Stand::start(&wanted).await?;

    binaries::build(&stand).await?;

    let (what, runner): (&str, &[&str]) = if cargo::has_subcommand("nextest").await {
        ("cargo nextest run --workspace", &["nextest", "run", "--workspace", "--no-fail-fast"])
    } else {
        ("cargo test --workspace --all-targets", &["test", "--workspace", "--all-targets"])
    };
    let mut tests = cargo::command(runner);
    cargo::run(what, stand.environment(tests.args(&arguments.runner_args))).await?;

    let mut doc_tests = cargo::command(&["test", "--workspace", "--doc"]);
    cargo::run("cargo test --workspace --doc", stand.environment(&mut doc_tests)).await?;

    stand.stop().await?;
    eprintln!("✓ everything passed ({:.1?})", watch.elapsed());
    Ok(())
}
