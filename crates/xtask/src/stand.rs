//! What tests run on: the database servers, and the environment that names them.

use anyhow::Context as _;
use tokio::process::Command;
use xtask::db::{Flavor, Server, ServerOptions};
use xtask::programs::{self, MISSING_VARIABLE, Program};
use xtask::progress::warn_loudly;

/// The servers the suites run on.
pub(crate) struct Stand {
    servers: Vec<Server>,
    /// What was wanted and cannot be had.
    missing: Vec<Flavor>,
    /// What was left out on purpose; suites skip it, too.
    unwanted: Vec<Flavor>,
    /// Programs beside the databases that cannot be had.
    missing_programs: Vec<Program>,
}

impl Stand {
    /// Starts the wanted servers. One that cannot be had is said loudly, and its suites are skipped.
    pub(crate) async fn start(wanted: &[Flavor]) -> anyhow::Result<Self> {
        let unwanted: Vec<Flavor> =
            Flavor::ALL.into_iter().filter(|flavor| !wanted.contains(flavor)).collect();
        let mut stand =
            Self { servers: Vec::new(), missing: Vec::new(), unwanted, missing_programs: Vec::new() };
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
        for program in Program::ALL {
            if let Err(reason) = tokio::task::spawn_blocking(move || programs::provide(program)).await? {
                warn_loudly(&format!("NOT TESTED WITH {}: {reason}", program.slug()));
                stand.missing_programs.push(program);
            }
        }
        anyhow::ensure!(
            !stand.servers.is_empty(),
            "no database server to test on; see above for what was tried"
        );
        Ok(stand)
    }

    /// Tells a test run where the servers are. A flavour that is not there must not be inherited from outside.
    pub(crate) fn environment<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        for flavor in Flavor::ALL {
            command.env_remove(flavor.test_url_variable());
        }
        for server in &self.servers {
            command.env(server.flavor().test_url_variable(), server.root_url());
        }
        let flavors = self.missing.iter().chain(&self.unwanted).map(|flavor| flavor.slug());
        let programs = self.missing_programs.iter().map(|program| program.slug());
        let missing: Vec<&str> = flavors.chain(programs).collect();
        command.env(MISSING_VARIABLE, missing.join(","));
        command.env_remove("DATABASE_URL").env("SQLX_OFFLINE", "true")
    }

    /// Stops the servers.
    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        for mut server in self.servers {
            server.stop().await?;
        }
        for flavor in self.missing {
            warn_loudly(&format!(
                "NOT TESTED ON {flavor}: it cannot be had here (the reasons stand at the top)."
            ));
        }
        for program in self.missing_programs {
            warn_loudly(&format!("NOT TESTED WITH {}: it cannot be had here.", program.slug()));
        }
        Ok(())
    }
}
