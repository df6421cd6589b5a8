//! `pay-api`: takes payments over HTTP.

mod commands;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use pay_runtime::process;

/// Takes payments over HTTP, shows them, and lets people act on them.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// Configuration file (TOML); environment variables PAY__SECTION__KEY win over it.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Check the configuration, name every bad key, and end.
    #[arg(long)]
    check_config: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Bring the database's schema to this program's version, creating it if need be. Forward only; may be repeated.
    Migrate(commands::migrate::Args),
    /// Hash an API key for the configuration: reads it from standard input, or makes a new one.
    HashKey(commands::hash_key::Args),
}

fn main() -> ExitCode {
    let args = Args::parse();
    match args.command {
        Some(Command::Migrate(args)) => process::run(commands::migrate::run(args)),
        Some(Command::HashKey(args)) => commands::hash_key::run(&args).into(),
        None => match process::configure(args.config, args.check_config) {
            Ok(config) => process::run(commands::serve::run(config)),
            Err(exit) => exit.into(),
        },
    }
}
