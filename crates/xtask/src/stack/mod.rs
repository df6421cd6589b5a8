//! The whole product as processes on this machine: simulator, API and scanner over one database, for the demo, the
//! benchmark and the end-to-end suites.
//!
//! Everything is seen from the outside: HTTP towards the API and the simulator, SQL towards the database. Nothing here
//! links the product's crates, so a suite can never agree with the product by sharing its mistakes.

mod api;
mod audit;
mod channel;
mod clock;
mod config;
mod lateness;
mod process;
mod receiver;
mod recon;
mod redis;
mod schema;
mod sim;

use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::Context as _;

pub use api::{ApiClient, Payment, Reply};
pub use audit::{Audit, FlowRow, Violation};
pub use channel::Channel;
pub use clock::{Patience, utc_now};
pub use config::{CALLER, Keys, Tuning, key_table};
pub use lateness::{Lateness, lose_answers};
pub use process::{Process, ProcessOptions, free_port, wait_until};
pub use receiver::{Heard, Manner, Receiver};
pub use redis::RedisServer;
pub use schema::{Schema, migrate};
pub use sim::{OrderCalls, OrderLedger, SimClient};

/// Which build of the binaries to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// `target/debug`.
    Debug,
    /// `target/release`.
    Release,
    /// `target/crash-points`: the debug build with the product's crash points in it.
    CrashPoints,
}

impl Profile {
    /// The folder below cargo's target folder.
    pub fn folder(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Release => "release",
            Self::CrashPoints => "crash-points",
        }
    }

    /// Path of one of the product's binaries.
    pub fn binary(self, name: &str) -> PathBuf {
        crate::target_dir().join(self.folder()).join(name)
    }
}

/// What a stack is started with.
#[derive(Debug, Clone)]
pub struct StackOptions {
    /// The database as the services' own account sees it.
    pub app_url: String,
    /// The database as the migration account sees it.
    pub migrate_url: String,
    /// Folder for configuration, logs and the simulator's journal.
    pub dir: PathBuf,
    /// Which build to run.
    pub profile: Profile,
    /// Whether the simulator keeps nothing on disk (benchmarks).
    pub sim_in_memory: bool,
    /// Settings that differ from the defaults.
    pub tuning: Tuning,
}

/// Longest time any of the processes may need to be ready.
const READY: Duration = Duration::from_secs(30);

/// Running processes. Dropped, it kills them all.
pub struct Stack {
    options: StackOptions,
    /// Of API and scanner, on top of ours.
    env: Vec<(String, String)>,
    sim: Option<Process>,
    apis: Vec<Process>,
    scanners: Vec<Process>,
    sim_port: u16,
    api_ports: Vec<u16>,
    scanner_ports: Vec<u16>,
}

impl Stack {
    /// Migrates the schema and starts the simulator. API and scanner are started by [`Stack::start_api`] and
    /// [`Stack::start_scanner`].
    ///
    /// # Errors
    /// A process that does not start, with the end of its log.
    pub async fn start(options: StackOptions) -> anyhow::Result<Stack> {
        std::fs::create_dir_all(&options.dir)
            .with_context(|| format!("can not make the folder {}", options.dir.display()))?;
        let sim_port = free_port()?;
        let mut stack = Stack {
            options,
            env: Vec::new(),
            sim: None,
            apis: Vec::new(),
            scanners: Vec::new(),
            sim_port,
            api_ports: Vec::new(),
            scanner_ports: Vec::new(),
        };
        migrate(&stack.options.profile.binary("pay-api"), &stack.options.migrate_url).await?;
        stack.start_sim().await?;
        Ok(stack)
    }

    /// Starts the simulator, or starts it again after [`Process::kill`].
    ///
    /// # Errors
    /// It did not get ready.
    pub async fn start_sim(&mut self) -> anyhow::Result<()> {
        let mut args = vec!["--listen".to_owned(), format!("127.0.0.1:{}", self.sim_port)];
        if self.options.sim_in_memory {
            args.push("--memory".to_owned());
        } else {
            args.extend(["--journal".to_owned(), self.options.dir.join("sim.journal").display().to_string()]);
        }
        let mut process = Process::spawn(ProcessOptions {
            name: "pay-sim".to_owned(),
            binary: self.options.profile.binary("pay-sim"),
            args,
            env: Vec::new(),
            log: self.options.dir.join("pay-sim.log"),
        })?;
        await_answer(&mut process, &format!("http://127.0.0.1:{}/healthz", self.sim_port)).await?;
        self.sim = Some(process);
        Ok(())
    }

    /// Starts one more API process and waits until it is ready; its index.
    ///
    /// # Errors
    /// It did not get ready.
    pub async fn start_api(&mut self) -> anyhow::Result<usize> {
        let port = free_port()?;
        let index = self.apis.len();
        let mut process = self.spawn_service("pay-api", index, port)?;
        await_ready(&mut process, port).await?;
        self.apis.push(process);
        self.api_ports.push(port);
        Ok(index)
    }

    /// Starts one more scanner process and waits until it is ready; its index.
    ///
    /// # Errors
    /// It did not get ready.
    pub async fn start_scanner(&mut self) -> anyhow::Result<usize> {
        let port = free_port()?;
        let index = self.scanners.len();
        let mut process = self.spawn_service("pay-scanner", index, port)?;
        await_ready(&mut process, port).await?;
        self.scanners.push(process);
        self.scanner_ports.push(port);
        Ok(index)
    }

    /// SIGKILL to an API process and a new one on the same port, ready when this returns.
    ///
    /// # Errors
    /// The new one did not get ready.
    pub async fn kill_and_restart_api(&mut self, index: usize) -> anyhow::Result<()> {
        self.kill_and_respawn_api(index).await?;
        await_ready(&mut self.apis[index], self.api_ports[index]).await
    }

    /// SIGKILL to an API process and a new one on the same port, which may not be ready yet, or may never be.
    ///
    /// # Errors
    /// It cannot be started.
    pub async fn kill_and_respawn_api(&mut self, index: usize) -> anyhow::Result<()> {
        self.apis[index].kill().await?;
        self.apis[index] = self.spawn_service("pay-api", index, self.api_ports[index])?;
        Ok(())
    }

    /// SIGKILL to a scanner process and a new one on the same port, ready when this returns.
    ///
    /// # Errors
    /// The new one did not get ready.
    pub async fn kill_and_restart_scanner(&mut self, index: usize) -> anyhow::Result<()> {
        self.kill_and_respawn_scanner(index).await?;
        await_ready(&mut self.scanners[index], self.scanner_ports[index]).await
    }

    /// SIGKILL to a scanner process and a new one on the same port, which may not be ready yet, or may never be.
    ///
    /// # Errors
    /// It cannot be started.
    pub async fn kill_and_respawn_scanner(&mut self, index: usize) -> anyhow::Result<()> {
        self.scanners[index].kill().await?;
        self.scanners[index] = self.spawn_service("pay-scanner", index, self.scanner_ports[index])?;
        Ok(())
    }

    fn write_config(&self, name: &str, port: u16) -> anyhow::Result<PathBuf> {
        let config = self.options.dir.join(format!("{name}.toml"));
        let text = config::render(&self.options.app_url, self.sim_port, port, &self.options.tuning);
        std::fs::write(&config, text).with_context(|| format!("can not write {}", config.display()))?;
        Ok(config)
    }

    fn spawn_service(&self, name: &str, index: usize, port: u16) -> anyhow::Result<Process> {
        let config = self.write_config(&format!("{name}-{index}"), port)?;
        Process::spawn(ProcessOptions {
            name: format!("{name}-{index}"),
            binary: self.options.profile.binary(name),
            args: vec!["--config".to_owned(), config.display().to_string()],
            env: self.env.clone(),
            log: self.options.dir.join(format!("{name}-{index}.log")),
        })
    }

    /// Starts an API or a scanner (`name` is the binary's) that is expected to end by itself, and does not wait.
    ///
    /// # Errors
    /// The program is not there.
    pub fn spawn_doomed(&self, name: &str, env: &[(&str, &str)]) -> anyhow::Result<Process> {
        let port = free_port()?;
        let config = self.write_config(&format!("{name}-doomed-{port}"), port)?;
        let env = env.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Process::spawn(ProcessOptions {
            name: format!("{name}-doomed-{port}"),
            binary: self.options.profile.binary(name),
            args: vec!["--config".to_owned(), config.display().to_string()],
            env,
            log: self.options.dir.join(format!("{name}-doomed-{port}.log")),
        })
    }

    /// Changes the environment that API and scanner are started with from now on; `PAY__SECTION__KEY` wins over the
    /// configuration file.
    pub fn set_env(&mut self, env: &[(&str, &str)]) {
        self.env = env.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    }

    /// SIGTERM to an API process, and waits for its end; the exit status.
    ///
    /// # Errors
    /// It did not end in time.
    pub async fn terminate_api(&mut self, index: usize, within: Duration) -> anyhow::Result<ExitStatus> {
        self.apis[index].terminate(within).await
    }

    /// The client application's view, through one of the API processes.
    pub fn api(&self, index: usize) -> ApiClient {
        ApiClient::new(self.api_url(index), Keys::CLIENT)
    }

    /// Base URL of an API process.
    pub fn api_url(&self, index: usize) -> String {
        format!("http://127.0.0.1:{}", self.api_ports[index])
    }

    /// Base URL of a scanner's health and metrics.
    pub fn scanner_url(&self, index: usize) -> String {
        format!("http://127.0.0.1:{}", self.scanner_ports[index])
    }

    /// The simulator's test surface.
    pub fn sim(&self) -> SimClient {
        SimClient::new(self.sim_url())
    }

    /// Base URL of the simulator.
    pub fn sim_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.sim_port)
    }

    /// An API process.
    pub fn api_process(&mut self, index: usize) -> &mut Process {
        &mut self.apis[index]
    }

    /// A scanner process.
    pub fn scanner_process(&mut self, index: usize) -> &mut Process {
        &mut self.scanners[index]
    }

    /// Process ids of every API and every scanner; `None` for one that has ended.
    pub fn service_pids(&mut self) -> Vec<Option<u32>> {
        let services = self.apis.iter_mut().chain(&mut self.scanners);
        services
            .map(|process| if matches!(process.exited(), Ok(None)) { process.pid() } else { None })
            .collect()
    }

    /// The simulator process.
    pub fn sim_process(&mut self) -> Option<&mut Process> {
        self.sim.as_mut()
    }

    /// Where logs and configuration lie.
    pub fn dir(&self) -> &std::path::Path {
        &self.options.dir
    }

    /// Runs `pay-scanner --once` to its end.
    ///
    /// # Errors
    /// It exited with another status than 0.
    pub async fn scan_once(&self) -> anyhow::Result<()> {
        let config = self.write_config("pay-scanner-once", free_port()?)?;
        let output = tokio::process::Command::new(self.options.profile.binary("pay-scanner"))
            .arg("--config")
            .arg(&config)
            .arg("--once")
            .output()
            .await?;
        anyhow::ensure!(
            output.status.success(),
            "pay-scanner --once failed:\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(())
    }

    /// Asks every process to stop and waits for it, a bounded time each.
    ///
    /// # Errors
    /// A process that had to be killed.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        for process in self.apis.iter_mut().chain(&mut self.scanners).chain(self.sim.as_mut()) {
            process.terminate(Duration::from_secs(20)).await?;
        }
        Ok(())
    }
}

/// A client for addresses of this machine. Connections are kept for less time than the services keep them, so that none
/// is used just when its other end closes it.
pub fn http_client(timeout: Duration) -> reqwest::Client {
    // Whoever comes second finds a provider installed, which is all that is wanted.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .no_proxy()
        .tcp_nodelay(true)
        .pool_idle_timeout(Duration::from_secs(2))
        .timeout(timeout)
        .build()
        .expect("a client without TLS files to read can always be built")
}

/// Waits until a service says that it is ready.
async fn await_ready(process: &mut Process, port: u16) -> anyhow::Result<()> {
    await_answer(process, &format!("http://127.0.0.1:{port}/readyz")).await
}

async fn await_answer(process: &mut Process, url: &str) -> anyhow::Result<()> {
    let client = http_client(Duration::from_secs(2));
    let patience = Patience::of(READY);
    while !patience.is_over() {
        if let Some(status) = process.exited()? {
            anyhow::bail!(
                "{} exited with {status} before it was ready:\n{}",
                process.name(),
                process.log_tail()
            );
        }
        if let Ok(answer) = client.get(url).send().await
            && answer.status().is_success()
        {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    anyhow::bail!("{} is not ready after {READY:?}:\n{}", process.name(), process.log_tail())
}
