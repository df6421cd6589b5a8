//! Health, readiness and metrics, and the time before a process has anything else to serve.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use pay_runtime::http::{Drained, HttpLimits, OpsService, Readiness, bind, serve, serve_until};
use pay_runtime::metrics::Metrics;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

const PATIENCE: Duration = Duration::from_secs(10);

async fn ask(address: SocketAddr, method: &str, path: &str) -> String {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).await.unwrap();
        said
    };
    tokio::time::timeout(PATIENCE, exchange).await.unwrap()
}

/// One test for all: a process has one metrics recorder.
#[tokio::test]
async fn a_process_is_live_at_once_ready_when_it_is_and_gives_its_metrics() {
    let metrics = Metrics::install().unwrap();
    assert!(Metrics::install().is_err(), "a second recorder");
    ::metrics::counter!("things_total").increment(3);

    let (readiness, ready) = watch::channel(Readiness::NotReady("the database is away".to_owned()));
    let ops = OpsService::new(metrics, move || {
        let now = ready.borrow().clone();
        async move { now }
    });
    let listener = bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let address = listener.local_addr().unwrap();

    let connected = Arc::new(Notify::new());
    let waiting = Arc::clone(&connected);
    let starting = serve_until(listener, ops.clone().while_starting(), HttpLimits::default(), async move {
        waiting.notified().await;
        "connected"
    });
    let client = async {
        assert!(ask(address, "GET", "/healthz").await.starts_with("HTTP/1.1 200"));
        let not_ready = ask(address, "GET", "/readyz").await;
        assert!(not_ready.starts_with("HTTP/1.1 503"), "{not_ready}");
        assert!(not_ready.contains("the database is away"), "{not_ready}");
        let early = ask(address, "POST", "/payments").await;
        assert!(early.starts_with("HTTP/1.1 503"), "{early}");
        assert!(early.contains("retry-after: 1") && early.contains("\"NOT_READY\""), "{early}");
        connected.notify_one();
    };
    let ((listener, output), ()) = tokio::join!(starting, client);
    assert_eq!(output, "connected");

    readiness.send(Readiness::Ready).unwrap();
    let shutdown = CancellationToken::new();
    let server = tokio::spawn(serve(listener, ops, HttpLimits::default(), shutdown.clone()));
    assert!(ask(address, "GET", "/readyz").await.starts_with("HTTP/1.1 200"));
    assert!(ask(address, "GET", "/metrics").await.contains("things_total 3"));
    assert!(ask(address, "GET", "/payments").await.starts_with("HTTP/1.1 404"));
    assert!(ask(address, "POST", "/healthz").await.starts_with("HTTP/1.1 405"));
    shutdown.cancel();
    assert_eq!(server.await.unwrap(), Drained::Complete);
}
