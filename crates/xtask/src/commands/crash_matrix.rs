//! `cargo xtask crash-matrix`: the crash matrix alone, watched.

use xtask::db::Flavor;

use crate::stand::Stand;
use crate::{binaries, cargo};

/// What can be chosen.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Which server.
    #[arg(long, default_value = "mysql")]
    flavor: Flavor,
    /// Only the cases whose point, story or process has this text in it, e.g. `call.refund`, `Mixed`, `scanner`.
    #[arg(long)]
    only: Option<String>,
}

/// Builds, runs, and prints the matrix.
pub(crate) async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let stand = Stand::start(&[arguments.flavor]).await?;
    binaries::build(&stand).await?;
    // The whole workspace, as everywhere else: another choice of packages would have dependencies built anew.
    let mut suite = cargo::command(&["test", "--workspace", "--test", "crash_matrix", "--", "--nocapture"]);
    suite.env("PAY_CRASH_ONLY", arguments.only.unwrap_or_default());
    cargo::run("the crash matrix", stand.environment(&mut suite)).await?;
    stand.stop().await
}
