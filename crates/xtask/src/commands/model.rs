//! `cargo xtask model`: the exhaustive model check, by the binary of `flow-model`.

use crate::cargo;

/// What can be chosen.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The small worlds alone.
    #[arg(long)]
    quick: bool,
    /// This mutant alone, with its shortest counter-example told in full.
    #[arg(long, value_name = "NAME", conflicts_with = "quick")]
    mutant: Option<String>,
}

/// Builds it optimised and runs it; it fails if a promise is broken or a mutant is not found.
pub(crate) async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let mut model = cargo::command(&["run", "--release", "-p", "flow-model", "--"]);
    if arguments.quick {
        model.arg("--quick");
    }
    if let Some(mutant) = &arguments.mutant {
        model.args(["--mutant", mutant]);
    }
    // This crate must build while the query metadata is stale, so it cannot link the model.
    model.env("SQLX_OFFLINE", "true").env_remove("DATABASE_URL");
    cargo::run("the model check", &mut model).await
}
