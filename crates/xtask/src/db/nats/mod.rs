//! A private NATS broker with JetStream: started on a free port of 127.0.0.1 over a folder of its own, killed, brought
//! back with the same data, and gone when its owner is gone.

mod provide;

use std::fs::{self, File};
use std::io;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::TcpStream;

pub use provide::{NatsProgram, NoNats, provide_nats};

use super::command::tail;
use super::error::SourceError;
use super::ports;
use super::process::ServerProcess;
use super::run_dir::RunDir;
use crate::progress::Phase;

/// The word by which suites are told that this machine cannot have a broker (see `PAY_TEST_MISSING`).
pub const NATS_SLUG: &str = "nats";
/// Through which `cargo xtask test` hands the broker's URL to suites that share one.
pub const NATS_URL_VARIABLE: &str = "PAY_TEST_NATS_URL";

/// How long it may take until it answers, and until it has stopped.
const READY_LIMIT: Duration = Duration::from_secs(20);
const STOP_LIMIT: Duration = Duration::from_secs(20);
/// Between two attempts to connect while it comes up, and for one of them.
const CONNECT_INTERVAL: Duration = Duration::from_millis(20);
const CONNECT_LIMIT: Duration = Duration::from_secs(2);
/// How much of a dead broker's log goes into the message, in bytes.
const LOG_TAIL_BYTES: usize = 2_000;

/// A private broker. Dropping it kills it and removes its data.
#[derive(Debug)]
pub struct NatsServer {
    program: NatsProgram,
    port: u16,
    max_store_bytes: u64,
    /// Before `run_dir`: fields drop in this order, and the broker must be gone before its folder.
    process: Option<ServerProcess>,
    run_dir: RunDir,
}

/// A private broker could not be started, stopped or signalled.
#[derive(Debug, thiserror::Error)]
pub enum NatsError {
    /// No program to run.
    #[error(transparent)]
    Program(#[from] NoNats),
    /// Its folder or its process could not be made.
    #[error(transparent)]
    Prepare(#[from] SourceError),
    /// No port.
    #[error("no port for the broker: {reason}")]
    NoPort {
        /// Why.
        reason: String,
    },
    /// It does not answer, or has ended.
    #[error("the broker does not answer on port {port}: {reason}. Its log ends:\n{log_tail}")]
    NotReady {
        /// Its port.
        port: u16,
        /// What was seen.
        reason: String,
        /// The last lines of its log.
        log_tail: String,
    },
    /// The call needs a running broker.
    #[error("the broker is not running; call restart() first")]
    NotRunning,
    /// A signal could not be delivered.
    #[error("could not signal the broker: {0}")]
    Signal(io::Error),
}

impl NatsServer {
    /// Room for more than any suite needs.
    pub const ROOMY_BYTES: u64 = 1 << 30;

    /// Gets the program if need be and starts it; returns once it answers. `max_store_bytes` is all that it may keep.
    ///
    /// # Errors
    /// [`NatsError`]; nothing is left running then.
    pub async fn start(max_store_bytes: u64) -> Result<NatsServer, NatsError> {
        let prepared = tokio::task::spawn_blocking(move || {
            let program = provide_nats()?;
            let port = ports::free_port().map_err(|error| NatsError::NoPort { reason: error.to_string() })?;
            let run_dir = RunDir::temporary(NATS_SLUG)?;
            Ok::<_, NatsError>(NatsServer { program, port, max_store_bytes, process: None, run_dir })
        });
        let mut server =
            prepared.await.unwrap_or_else(|panicked| std::panic::resume_unwind(panicked.into_panic()))?;
        let phase = Phase::start(format!("starting NATS {}", server.program.version));
        server.launch().await?;
        phase.done();
        Ok(server)
    }

    /// `nats://127.0.0.1:PORT`, the same for its whole life.
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The program's version.
    pub fn version(&self) -> &str {
        &self.program.version
    }

    /// SIGTERM, and waits for the end. The data stays.
    ///
    /// # Errors
    /// It isn't running.
    pub async fn stop(&mut self) -> Result<(), NatsError> {
        let mut process = self.process.take().ok_or(NatsError::NotRunning)?;
        process.signal(Signal::TERM).map_err(NatsError::Signal)?;
        // A paused one would keep the signal for later.
        process.signal(Signal::CONT).map_err(NatsError::Signal)?;
        process.wait_or_kill(STOP_LIMIT).await.map(drop).map_err(NatsError::Signal)
    }

    /// SIGKILL: what a crash looks like. Waits until the process is gone.
    ///
    /// # Errors
    /// It isn't running.
    pub async fn kill(&mut self) -> Result<(), NatsError> {
        self.process.take().ok_or(NatsError::NotRunning)?.kill().await.map_err(NatsError::Signal)
    }

    /// Starts it again on the same port and data, after killing it if it runs; returns once it answers.
    ///
    /// # Errors
    /// As [`NatsServer::start`].
    pub async fn restart(&mut self) -> Result<(), NatsError> {
        if self.process.is_some() {
            self.kill().await?;
        }
        self.launch().await
    }

    /// The same with other bounds for what it may keep.
    ///
    /// # Errors
    /// As [`NatsServer::start`].
    pub async fn restart_with(&mut self, max_store_bytes: u64) -> Result<(), NatsError> {
        self.max_store_bytes = max_store_bytes;
        self.restart().await
    }

    /// Freezes it (SIGSTOP): connections stay open and nothing answers.
    ///
    /// # Errors
    /// It isn't running.
    pub fn pause(&self) -> Result<(), NatsError> {
        let process = self.process.as_ref().ok_or(NatsError::NotRunning)?;
        process.signal(Signal::STOP).map_err(NatsError::Signal)
    }

    /// Lets a frozen one go on.
    ///
    /// # Errors
    /// It isn't running.
    pub fn resume(&self) -> Result<(), NatsError> {
        let process = self.process.as_ref().ok_or(NatsError::NotRunning)?;
        process.signal(Signal::CONT).map_err(NatsError::Signal)
    }

    async fn launch(&mut self) -> Result<(), NatsError> {
        let file = self.write_config()?;
        let path = self.run_dir.log();
        let log = File::options().create(true).append(true).open(&path);
        let log = log.map_err(SourceError::io("open", &path))?;
        let mut command = self.program.command();
        command.arg("-c").arg(file);
        let program = PathBuf::from(command.get_program());
        let process = ServerProcess::spawn(command, log).map_err(SourceError::io("run", &program))?;
        self.run_dir.record_process(process.id())?;
        self.process = Some(process);
        let answered = self.await_answer().await;
        if answered.is_err() {
            self.process = None;
        }
        answered
    }

    fn write_config(&self) -> Result<PathBuf, SourceError> {
        let data = self.run_dir.data();
        super::cache::create_dir(&data)?;
        // In the very folder: by its name in the command line a left-over process is recognised.
        let path = data.join("nats.conf");
        let text = format!(
            "listen: \"127.0.0.1:{}\"\njetstream {{\n  store_dir: {data:?}\n  max_file_store: {}\n}}\n",
            self.port, self.max_store_bytes
        );
        fs::write(&path, text).map_err(SourceError::io("write", &path))?;
        Ok(path)
    }

    async fn await_answer(&mut self) -> Result<(), NatsError> {
        let port = self.port;
        let mut last = "no connection was taken".to_owned();
        let wait = async {
            loop {
                match tokio::time::timeout(CONNECT_LIMIT, greeting(port)).await {
                    Ok(Ok(text)) if text.contains("\"jetstream\":true") => return Ok(()),
                    Ok(Ok(text)) => last = format!("it says {text:?}"),
                    Ok(Err(error)) => last = error.to_string(),
                    Err(_elapsed) => last = "it says nothing".to_owned(),
                }
                let ended = self.process.as_mut().ok_or(NatsError::NotRunning)?.exited();
                if let Some(status) = ended.map_err(NatsError::Signal)? {
                    return Err(self.not_ready(format!("it ended with {status}")));
                }
                tokio::time::sleep(CONNECT_INTERVAL).await;
            }
        };
        let waited = tokio::time::timeout(READY_LIMIT, wait).await;
        waited.unwrap_or_else(|_elapsed| Err(self.not_ready(last)))
    }

    fn not_ready(&self, reason: String) -> NatsError {
        let log = fs::read(self.run_dir.log()).unwrap_or_default();
        let text = String::from_utf8_lossy(&log);
        NatsError::NotReady {
            port: self.port,
            reason,
            log_tail: tail(text.trim_end(), LOG_TAIL_BYTES).to_owned(),
        }
    }
}

/// What a broker says of itself first.
async fn greeting(port: u16) -> io::Result<String> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).await?;
    Ok(line)
}
