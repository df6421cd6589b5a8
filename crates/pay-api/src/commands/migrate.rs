//! `pay-api migrate`: with an account of its own, which the running service neither has nor needs.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the answer to a command")]

use std::fmt;

use flow_core::store::{MigrationStep, migrate};
use pay_runtime::process::explain;
use pay_runtime::shutdown::Exit;

/// A database URL, hidden from `Debug` for its password's sake.
#[derive(Clone)]
pub(crate) struct Url(String);

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

impl From<String> for Url {
    fn from(url: String) -> Url {
        Url(url)
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// mysql://user:password@host:port/schema of an account that may create tables and triggers. Better given by the
    /// environment: a command line can be read by others.
    #[arg(long, env = "PAY_MIGRATE_URL", hide_env_values = true)]
    url: Url,
}

pub(crate) async fn run(args: Args) -> Exit {
    match migrate(&args.url.0, &mut |step| println!("{}", words(&step))).await {
        Ok(()) => Exit::Done,
        Err(error) => {
            eprintln!("{}", explain(&error));
            Exit::Failed
        }
    }
}

fn words(step: &MigrationStep) -> String {
    match step {
        MigrationStep::SchemaCreated => "the schema was created".to_owned(),
        MigrationStep::Applying { version, description } => format!("migration {version} ({description}) …"),
        MigrationStep::Applied { version, took_ms } => format!("migration {version} applied in {took_ms} ms"),
        MigrationStep::UpToDate => "the schema is that of this program".to_owned(),
    }
}
