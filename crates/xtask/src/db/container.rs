//! A server as a container of the official image: the last resort, where no server program can be had otherwise.

use std::process::{Command, Stdio};

use super::command::{self, tail};
use super::error::SourceError;
use super::guard::Guard;
use super::{Flavor, ServerOptions};

/// How much of a container's log goes into a message, in bytes.
const LOG_TAIL_BYTES: usize = 2_000;

/// The official image of a flavour.
pub(super) fn image(flavor: Flavor) -> &'static str {
    match flavor {
        Flavor::MySql => "mysql:9.7",
        Flavor::MariaDb => "mariadb:10.11",
    }
}

/// A container, running or not. Dropping it removes it with its data.
#[derive(Debug)]
pub(super) struct Container {
    name: String,
    guard: Option<Guard>,
}

impl Container {
    /// Creates and starts the container `name`, with the server's port published as `port` on 127.0.0.1.
    pub(super) fn run(
        name: &str,
        image: &str,
        port: u16,
        options: &ServerOptions,
    ) -> Result<Self, SourceError> {
        let guard = Guard::over_container(name)
            .map_err(SourceError::io("start the guard of", std::path::Path::new(name)))?;
        let container = Self { name: name.to_owned(), guard: Some(guard) };
        let mut command = Command::new("docker");
        command
            .args(["run", "--detach", "--name", name])
            .args(["--publish", &format!("127.0.0.1:{port}:3306")])
            .args([
                "--env",
                "MYSQL_ALLOW_EMPTY_PASSWORD=yes",
                "--env",
                "MARIADB_ALLOW_EMPTY_ROOT_PASSWORD=yes",
            ])
            .arg(image)
            .args(options.arguments());
        command::run(&mut command)?;
        Ok(container)
    }

    /// Runs `docker VERB … NAME` off the runtime's threads.
    pub(super) async fn control(&self, verb: &[&str]) -> Result<(), SourceError> {
        let mut command = Command::new("docker");
        command.args(verb).arg(&self.name);
        let task = tokio::task::spawn_blocking(move || command::run(&mut command).map(drop));
        task.await.map_err(|error| {
            SourceError::io("control the container", std::path::Path::new(&self.name))(std::io::Error::other(
                error,
            ))
        })?
    }

    /// Whether its server has ended.
    pub(super) fn has_exited(&self) -> Result<bool, SourceError> {
        let mut command = Command::new("docker");
        command.args(["inspect", "--format", "{{.State.Running}}"]).arg(&self.name);
        command::run(&mut command).map(|running| running.trim() == "false")
    }

    /// The end of what its server logged.
    pub(super) fn log_tail(&self) -> String {
        let output = Command::new("docker").args(["logs", "--tail", "20"]).arg(&self.name).output();
        output.map_or_else(
            |error| error.to_string(),
            |output| tail(&String::from_utf8_lossy(&output.stderr), LOG_TAIL_BYTES).to_owned(),
        )
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        // If it is gone already, so much the better.
        let _ = Command::new("docker")
            .args(["rm", "--force", "--volumes"])
            .arg(&self.name)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        if let Some(guard) = self.guard.take() {
            guard.dismiss();
        }
    }
}
