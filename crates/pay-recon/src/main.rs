//! `pay-recon`: compares every order of a day with the wallet's bill and the business system.

mod commands;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use pay_runtime::process;

/// Compares days, and shows what differs. Ends with 0 if nothing differs, 3 if people must look, 1 if it failed.
#[derive(Debug, Parser)]
#[command(version, about)]
struct Args {
    /// Configuration file (TOML); environment variables PAY__SECTION__KEY win over it.
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
    /// Check the configuration, name every bad key, and end.
    #[arg(long)]
    check_config: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Compare one day of one channel.
    Run(commands::run::Arguments),
    /// Compare every channel daily, and catch up.
    Daemon,
    /// Show tickets and work on them.
    Tickets(commands::tickets::Arguments),
    /// Show what a day came to.
    Report(commands::report::Arguments),
}

fn main() -> ExitCode {
    let args = Args::parse();
    let config = match process::configure(args.config, args.check_config) {
        Ok(config) => config,
        Err(exit) => return exit.into(),
    };
    match args.command {
        Some(Command::Run(arguments)) => process::run(commands::run::run(config, arguments)),
        Some(Command::Daemon) => process::run(commands::daemon::run(config)),
        Some(Command::Tickets(arguments)) => process::run(commands::tickets::run(config, arguments)),
        Some(Command::Report(arguments)) => process::run(commands::report::run(config, arguments)),
        None => process::run(commands::nothing_asked()),
    }
}
