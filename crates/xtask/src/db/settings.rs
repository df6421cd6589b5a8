//! What a caller may choose about a server, and the server arguments that follow from it.

use std::path::PathBuf;
use std::time::Duration;

use super::{Flavor, Installed};

/// How a private server is to be started. [`ServerOptions::new`] gives the usual choice; change the fields you care for.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Which server.
    pub flavor: Flavor,
    /// The program, if [`super::provide`] was already asked. Must be of `flavor`.
    pub installed: Option<Installed>,
    /// A folder to keep the data in beyond this server's life (and to take up again if it has data). `None`: a folder
    /// below cargo's target directory, removed with the server. Docker keeps its data in the container and ignores this.
    pub data_dir: Option<PathBuf>,
    /// A fixed port on 127.0.0.1. `None`: a free one.
    pub port: Option<u16>,
    /// More server arguments (`--name=value`). They come last, so they win over the ones below.
    pub extra_args: Vec<String>,
    /// InnoDB's buffer pool, in MiB.
    pub buffer_pool_mib: u32,
    /// The server's connection limit.
    pub max_connections: u32,
    /// The performance schema costs memory and start time; off unless a measurement needs it.
    pub performance_schema: bool,
    /// How long the server may take to answer.
    pub ready_timeout: Duration,
}

impl ServerOptions {
    /// A server of `flavor` on a free port with 300 connections and a buffer pool of 256 MiB.
    pub fn new(flavor: Flavor) -> Self {
        Self {
            flavor,
            installed: None,
            data_dir: None,
            port: None,
            extra_args: Vec::new(),
            buffer_pool_mib: 256,
            max_connections: 300,
            performance_schema: false,
            ready_timeout: Duration::from_secs(60),
        }
    }

    /// The same with a program that was already provided.
    pub fn with_installed(installed: Installed) -> Self {
        Self { installed: Some(installed.clone()), ..Self::new(installed.flavor) }
    }

    /// The arguments that don't depend on where the server runs.
    pub(super) fn arguments(&self) -> Vec<String> {
        let on_off = |value: bool| if value { "ON" } else { "OFF" };
        let mut arguments = vec![
            // A commit that was answered is on disk: what the product's promises, and its figures, rest on.
            "--sync-binlog=1".to_owned(),
            "--innodb-flush-log-at-trx-commit=1".to_owned(),
            // As in production: binary logging decides which right the migration account needs for triggers.
            "--log-bin=binlog".to_owned(),
            "--server-id=1".to_owned(),
            "--character-set-server=utf8mb4".to_owned(),
            "--skip-name-resolve".to_owned(),
            format!("--max-connections={}", self.max_connections),
            format!("--innodb-buffer-pool-size={}M", self.buffer_pool_mib),
            format!("--performance-schema={}", on_off(self.performance_schema)),
        ];
        match self.flavor {
            Flavor::MySql => arguments.extend([
                "--mysqlx=OFF".to_owned(),
                "--secure-file-priv=NULL".to_owned(),
                // Loopback only: no certificates to make, nothing to encrypt.
                "--auto-generate-certs=OFF".to_owned(),
                "--tls-version=".to_owned(),
            ]),
            Flavor::MariaDb => {}
        }
        arguments.extend(self.extra_args.iter().cloned());
        arguments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durable_by_default_and_extra_arguments_come_last() {
        for flavor in Flavor::ALL {
            let mut options = ServerOptions::new(flavor);
            options.extra_args = vec!["--sync-binlog=0".to_owned()];
            let arguments = options.arguments();
            assert!(arguments.contains(&"--sync-binlog=1".to_owned()));
            assert!(arguments.contains(&"--innodb-flush-log-at-trx-commit=1".to_owned()));
            assert_eq!(arguments.last().unwrap(), "--sync-binlog=0");
        }
    }
}
