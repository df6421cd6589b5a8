//! `cargo xtask sim`: the deterministic simulation, built with optimisation. What it can do is the binary's to say.

use crate::cargo;

/// Everything is handed to the simulation: try `cargo xtask sim --help`.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Arguments {
    /// For the simulation, e.g. `--seeds 100000 --from 0`, `--seed 7 --story`, `--doubled`, `--mutant skip-query`,
    /// `--mutants`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    simulation_args: Vec<String>,
}

/// Builds and runs it.
pub(crate) async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let mut cargo_args = vec!["run", "--release", "--package", "flow-simulation", "--bin", "sim"];
    // Only a run that is meant to fail is built so that faults can be put into the product.
    if arguments.simulation_args.iter().any(|argument| argument.starts_with("--mutant")) {
        cargo_args.extend(["--features", "mutants"]);
    }
    let mut command = cargo::command(&cargo_args);
    cargo::run("the simulation", command.arg("--").args(&arguments.simulation_args)).await
}
