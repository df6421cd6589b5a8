//! An application that is told of its payments: it answers as it is told to, and remembers what it heard. Signatures are
//! verified here by code of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// Largest request that is read, in bytes.
const MAX_REQUEST_BYTES: usize = 64 * 1024;

/// How requests are answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Manner {
    /// With this status and these header lines, after so many milliseconds.
    Answer {
        /// The status.
        status: u16,
        /// Header lines, each with its CRLF.
        headers: String,
        /// How long it takes.
        after_ms: u64,
    },
    /// Never.
    Hang,
    /// The connection is closed without a word.
    Close,
    /// With 200 and a body that never ends.
    Flood,
}

impl Manner {
    /// A bare status, at once.
    pub fn status(status: u16) -> Manner {
        Manner::Answer { status, headers: String::new(), after_ms: 0 }
    }
}

/// One request.
#[derive(Debug, Clone)]
pub struct Heard {
    /// `webhook-id`.
    pub id: String,
    /// `webhook-timestamp`.
    pub timestamp: String,
    /// `webhook-signature`.
    pub signature: String,
    /// The path and query.
    pub path: String,
    /// The body.
    pub body: String,
    /// Whether it was accepted with a 2xx.
    pub accepted: bool,
}

#[derive(Debug, Default)]
struct Memory {
    heard: Vec<Heard>,
    in_hand: BTreeMap<String, u32>,
    /// Ids that were in two requests at one moment.
    at_once: BTreeSet<String>,
}

/// The application.
pub struct Receiver {
    address: SocketAddr,
    manner: Arc<Mutex<Manner>>,
    memory: Arc<Mutex<Memory>>,
    listening: Option<JoinHandle<()>>,
}

/// Known to everybody, like every secret of the stack.
const SECRET: &[u8] = b"local-notification-secret-1c7e";

impl Receiver {
    /// What tells the application `shop` here, as sections of the configuration file: quickly tried again.
    pub fn table(&self) -> String {
        format!(
            "[notifications]\nclaim_ms = 3000\npoll_interval_ms = 50\nretry_ms = [300, 300, 300, 300]\n\
             allow_private_targets = true\n\n[notifications.applications.shop]\nurl = \"{}\"\nsecret = \"{}\"\n\
             timeout_ms = 500\nconnect_timeout_ms = 300\nqueue_wait_ms = 500\n\n",
            self.url(),
            Receiver::secret()
        )
    }

    /// The secret in it.
    pub fn secret() -> String {
        format!("whsec_{}", STANDARD.encode(SECRET))
    }

    /// Starts to listen on a port of this machine.
    ///
    /// # Errors
    /// No port is to be had.
    pub async fn start() -> anyhow::Result<Receiver> {
        let port = super::free_port()?;
        let mut receiver = Receiver {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
            manner: Arc::new(Mutex::new(Manner::status(204))),
            memory: Arc::default(),
            listening: None,
        };
        receiver.come_back().await?;
        Ok(receiver)
    }

    /// Where it is told.
    pub fn url(&self) -> String {
        format!("http://{}/hook?of=shop", self.address)
    }

    /// Answers so from now on.
    pub fn behave(&self, manner: Manner) {
        *self.manner.lock().unwrap_or_else(PoisonError::into_inner) = manner;
    }

    /// Is gone: nobody listens, and every connection is closed.
    pub async fn go(&mut self) {
        if let Some(listening) = self.listening.take() {
            listening.abort();
            // Ended, and its connections with it.
            let _ = listening.await;
        }
    }

    /// Listens again, on the same port.
    ///
    /// # Errors
    /// The port was taken meanwhile.
    pub async fn come_back(&mut self) -> anyhow::Result<()> {
        let listener = TcpListener::bind(self.address).await.context("the receiver's port is taken")?;
        let (manner, memory) = (Arc::clone(&self.manner), Arc::clone(&self.memory));
        self.listening = Some(tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                while connections.try_join_next().is_some() {}
                let Ok((stream, _)) = listener.accept().await else { return };
                connections.spawn(serve(stream, Arc::clone(&manner), Arc::clone(&memory)));
            }
        }));
        Ok(())
    }

    /// Everything so far.
    pub fn heard(&self) -> Vec<Heard> {
        self.memory().heard.clone()
    }

    /// How many times it was told each id with a 2xx as the answer.
    pub fn accepted(&self) -> BTreeMap<String, u32> {
        let mut counts = BTreeMap::new();
        for heard in self.memory().heard.iter().filter(|heard| heard.accepted) {
            *counts.entry(heard.id.clone()).or_default() += 1;
        }
        counts
    }

    /// Ids that were in two requests at one moment.
    pub fn at_once(&self) -> Vec<String> {
        self.memory().at_once.iter().cloned().collect()
    }

    fn memory(&self) -> std::sync::MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Heard {
    /// Checks the signature against one secret (`whsec_…`).
    ///
    /// # Errors
    /// None of the signatures is by that secret.
    pub fn verify(&self, secret: &str) -> anyhow::Result<()> {
        let key = secret.strip_prefix("whsec_").context("the secret has no prefix")?;
        let signed = format!("{}.{}.{}", self.id, self.timestamp, self.body);
        let matches = |signature: &str| -> anyhow::Result<bool> {
            let Some(text) = signature.strip_prefix("v1,") else { return Ok(false) };
            let mut mac = Hmac::<Sha256>::new_from_slice(&STANDARD.decode(key)?)?;
            mac.update(signed.as_bytes());
            Ok(mac.verify_slice(&STANDARD.decode(text)?).is_ok())
        };
        for signature in self.signature.split(' ') {
            if matches(signature)? {
                return Ok(());
            }
        }
        anyhow::bail!("{} does not sign {signed}", self.signature)
    }
}

/// Counts a request while it is being answered.
struct InHand<'m> {
    memory: &'m Mutex<Memory>,
    id: String,
}

impl<'m> InHand<'m> {
    fn take(memory: &'m Mutex<Memory>, id: &str) -> InHand<'m> {
        let mut inside = memory.lock().unwrap_or_else(PoisonError::into_inner);
        let count = inside.in_hand.entry(id.to_owned()).or_default();
        *count += 1;
        if *count > 1 {
            inside.at_once.insert(id.to_owned());
        }
        InHand { memory, id: id.to_owned() }
    }
}

impl Drop for InHand<'_> {
    fn drop(&mut self) {
        let mut inside = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = inside.in_hand.get_mut(&self.id) {
            *count -= 1;
        }
    }
}

/// Serves one connection until the client closes it.
async fn serve(mut stream: TcpStream, manner: Arc<Mutex<Manner>>, memory: Arc<Mutex<Memory>>) {
    let mut bytes = Vec::new();
    while let Ok(Some(heard)) = read_request(&mut stream, &mut bytes).await {
        let manner = manner.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let in_hand = InHand::take(&memory, &heard.id);
        let accepted = match &manner {
            Manner::Answer { status, .. } => (200..300).contains(status),
            Manner::Flood => true,
            Manner::Hang | Manner::Close => false,
        };
        memory.lock().unwrap_or_else(PoisonError::into_inner).heard.push(Heard { accepted, ..heard });
        let goes_on = answer(&mut stream, &manner).await;
        drop(in_hand);
        if !goes_on {
            return;
        }
    }
}

/// Whether the connection goes on.
async fn answer(stream: &mut TcpStream, manner: &Manner) -> bool {
    match manner {
        Manner::Answer { status, headers, after_ms } => {
            if *after_ms > 0 {
                tokio::time::sleep(Duration::from_millis(*after_ms)).await;
            }
            let answer = format!("HTTP/1.1 {status} As told\r\ncontent-length: 0\r\n{headers}\r\n");
            // 204 has no body and no length.
            let answer = if *status == 204 { answer.replace("content-length: 0\r\n", "") } else { answer };
            stream.write_all(answer.as_bytes()).await.is_ok()
        }
        Manner::Hang => {
            // Until the client gives up.
            let mut end = [0; 1];
            let _ = stream.read(&mut end).await;
            false
        }
        Manner::Close => false,
        Manner::Flood => {
            let head = "HTTP/1.1 200 As told\r\ntransfer-encoding: chunked\r\n\r\n";
            let chunk = format!("1000\r\n{}\r\n", "x".repeat(0x1000));
            let mut sent = stream.write_all(head.as_bytes()).await;
            while sent.is_ok() {
                sent = stream.write_all(chunk.as_bytes()).await;
            }
            false
        }
    }
}

/// The next request; `None` at the end of the connection.
async fn read_request(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> anyhow::Result<Option<Heard>> {
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
            let header = |name: &str| {
                let line =
                    head.lines().find(|line| line.to_ascii_lowercase().starts_with(&format!("{name}:")));
                line.and_then(|line| line.split_once(':')).map_or("", |(_, value)| value.trim()).to_owned()
            };
            let length: usize = header("content-length").parse().context("the request has no length")?;
            if bytes.len() >= end + 4 + length {
                let body = String::from_utf8(bytes[end + 4..end + 4 + length].to_vec())?;
                let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
                let heard = Heard {
                    id: header("webhook-id"),
                    timestamp: header("webhook-timestamp"),
                    signature: header("webhook-signature"),
                    path,
                    body,
                    accepted: false,
                };
                bytes.drain(..end + 4 + length);
                return Ok(Some(heard));
            }
        }
        ensure!(bytes.len() <= MAX_REQUEST_BYTES, "the request is too large");
        if stream.read_buf(bytes).await? == 0 {
            return Ok(None);
        }
    }
}
