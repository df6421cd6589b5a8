//! `cargo xtask …`: the developer's commands. One file per command below `commands/`; this one only parses and hands over.

mod cargo;
mod commands;

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
    /// Start a private database server, print its URL and keep it until Ctrl-C.
    Db(commands::db::Arguments),
    /// Provide both database servers, build, and run every test there is.
    Test(commands::test::Arguments),
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
        Command::Db(arguments) => commands::db::run(arguments).await,
        Command::Test(arguments) => commands::test::run(arguments).await,
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
