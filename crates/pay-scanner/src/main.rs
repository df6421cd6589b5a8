//! `pay-scanner`: brings every payment to its end, from the database alone.

mod run;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use pay_runtime::process;

/// Finds every payment that has not ended and takes it on. Run two or more: they share the work.
#[derive(Debug, Parser)]
#[command(version, about)]
struct Args {
    /// Configuration file (TOML); environment variables PAY__SECTION__KEY win over it.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Check the configuration, name every bad key, and end.
    #[arg(long)]
    check_config: bool,
    /// Run one round over every partition that no other process is sweeping, and end. Payments may stay open: ends
    /// with 0 unless the round itself failed.
    #[arg(long)]
    once: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match process::configure(args.config, args.check_config) {
        Ok(config) if args.once => process::run(run::once(config)),
        Ok(config) => process::run(run::daemon(config)),
        Err(exit) => exit.into(),
    }
}
