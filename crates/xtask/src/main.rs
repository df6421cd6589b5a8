//! `cargo xtask …`: the developer's commands. One file per command below `commands/`; this one only parses and hands over.

mod binaries;
mod cargo;
mod commands;
mod python;
mod stand;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Developer commands of the payment-consistency service.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Watch payments survive lost answers, double clicks, missed deadlines and a killed process.
    Demo(commands::demo::Arguments),
    /// Measure the product beside references on the same machine.
    Bench(commands::bench::Arguments),
    /// Pay at full load while calls go wrong and processes are killed, for as long as asked; then check everything.
    Soak(commands::soak::Arguments),
    /// Start a private database server, print its URL and keep it until Ctrl-C.
    Db(commands::db::Arguments),
    /// Provide both database servers, build, and run every test there is.
    Test(commands::test::Arguments),
    /// Visit every state of small worlds, and show that every deliberate fault is noticed.
    Model(commands::model::Arguments),
    /// Simulate the whole service in virtual time, by seed.
    Sim(commands::sim::Arguments),
    /// Kill real processes before and after every statement and call, and print what became of each payment.
    CrashMatrix(commands::crash_matrix::Arguments),
    /// Run every parser on mutated input, for a while each.
    Fuzz(commands::fuzz::Arguments),
    /// Hold a running API against the document that it serves.
    Schemathesis(commands::schemathesis::Arguments),
    /// Bring the committed query metadata (.sqlx) up to date, or check that it is.
    Sqlx(commands::sqlx::Arguments),
}

#[tokio::main]
async fn main() -> ExitCode {
    let ended = match Arguments::parse().command {
        Command::Demo(arguments) => commands::demo::run(arguments).await,
        Command::Bench(arguments) => commands::bench::run(arguments).await,
        Command::Soak(arguments) => commands::soak::run(arguments).await,
        Command::Db(arguments) => commands::db::run(arguments).await,
        Command::Test(arguments) => commands::test::run(arguments).await,
        Command::Model(arguments) => commands::model::run(arguments).await,
        Command::Sim(arguments) => commands::sim::run(arguments).await,
        Command::CrashMatrix(arguments) => commands::crash_matrix::run(arguments).await,
        Command::Fuzz(arguments) => commands::fuzz::run(arguments).await,
        Command::Schemathesis(arguments) => commands::schemathesis::run(arguments).await,
        Command::Sqlx(arguments) => commands::sqlx::run(arguments).await,
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Without a backtrace: what failed is a command or a server, not this program.
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
