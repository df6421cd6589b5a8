//! Running cargo from a command, with a line before and the time it took after.

use std::path::PathBuf;
use std::process::Stdio;

use anyhow::Context as _;
use tokio::process::Command;
use xtask::progress::Phase;

/// Builds every binary as it ships. Without the simulation: cargo would build the runtime for all of them with the
/// clock that only the simulation may stop.
pub(crate) const RELEASE_BINARIES: &[&str] =
    &["build", "--release", "--workspace", "--exclude", "flow-simulation", "--bins"];

/// A cargo command at the workspace's root, by the cargo that runs us.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let cargo = std::env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from);
    let mut command = Command::new(cargo);
    command.args(arguments).current_dir(xtask::workspace_root()).kill_on_drop(true);
    command
}

/// Runs it to its end under the heading `what`.
pub(crate) async fn run(what: &str, command: &mut Command) -> anyhow::Result<()> {
    let phase = Phase::start_plain(what);
    let status =
        command.stdin(Stdio::null()).status().await.with_context(|| format!("could not run {what}"))?;
    anyhow::ensure!(status.success(), "{what} failed ({status})");
    phase.done();
    Ok(())
}

/// Whether `cargo NAME` exists.
pub(crate) async fn has_subcommand(name: &str) -> bool {
    let mut probe = command(&[name, "--version"]);
    let status = probe.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().await;
    status.is_ok_and(|status| status.success())
}
