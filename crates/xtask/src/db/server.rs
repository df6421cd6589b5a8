//! One private server's life: start, stop, crash, come back on the same port with the same data.

use std::fs::{self, File};
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use sqlx::{AssertSqlSafe, Connection as _, MySqlConnection};

use super::command::tail;
use super::container::Container;
use super::error::{ServerError, SourceError};
use super::installed::{Installed, Launch, Origin, joined};
use super::process::ServerProcess;
use super::run_dir::RunDir;
use super::settings::ServerOptions;
use super::{Flavor, ports, provide, template};
use crate::progress::Phase;

/// How long a graceful stop may take.
const STOP_LIMIT: Duration = Duration::from_secs(60);
/// Between two attempts to connect while a server comes up.
const CONNECT_INTERVAL: Duration = Duration::from_millis(25);
/// One attempt to connect; a server that accepts and says nothing must not eat the whole bound.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);
/// How much of a dead server's log goes into the message, in bytes.
const LOG_TAIL_BYTES: usize = 2_000;
/// How often a port that was taken between choosing and binding is replaced.
const PORT_ATTEMPTS: u32 = 5;

/// A private server on 127.0.0.1. Dropping it kills the server and removes its data (unless the data directory was named).
///
/// `root` has no password: the server listens on loopback only and holds test data.
#[derive(Debug)]
pub struct Server {
    options: ServerOptions,
    installed: Installed,
    port: u16,
    /// Before `run_dir`: fields drop in this order, and the server must be gone before its folder.
    host: Option<Host>,
    run_dir: RunDir,
}

/// What runs the server.
#[derive(Debug)]
enum Host {
    Process(ServerProcess),
    Container(Container),
}

impl Server {
    /// Gets the program if need be, makes a data directory and starts a server; returns once it answers.
    ///
    /// # Errors
    /// No program, no port, or a server that does not come up: nothing is left running then.
    pub async fn start(options: ServerOptions) -> Result<Self, ServerError> {
        let prepared = tokio::task::spawn_blocking(move || Self::prepare(options));
        let mut server =
            prepared.await.unwrap_or_else(|panicked| std::panic::resume_unwind(panicked.into_panic()))?;
        let phase = Phase::start(format!("starting {} {}", server.flavor(), server.installed.version));
        let mut attempt = 1;
        loop {
            match server.launch().await {
                Ok(()) => {
                    phase.done();
                    return Ok(server);
                }
                Err(error) if server.may_change_port(&error) && attempt < PORT_ATTEMPTS => {
                    attempt += 1;
                    server.port = ports::free_port()?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn prepare(mut options: ServerOptions) -> Result<Self, ServerError> {
        let installed = match options.installed.take() {
            Some(installed) => installed,
            None => provide(options.flavor)?,
        };
        let run_dir = match &options.data_dir {
            Some(path) => RunDir::named(path)?,
            None => RunDir::temporary(options.flavor.slug())?,
        };
        if installed.origin != Origin::Docker && !run_dir.data().is_dir() {
            template::new_data_directory(&installed, &run_dir.data())?;
        }
        let port = match options.port {
            Some(port) => port,
            None => ports::free_port()?,
        };
        Ok(Self { options, installed, port, host: None, run_dir })
    }

    /// Which server.
    pub fn flavor(&self) -> Flavor {
        self.options.flavor
    }

    /// The program it runs.
    pub fn installed(&self) -> &Installed {
        &self.installed
    }

    /// Its port on 127.0.0.1, the same for its whole life.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The server's process id, while it runs as a process of this machine.
    pub fn pid(&self) -> Option<u32> {
        match self.host.as_ref()? {
            Host::Process(process) => Some(process.id()),
            Host::Container(_) => None,
        }
    }

    /// `root`'s URL without a schema: `mysql://root@127.0.0.1:PORT`.
    pub fn root_url(&self) -> String {
        format!("mysql://root@127.0.0.1:{}", self.port)
    }

    /// `root`'s URL for a schema.
    pub fn url(&self, schema: &str) -> String {
        format!("{}/{schema}", self.root_url())
    }

    /// Runs one or more statements as root, outside any schema.
    ///
    /// # Errors
    /// The server's refusal, or that it does not answer.
    pub async fn run_sql(&self, sql: &str) -> Result<(), ServerError> {
        run_at(&self.root_url(), sql).await
    }

    /// The same inside `schema`: names without a schema mean the ones in there.
    ///
    /// # Errors
    /// As [`Server::run_sql`].
    pub async fn run_sql_in(&self, schema: &str, sql: &str) -> Result<(), ServerError> {
        run_at(&self.url(schema), sql).await
    }

    /// Stops gracefully (SIGTERM) and waits for the end. The data stays; [`Server::restart`] takes it up again.
    ///
    /// # Errors
    /// If it isn't running, or had to be killed.
    pub async fn stop(&mut self) -> Result<(), ServerError> {
        let flavor = self.flavor();
        match self.host.as_mut().ok_or(ServerError::NotRunning { flavor })? {
            Host::Process(process) => {
                let signal = |reason| ServerError::Signal { flavor, reason };
                process.signal(Signal::TERM).map_err(signal)?;
                // A paused server would keep the signal for later.
                process.signal(Signal::CONT).map_err(signal)?;
                let by_itself = process.wait_or_kill(STOP_LIMIT).await.map_err(signal)?;
                self.host = None;
                if !by_itself {
                    return Err(ServerError::StopTimedOut { flavor, waited_s: STOP_LIMIT.as_secs() });
                }
            }
            Host::Container(container) => container.control(&["stop", "--time", "60"]).await?,
        }
        Ok(())
    }

    /// SIGKILL: what a crash of the server looks like. Waits until the process is gone.
    ///
    /// # Errors
    /// If it isn't running.
    pub async fn kill(&mut self) -> Result<(), ServerError> {
        let flavor = self.flavor();
        match self.host.as_mut().ok_or(ServerError::NotRunning { flavor })? {
            Host::Process(process) => {
                process.kill().await.map_err(|reason| ServerError::Signal { flavor, reason })?;
                self.host = None;
            }
            Host::Container(container) => container.control(&["kill", "--signal", "KILL"]).await?,
        }
        Ok(())
    }

    /// Starts it again on the same port and data, after stopping it if it runs; returns once it answers.
    ///
    /// # Errors
    /// As [`Server::start`] and [`Server::stop`].
    pub async fn restart(&mut self) -> Result<(), ServerError> {
        match &self.host {
            Some(Host::Process(_)) => self.stop().await?,
            Some(Host::Container(container)) => {
                container.control(&["restart", "--time", "60"]).await?;
                return self.await_answer().await;
            }
            None => {}
        }
        self.launch().await
    }

    /// Freezes it (SIGSTOP): connections stay open and nothing answers.
    ///
    /// # Errors
    /// If it isn't running.
    pub async fn pause(&self) -> Result<(), ServerError> {
        self.freeze(Signal::STOP, "pause").await
    }

    /// Lets a frozen server go on.
    ///
    /// # Errors
    /// If it isn't running.
    pub async fn resume(&self) -> Result<(), ServerError> {
        self.freeze(Signal::CONT, "unpause").await
    }

    async fn freeze(&self, signal: Signal, verb: &str) -> Result<(), ServerError> {
        let flavor = self.flavor();
        match self.host.as_ref().ok_or(ServerError::NotRunning { flavor })? {
            Host::Process(process) => {
                process.signal(signal).map_err(|reason| ServerError::Signal { flavor, reason })
            }
            Host::Container(container) => Ok(container.control(&[verb]).await?),
        }
    }

    /// Runs the server over its data directory and waits until it answers.
    async fn launch(&mut self) -> Result<(), ServerError> {
        let host = match &self.installed.launch {
            Launch::Docker { image } => {
                let name = self.run_dir.container_name();
                self.run_dir.record_container()?;
                let (image, port, options) = (image.clone(), self.port, self.options.clone());
                let run = tokio::task::spawn_blocking(move || Container::run(&name, &image, port, &options));
                let container =
                    run.await.unwrap_or_else(|panicked| std::panic::resume_unwind(panicked.into_panic()))?;
                Host::Container(container)
            }
            Launch::Unpacked { .. } | Launch::Native { .. } => Host::Process(self.spawn_process()?),
        };
        self.host = Some(host);
        let answered = self.await_answer().await;
        if answered.is_err() {
            self.host = None;
        }
        answered
    }

    fn spawn_process(&self) -> Result<ServerProcess, ServerError> {
        let log = self.run_dir.log();
        let file = File::create(&log).map_err(SourceError::io("create", &log))?;
        let command = self.process_command();
        let program = std::path::PathBuf::from(command.get_program());
        let process = ServerProcess::spawn(command, file).map_err(SourceError::io("run", &program))?;
        self.run_dir.record_process(process.id())?;
        Ok(process)
    }

    fn process_command(&self) -> Command {
        let mut command = self.installed.command();
        command
            .arg(joined("--datadir=", &self.run_dir.data()))
            // Relative to the data directory: a socket's whole path may have 107 bytes at most.
            .args(["--socket=server.sock", "--pid-file=server.pid", "--bind-address=127.0.0.1"])
            .arg(format!("--port={}", self.port))
            .args(template::user_argument())
            .args(self.options.arguments());
        command
    }

    /// Waits, within the options' bound, until the server takes a connection.
    async fn await_answer(&mut self) -> Result<(), ServerError> {
        let url = self.root_url();
        let limit = self.options.ready_timeout;
        let mut last = sqlx::Error::Io(std::io::ErrorKind::TimedOut.into());
        let wait = async {
            loop {
                match tokio::time::timeout(CONNECT_LIMIT, MySqlConnection::connect(&url)).await {
                    Ok(Ok(connection)) => {
                        // Only a courtesy to the server's log.
                        let _ = connection.close().await;
                        return Ok(());
                    }
                    Ok(Err(error)) => last = error,
                    Err(_elapsed) => {}
                }
                self.check_alive()?;
                tokio::time::sleep(CONNECT_INTERVAL).await;
            }
        };
        match tokio::time::timeout(limit, wait).await {
            Ok(answered) => answered,
            Err(_elapsed) => Err(ServerError::NotReady {
                flavor: self.options.flavor,
                port: self.port,
                waited_s: limit.as_secs(),
                last: Box::new(last),
                log: self.run_dir.log(),
            }),
        }
    }

    fn check_alive(&mut self) -> Result<(), ServerError> {
        let flavor = self.options.flavor;
        let log = self.run_dir.log();
        let ended = match self.host.as_mut().ok_or(ServerError::NotRunning { flavor })? {
            Host::Process(process) => {
                let status = process.exited().map_err(|reason| ServerError::Signal { flavor, reason })?;
                status.map(|status| {
                    let text = fs::read(&log).unwrap_or_default();
                    let text = String::from_utf8_lossy(&text);
                    (status.to_string(), tail(text.trim_end(), LOG_TAIL_BYTES).to_owned())
                })
            }
            Host::Container(container) => {
                container.has_exited()?.then(|| ("an exit".to_owned(), container.log_tail()))
            }
        };
        match ended {
            Some((status, log_tail)) => Err(ServerError::EndedEarly { flavor, status, log, log_tail }),
            None => Ok(()),
        }
    }

    /// Whether another port may help: the port was ours to choose, and somebody took it in the meantime.
    fn may_change_port(&self, error: &ServerError) -> bool {
        let taken = "Address already in use";
        self.options.port.is_none()
            && matches!(error, ServerError::EndedEarly { log_tail, .. } if log_tail.contains(taken))
    }
}

async fn run_at(url: &str, sql: &str) -> Result<(), ServerError> {
    let failed = |doing| move |reason| ServerError::Sql { doing, reason };
    let mut connection =
        MySqlConnection::connect(url).await.map_err(failed("connect to the private server"))?;
    let ran = sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await;
    ran.map_err(failed("run the statements on the private server"))?;
    connection.close().await.map_err(failed("close the connection to the private server"))
}
