//! A Redis server of a suite's own, for the entry lock.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::process::{Process, ProcessOptions, free_port, wait_until};
use crate::programs::{self, Program};

/// Longest time until it answers.
const READY: Duration = Duration::from_secs(10);

/// The server. Dropped, it is killed; it keeps nothing on disk.
pub struct RedisServer {
    port: u16,
    process: Process,
    options: ProcessOptions,
}

impl RedisServer {
    /// Starts one on a free port of this machine; its log goes below `dir`.
    ///
    /// # Errors
    /// It cannot be had, or does not answer.
    pub async fn start(dir: &Path) -> anyhow::Result<RedisServer> {
        std::fs::create_dir_all(dir).with_context(|| format!("can not make {}", dir.display()))?;
        let command = tokio::task::spawn_blocking(|| programs::provide(Program::Redis)).await??;
        let port = free_port()?;
        let before = command.args.iter().map(|word| word.to_string_lossy().into_owned());
        let own = ["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
        let options = ProcessOptions {
            name: "redis".to_owned(),
            binary: command.binary,
            args: before.chain(own.into_iter().map(str::to_owned)).collect(),
            env: Vec::new(),
            log: dir.join("redis.log"),
        };
        let server = RedisServer { port, process: Process::spawn(options.clone())?, options };
        server.ready().await?;
        Ok(server)
    }

    /// Where it listens.
    pub fn address(&self) -> std::net::SocketAddr {
        std::net::SocketAddr::from((std::net::Ipv4Addr::LOCALHOST, self.port))
    }

    /// Its address as the configuration takes it.
    pub fn url(&self) -> String {
        format!("redis://{}/0", self.address())
    }

    /// SIGKILL.
    ///
    /// # Errors
    /// The operating system refuses.
    pub async fn kill(&mut self) -> anyhow::Result<()> {
        self.process.kill().await
    }

    /// The same port, without anything that it knew.
    ///
    /// # Errors
    /// It does not answer.
    pub async fn restart(&mut self) -> anyhow::Result<()> {
        self.kill().await?;
        self.process = Process::spawn(self.options.clone())?;
        self.ready().await
    }

    /// Any signal by its name (`STOP`, `CONT`).
    ///
    /// # Errors
    /// It has ended.
    pub async fn signal(&self, signal: &str) -> anyhow::Result<()> {
        self.process.signal(signal).await
    }

    /// One inline command, such as `FLUSHALL`; the first line of the answer.
    ///
    /// # Errors
    /// No answer.
    pub async fn tell(&self, command: &str) -> anyhow::Result<String> {
        let mut stream = TcpStream::connect(self.address()).await?;
        stream.write_all(format!("{command}\r\n").as_bytes()).await?;
        let mut answer = vec![0; 4_096];
        let length = stream.read(&mut answer).await?;
        let text = String::from_utf8_lossy(&answer[..length]).into_owned();
        Ok(text.lines().next().unwrap_or_default().to_owned())
    }

    async fn ready(&self) -> anyhow::Result<()> {
        let pong = || async { Ok(self.tell("PING").await.ok().filter(|answer| answer == "+PONG")) };
        wait_until("the Redis server to answer", READY, pong).await.map(drop)
    }
}
