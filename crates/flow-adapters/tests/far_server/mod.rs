//! A far side that does to each connection exactly what a test says.

use std::future::Future;
use std::net::SocketAddr;

use flow_adapters::{HttpBusiness, HttpWallet};
use flow_config::{Secret, TransportConfig};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Gives every connection to `serve`, in a task of its own.
pub(crate) async fn start<F>(serve: impl Fn(TcpStream) -> F + Send + Sync + 'static) -> SocketAddr
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    addr
}

/// Reads one request: head and body.
pub(crate) async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok())
                .unwrap_or(0);
            if body.len() >= length {
                return Some(text);
            }
        }
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => return None,
            Ok(read) => bytes.extend_from_slice(&chunk[..read]),
        }
    }
}

/// Writes a whole answer; the connection stays usable.
pub(crate) async fn write_answer(stream: &mut TcpStream, head: &str, body: &str) {
    let answer = format!("HTTP/1.1 {head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let _ = stream.write_all(answer.as_bytes()).await;
}

pub(crate) fn config(addr: SocketAddr) -> TransportConfig {
    TransportConfig {
        base_url: format!("http://{addr}").parse().unwrap(),
        timeout_ms: 30_000,
        connect_timeout_ms: 5_000,
        max_idle_connections: 8,
        bearer_token: None,
    }
}

pub(crate) fn wallet(addr: SocketAddr) -> HttpWallet {
    HttpWallet::new(&config(addr)).unwrap()
}

pub(crate) fn impatient_wallet(addr: SocketAddr, timeout_ms: u64) -> HttpWallet {
    HttpWallet::new(&TransportConfig { timeout_ms, ..config(addr) }).unwrap()
}

/// Behind a prefix, with a token.
pub(crate) fn gated(addr: SocketAddr) -> (HttpWallet, HttpBusiness) {
    let base_url = format!("http://{addr}/gate/way/").parse().unwrap();
    let bearer_token = Some(Secret::new("t0ken".to_owned()));
    let config = TransportConfig { base_url, bearer_token, ..config(addr) };
    (HttpWallet::new(&config).unwrap(), HttpBusiness::new(&config).unwrap())
}
