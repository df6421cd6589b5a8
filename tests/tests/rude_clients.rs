//! Clients that hold connections without using them are closed within ten seconds and cost a polite one nothing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::{Database, Flavor, Site, Socket, pay_politely, request_head};
use futures_util::future::join_all;
use serde_json::json;
use xtask::stack::{ApiClient, Patience, Payment, Tuning};

/// The promise.
const CLOSED_WITHIN: Duration = Duration::from_secs(10);
/// Time until the system's buffers are full: only then the server notices that nobody reads.
const FILLING: Duration = Duration::from_secs(3);
/// Of each kind but the last, all at once.
const RUDE_PER_KIND: usize = 120;
/// Who asks and never reads: fewer, since each fills megabytes of the system's buffers. 500 with the others.
const NEVER_READING: usize = 20;

e2e::on_both_servers! {
    cost_a_polite_client_nothing within 120 s;
}

async fn cost_a_polite_client_nothing(flavor: Flavor) -> anyhow::Result<()> {
    let site = Site::open(Database::shared(flavor, "rude").await?, Tuning::default(), 1, 1).await?;
    let api = site.client();
    let over = AtomicBool::new(false);
    let rude = async {
        let end = all_kinds_at_once(&api).await;
        over.store(true, Ordering::Relaxed);
        end
    };
    let ((), (), ()) = tokio::try_join!(rude, pay_politely(&api, "polite", 42, &over), long_poll(&site))?;
    site.settle(Duration::from_secs(20)).await?;
    site.close().await
}

async fn all_kinds_at_once(api: &ApiClient) -> anyhow::Result<()> {
    let (half_open, slow_head, slow_body, idle, deaf) = tokio::join!(
        join_all((0..RUDE_PER_KIND).map(|_| half_open(api))),
        join_all((0..RUDE_PER_KIND).map(|_| slow_head(api))),
        join_all((0..RUDE_PER_KIND).map(|_| slow_body(api))),
        join_all((0..RUDE_PER_KIND).map(|_| idle_keep_alive(api))),
        join_all((0..NEVER_READING).map(|_| never_reading(api))),
    );
    for (kind, ends, limit) in [
        ("half-open", half_open, CLOSED_WITHIN),
        ("slow head", slow_head, CLOSED_WITHIN),
        ("slow body", slow_body, CLOSED_WITHIN),
        ("idle keep-alive", idle, CLOSED_WITHIN),
        ("never reading", deaf, CLOSED_WITHIN + FILLING),
    ] {
        let ends: Vec<Duration> = ends
            .into_iter()
            .collect::<Result<_, _>>()
            .with_context(|| format!("a client of the kind {kind}"))?;
        let slowest = ends.iter().max().copied().unwrap_or_default();
        eprintln!("{kind}: {} closed, the last after {slowest:.1?}", ends.len());
        ensure!(slowest <= limit, "{kind}: closed after {slowest:?}");
    }
    Ok(())
}

/// Connects and says nothing.
async fn half_open(api: &ApiClient) -> anyhow::Result<Duration> {
    let mut socket = Socket::open(api).await?;
    let patience = Patience::of(CLOSED_WITHIN);
    socket.read_to_close(CLOSED_WITHIN).await?;
    Ok(patience.elapsed())
}

/// Sends the head of a request a byte at a time, and never ends it.
async fn slow_head(api: &ApiClient) -> anyhow::Result<Duration> {
    let head = request_head(api, "GET", "/healthz", "X-Slow: ........................................\r\n");
    drip(Socket::open(api).await?, head.as_bytes()).await
}

/// Sends the body of a payment a byte at a time, and never ends it.
async fn slow_body(api: &ApiClient) -> anyhow::Result<Duration> {
    let lines = "Idempotency-Key: slow\r\nContent-Type: application/json\r\nContent-Length: 500\r\n";
    let mut socket = Socket::open(api).await?;
    socket.send(request_head(api, "POST", "/payments", lines).as_bytes()).await?;
    drip(socket, &[b' '; 100]).await
}

/// A byte every 250 ms until the server ends the connection.
async fn drip(mut socket: Socket, bytes: &[u8]) -> anyhow::Result<Duration> {
    let patience = Patience::of(CLOSED_WITHIN);
    for byte in bytes {
        if socket.send(&[*byte]).await.is_err() {
            break;
        }
        if socket.read_to_close(Duration::from_millis(250)).await.is_ok() {
            break;
        }
        ensure!(!patience.is_over(), "still open after {CLOSED_WITHIN:?}");
    }
    Ok(patience.elapsed())
}

/// Gets one answer and keeps the connection.
async fn idle_keep_alive(api: &ApiClient) -> anyhow::Result<Duration> {
    let mut socket = Socket::open(api).await?;
    socket.send(request_head(api, "GET", "/healthz", "").as_bytes()).await?;
    let answer = socket.read_answer().await?;
    ensure!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let patience = Patience::of(CLOSED_WITHIN);
    socket.read_to_close(CLOSED_WITHIN).await?;
    Ok(patience.elapsed())
}

/// Asks for far more than fits into any buffer between here and there, and takes no answer for as long as the promise
/// allows. What it finds then is the end of the connection, before the end of the answers.
async fn never_reading(api: &ApiClient) -> anyhow::Result<Duration> {
    const ANSWERS: usize = 500;
    let mut socket = Socket::open(api).await?;
    let requests = request_head(api, "GET", "/openapi.json", "").repeat(ANSWERS);
    socket.send(requests.as_bytes()).await?;
    let limit = CLOSED_WITHIN + FILLING;
    let patience = Patience::of(limit);
    while !patience.is_over() && !socket.was_reset() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let end = patience.elapsed().min(limit);
    let taken = socket.read_to_close(Duration::from_secs(3)).await?;
    let answers = String::from_utf8_lossy(&taken).matches("HTTP/1.1 200 OK").count();
    ensure!(answers < ANSWERS, "all {answers} answers were kept for a client that took none");
    Ok(end)
}

/// A client that waits for its answer in the way that is offered to it is not cut, however long it takes.
async fn long_poll(site: &Site) -> anyhow::Result<()> {
    const WAIT_S: u32 = 12;
    let (api, sim) = (site.client(), site.sim());
    // The debit's answer takes longer than the wait, and the services' limit for it is longer still.
    sim.fault(json!({ "calls": ["debit", "query"], "user_id": "7", "times": 1000, "fault": { "kind": "processing" } })).await?;
    let body = Payment::new(7, "patient").body();
    let patience = Patience::of(Duration::from_secs(20));
    let paid = api.pay("patient-1", &body, Some(WAIT_S)).await?;
    ensure!(paid.status == 202 && paid.status_word() == "PROCESSING", "{} {}", paid.status, paid.body);
    ensure!(patience.elapsed() >= Duration::from_secs(WAIT_S.into()), "cut after {:?}", patience.elapsed());
    sim.clear_faults().await?;
    let end = api.wait_for_end(paid.flow_id(), Duration::from_secs(20)).await?;
    ensure!(end.status_word() == "BIZ_SUCCESS", "{}", end.body);
    Ok(())
}
