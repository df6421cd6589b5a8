//! One child process: its log, its signals, its end.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use tokio::process::{Child, Command};

use super::clock::Patience;

/// How a process is started.
#[derive(Debug, Clone)]
pub struct ProcessOptions {
    /// Name in messages.
    pub name: String,
    /// The program.
    pub binary: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Environment on top of ours.
    pub env: Vec<(String, String)>,
    /// File that standard output and error are appended to.
    pub log: PathBuf,
}

/// A running child. Dropped, it is killed.
pub struct Process {
    options: ProcessOptions,
    child: Child,
}

impl Process {
    /// Starts the program.
    ///
    /// # Errors
    /// The program or its log file cannot be opened.
    pub fn spawn(options: ProcessOptions) -> anyhow::Result<Process> {
        let log = File::options()
            .create(true)
            .append(true)
            .open(&options.log)
            .with_context(|| format!("can not open the log {}", options.log.display()))?;
        let child = Command::new(&options.binary)
            .args(&options.args)
            .envs(options.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(log.try_clone().context("can not share the log file")?)
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("can not start {}; was it built?", options.binary.display()))?;
        Ok(Process { options, child })
    }

    /// Name in messages.
    pub fn name(&self) -> &str {
        &self.options.name
    }

    /// Its process id, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// SIGKILL, and waits for the end.
    ///
    /// # Errors
    /// The operating system refuses.
    pub async fn kill(&mut self) -> anyhow::Result<()> {
        if self.exited()?.is_some() {
            return Ok(());
        }
        self.child.kill().await.with_context(|| format!("can not kill {}", self.options.name))
    }

    /// Any signal by its name (`TERM`, `STOP`, `CONT`).
    ///
    /// # Errors
    /// The operating system refuses, or the process has ended.
    pub async fn signal(&self, signal: &str) -> anyhow::Result<()> {
        let pid = self.child.id().with_context(|| format!("{} has ended", self.options.name))?;
        let status = Command::new("kill").args([&format!("-{signal}"), &pid.to_string()]).status().await?;
        anyhow::ensure!(status.success(), "kill -{signal} {pid} ({}) failed", self.options.name);
        Ok(())
    }

    /// SIGTERM, and waits for the end; the exit status.
    ///
    /// # Errors
    /// It did not end in time; it is killed then.
    pub async fn terminate(&mut self, within: Duration) -> anyhow::Result<ExitStatus> {
        if let Some(status) = self.exited()? {
            return Ok(status);
        }
        self.signal("TERM").await?;
        match tokio::time::timeout(within, self.child.wait()).await {
            Ok(status) => Ok(status?),
            Err(_) => {
                self.kill().await?;
                anyhow::bail!(
                    "{} did not stop within {within:?} of SIGTERM:\n{}",
                    self.name(),
                    self.log_tail()
                )
            }
        }
    }

    /// Its exit status, if it has ended.
    ///
    /// # Errors
    /// The operating system does not say.
    pub fn exited(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Waits for its end by itself; the exit status.
    ///
    /// # Errors
    /// It is still there when the time is over; it goes on running then.
    pub async fn wait_for_exit(&mut self, within: Duration) -> anyhow::Result<ExitStatus> {
        match tokio::time::timeout(within, self.child.wait()).await {
            Ok(status) => Ok(status?),
            Err(_) => anyhow::bail!("{} still runs after {within:?}:\n{}", self.name(), self.log_tail()),
        }
    }

    /// Everything it has logged so far, also in earlier lives under the same name.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.options.log).unwrap_or_default()).into_owned()
    }

    /// The last lines of its log.
    pub fn log_tail(&self) -> String {
        const LINES: usize = 25;
        let text = self.log();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LINES)..].join("\n")
    }

    /// Peak resident memory in KiB so far, and the present one, from the kernel.
    ///
    /// # Errors
    /// The process has ended.
    pub fn memory_kib(&self) -> anyhow::Result<(u64, u64)> {
        let pid = self.child.id().context("the process has ended")?;
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let field = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name))?;
            line.split_whitespace().nth(1)?.parse::<u64>().ok()
        };
        Ok((field("VmHWM:").context("no VmHWM")?, field("VmRSS:").context("no VmRSS")?))
    }
}

/// Ports of the services: below the range from which the kernel takes ports for outgoing connections, so that a killed
/// service finds its port free when it comes back, and above the private database servers.
const PORTS: std::ops::Range<u16> = 30_000..32_500;

/// A port of 127.0.0.1 that nobody listens on at this moment, and that this process has not given out lately.
///
/// # Errors
/// The whole range is taken.
pub fn free_port() -> anyhow::Result<u16> {
    static PICKED: AtomicU16 = AtomicU16::new(0);
    let count = PORTS.end - PORTS.start;
    // Different processes start looking at different places.
    let start = u16::try_from(std::process::id().wrapping_mul(131) % u32::from(count)).unwrap_or(0);
    for _ in 0..count {
        let step = PICKED.fetch_add(1, Ordering::Relaxed) % count;
        let port = PORTS.start + (start + step) % count;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    anyhow::bail!("no free port on 127.0.0.1 between {} and {}", PORTS.start, PORTS.end - 1)
}

/// Looks again and again, 20 ms apart, until `look` gives something or the time is over.
///
/// # Errors
/// The time is over; `what` says what was waited for. An error of `look` ends the wait at once.
pub async fn wait_until<T, F>(what: &str, within: Duration, mut look: impl FnMut() -> F) -> anyhow::Result<T>
where
    F: Future<Output = anyhow::Result<Option<T>>>,
{
    let patience = Patience::of(within);
    loop {
        if let Some(found) = look().await? {
            return Ok(found);
        }
        anyhow::ensure!(!patience.is_over(), "waited {within:?} in vain for {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
