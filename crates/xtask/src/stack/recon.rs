//! `pay-recon`, run to its end over the stack's schema.

use std::path::Path;
use std::process::{Output, Stdio};

use tokio::process::{Child, Command};

use super::Stack;
use super::process::free_port;

impl Stack {
    /// Runs `pay-recon` with these arguments and the stack's configuration; with an order to die, if one is given (see
    /// `flow_core::crash`). How it ended is the caller's matter.
    ///
    /// # Errors
    /// It could not be started.
    pub async fn recon(&self, arguments: &[&str], order: Option<&Path>) -> anyhow::Result<Output> {
        let mut command = self.recon_command(arguments)?;
        if let Some(order) = order {
            command.env("PAY_CRASH_FILE", order);
        }
        Ok(command.output().await?)
    }

    /// Starts `pay-recon` with these arguments. Dropped, it is killed.
    ///
    /// # Errors
    /// It could not be started.
    pub fn spawn_recon(&self, arguments: &[&str]) -> anyhow::Result<Child> {
        let mut command = self.recon_command(arguments)?;
        Ok(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?)
    }

    /// Starts `pay-recon daemon`. Dropped, it is killed.
    ///
    /// # Errors
    /// It could not be started.
    pub fn spawn_recon_daemon(&self) -> anyhow::Result<Child> {
        let mut command = self.recon_command(&["daemon"])?;
        let log = std::fs::File::create(self.dir().join("pay-recon-daemon.log"))?;
        Ok(command.stdout(log.try_clone()?).stderr(log).spawn()?)
    }

    fn recon_command(&self, arguments: &[&str]) -> anyhow::Result<Command> {
        let config = self.write_config("pay-recon", free_port()?)?;
        let mut command = Command::new(self.options.profile.binary("pay-recon"));
        command.args(arguments).arg("--config").arg(&config).env_remove("PAY_CRASH_FILE").kill_on_drop(true);
        Ok(command)
    }
}
