//! `cargo xtask test`: both servers, the binaries, every test.

use anyhow::Context as _;
use tokio::process::Command;
use xtask::db::{Flavor, Server, ServerOptions};
use xtask::progress::{Stopwatch, warn_loudly};

use crate::cargo;

/// Names the flavours that cannot be had on this machine, comma-separated: suites skip those, and only those.
const MISSING_VARIABLE: &str = "PAY_TEST_MISSING";

/// What can be chosen.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Test on this server alone [default: both].
    #[arg(long)]
    flavor: Option<Flavor>,
    /// Arguments for the test runner, after `--`.
    #[arg(last = true)]
    runner_args: Vec<String>,
}

/// Runs it all; the first failing step ends it.
pub(crate) async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let watch = Stopwatch::start();
    let wanted = arguments.flavor.map_or_else(|| Flavor::ALL.to_vec(), |flavor| vec![flavor]);
    let stand = Stand::start(&wanted).await?;

    let mut build = cargo::command(&["build", "--workspace", "--bins"]);
    cargo::run("cargo build --workspace --bins", stand.environment(&mut build)).await?;

    let (what, runner): (&str, &[&str]) = if cargo::has_subcommand("nextest").await {
        ("cargo nextest run --workspace", &["nextest", "run", "--workspace"])
    } else {
        ("cargo test --workspace --all-targets", &["test", "--workspace", "--all-targets"])
    };
    let mut tests = cargo::command(runner);
    cargo::run(what, stand.environment(tests.args(&arguments.runner_args))).await?;

    let mut doc_tests = cargo::command(&["test", "--workspace", "--doc"]);
    cargo::run("cargo test --workspace --doc", stand.environment(&mut doc_tests)).await?;

    stand.stop().await?;
    eprintln!("✓ everything passed ({:.1?})", watch.elapsed());
    Ok(())
}

/// The servers the suites run on.
struct Stand {
    servers: Vec<Server>,
    /// What was wanted and cannot be had.
    missing: Vec<Flavor>,
    /// What was left out on purpose; suites skip it, too.
    unwanted: Vec<Flavor>,
}

impl Stand {
    async fn start(wanted: &[Flavor]) -> anyhow::Result<Self> {
        let unwanted: Vec<Flavor> =
            Flavor::ALL.into_iter().filter(|flavor| !wanted.contains(flavor)).collect();
        let mut stand = Self { servers: Vec::new(), missing: Vec::new(), unwanted };
        for &flavor in wanted {
            match tokio::task::spawn_blocking(move || xtask::db::provide(flavor)).await? {
                Ok(installed) => {
                    let server = Server::start(ServerOptions::with_installed(installed)).await;
                    stand.servers.push(server.with_context(|| format!("no {flavor} to test on"))?);
                }
                Err(reason) => {
                    warn_loudly(&format!("NOT TESTED ON {flavor}: it cannot be had here.\n{reason}"));
                    stand.missing.push(flavor);
                }
            }
        }
        anyhow::ensure!(
            !stand.servers.is_empty(),
            "no database server to test on; see above for what was tried"
        );
        Ok(stand)
    }

    /// Tells a test run where the servers are. A flavour that is not there must not be inherited from outside.
    fn environment<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        for flavor in Flavor::ALL {
            command.env_remove(flavor.test_url_variable());
        }
        for server in &self.servers {
            command.env(server.flavor().test_url_variable(), server.root_url());
        }
        let missing: Vec<&str> =
            self.missing.iter().chain(&self.unwanted).map(|flavor| flavor.slug()).collect();
        command.env(MISSING_VARIABLE, missing.join(","));
        command.env_remove("DATABASE_URL").env("SQLX_OFFLINE", "true")
    }

    async fn stop(self) -> anyhow::Result<()> {
        for mut server in self.servers {
            server.stop().await?;
        }
        for flavor in self.missing {
            warn_loudly(&format!(
                "NOT TESTED ON {flavor}: it cannot be had here (the reasons stand at the top)."
            ));
        }
        Ok(())
    }
}
