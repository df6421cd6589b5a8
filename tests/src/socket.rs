//! HTTP by hand, for clients that no HTTP library would let one be.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use xtask::stack::ApiClient;

/// A raw connection to an API process.
#[derive(Debug)]
pub struct Socket {
    stream: TcpStream,
}

impl Socket {
    /// Connects.
    ///
    /// # Errors
    /// Refused.
    pub async fn open(api: &ApiClient) -> anyhow::Result<Socket> {
        let stream = TcpStream::connect(address(api)?).await.context("can not connect")?;
        stream.set_nodelay(true)?;
        Ok(Socket { stream })
    }

    /// Sends all of it.
    ///
    /// # Errors
    /// The other side is gone.
    pub async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await
    }

    /// Ends with a reset instead of a farewell.
    ///
    /// # Errors
    /// The system refuses.
    pub fn reset_on_drop(&self) -> io::Result<()> {
        self.stream.set_zero_linger()
    }

    /// Whether the system has word that the other side reset the connection.
    pub fn was_reset(&self) -> bool {
        self.stream.take_error().is_ok_and(|error| error.is_some())
    }

    /// Reads one answer whose length is declared; head and body.
    ///
    /// # Errors
    /// The connection ended before, or the head makes no sense.
    pub async fn read_answer(&mut self) -> anyhow::Result<String> {
        let mut bytes = Vec::new();
        let mut chunk = [0; 4_096];
        loop {
            if let Some(end) = find(&bytes, b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
                let declared = head.lines().find_map(|line| line.strip_prefix("content-length:"));
                let length: usize = declared.context("no content-length")?.trim().parse()?;
                if bytes.len() >= end + 4 + length {
                    return Ok(String::from_utf8_lossy(&bytes).into_owned());
                }
            }
            let count = self.stream.read(&mut chunk).await?;
            anyhow::ensure!(
                count > 0,
                "closed in the middle of an answer: {}",
                String::from_utf8_lossy(&bytes)
            );
            bytes.extend_from_slice(&chunk[..count]);
        }
    }

    /// Reads to the end of the connection, however it ends, for at most so long; what was read.
    ///
    /// # Errors
    /// It is still open when the time is over.
    pub async fn read_to_close(&mut self, within: Duration) -> anyhow::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        match tokio::time::timeout(within, self.stream.read_to_end(&mut bytes)).await {
            // A reset is an end, too.
            Ok(Ok(_) | Err(_)) => Ok(bytes),
            Err(_) => anyhow::bail!("still open after {within:?}"),
        }
    }
}

/// Sees to it that this process may have so many files and connections open.
///
/// # Errors
/// The machine does not allow so many.
pub fn raise_file_limit(wanted: u64) -> anyhow::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), ..limit })
        .with_context(|| format!("{wanted} open files are not allowed here (ulimit -n)"))
}

fn address(api: &ApiClient) -> anyhow::Result<SocketAddr> {
    let text = api.url().strip_prefix("http://").context("no http:// address")?;
    text.parse().with_context(|| format!("no address: {text}"))
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

/// The head of a request with its API key; further header lines as given, each ending in CR LF.
pub fn request_head(api: &ApiClient, method: &str, path: &str, lines: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nHost: api\r\nAuthorization: Bearer {}\r\n{lines}\r\n", api.key())
}
