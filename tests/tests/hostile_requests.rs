//! Requests that are meant to hurt: too much of something, without an end, or read by one side as one and by the other as
//! two. On MySQL alone: nothing here depends on the database's kind.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::{Database, Flavor, Site, Socket, pay_politely, raise_file_limit, request_head};
use futures_util::future::join_all;
use xtask::stack::{ApiClient, Patience, Payment, Tuning};

/// The promise, as to all who do not let go.
const CLOSED_WITHIN: Duration = Duration::from_secs(10);
const END: Duration = Duration::from_secs(20);

#[test]
fn too_much_without_an_end_and_two_in_one() {
    e2e::run(Flavor::MySql, "too_much_without_an_end_and_two_in_one", 90, shapes);
}

#[test]
fn thousands_of_idle_connections_cost_a_polite_client_nothing() {
    e2e::run(Flavor::MySql, "thousands_of_idle_connections", 90, idle_connections);
}

async fn shapes(flavor: Flavor) -> anyhow::Result<()> {
    let site = Site::open(Database::shared(flavor, "shapes").await?, Tuning::default(), 1, 0).await?;
    let api = site.client();
    let before = site.database.row_counts().await?;
    oversized_headers(&api).await?;
    smuggled(&api).await?;
    tokio::try_join!(endless_bodies(&api), wrong_chunks(&api))?;
    let after = site.database.row_counts().await?;
    ensure!(before == after, "something was written: {before:?} became {after:?}");
    pipelined(&api).await?;
    site.settle(END).await?;
    site.close().await
}

/// The status of an answer; `None` for a connection that was ended without one.
fn status(answer: &str) -> anyhow::Result<Option<u16>> {
    if answer.is_empty() {
        return Ok(None);
    }
    let code =
        answer.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)).and_then(|code| code.parse().ok());
    Ok(Some(code.with_context(|| format!("no status: {answer}"))?))
}

/// Sends all of it, or as much as is taken, and reads to the end of the connection.
async fn exchange(api: &ApiClient, bytes: &[u8]) -> anyhow::Result<String> {
    let mut socket = Socket::open(api).await?;
    let _ = socket.send(bytes).await;
    Ok(String::from_utf8_lossy(&socket.read_to_close(CLOSED_WITHIN).await?).into_owned())
}

/// Many, one long one, all together, a long name, a long path: each is told so, and the next client is served.
async fn oversized_headers(api: &ApiClient) -> anyhow::Result<()> {
    let get =
        |path: &str, lines: &str| request_head(api, "GET", path, &format!("Connection: close\r\n{lines}"));
    for (what, allowed) in [
        ("many", get("/healthz", &"X-A: b\r\n".repeat(50))),
        ("a long one", get("/healthz", &format!("X-A: {}\r\n", "b".repeat(7_000)))),
        ("a long path", get(&format!("/healthz?{}", "a".repeat(7_000)), "")),
    ] {
        let answer = exchange(api, allowed.as_bytes()).await?;
        ensure!(status(&answer)? == Some(200), "{what}, still allowed: {answer}");
    }
    for (what, refused) in [
        ("many", get("/healthz", &"X-A: b\r\n".repeat(65))),
        ("very many", get("/healthz", &"a:b\r\n".repeat(200_000))),
        ("a long one", get("/healthz", &format!("X-A: {}\r\n", "b".repeat(9_000)))),
        ("a very long one", get("/healthz", &format!("X-A: {}\r\n", "b".repeat(5_000_000)))),
        ("together", get("/healthz", &format!("X-A: {}\r\n", "b".repeat(300)).repeat(40))),
        ("a long name", get("/healthz", &format!("X-{}: b\r\n", "a".repeat(70_000)))),
        ("a long path", get(&format!("/{}", "a".repeat(9_000)), "")),
        ("a long key", get("/healthz", &format!("Idempotency-Key: {}\r\n", "k".repeat(9_000)))),
    ] {
        let answer = exchange(api, refused.as_bytes()).await?;
        ensure!(matches!(status(&answer)?, Some(431 | 414)), "{what}: {answer:.300}");
        still_served(api).await.with_context(|| what.to_owned())?;
    }
    Ok(())
}

async fn still_served(api: &ApiClient) -> anyhow::Result<()> {
    let reply = api.get("/payment-flows?limit=1").await?;
    ensure!(reply.status == 200, "{} {}", reply.status, reply.body);
    Ok(())
}

/// Two lengths of one body: whichever is believed, what lies between them is never answered as a request.
async fn smuggled(api: &ApiClient) -> anyhow::Result<()> {
    let body = Payment::new(66, "smuggled").body().to_string();
    let lines = format!(
        "Idempotency-Key: smuggled\r\nContent-Type: application/json\r\nContent-Length: {}\r\n",
        body.len()
    );
    let inner = request_head(api, "POST", "/payments", &lines) + &body;
    let short = format!("0\r\n\r\n{inner}");
    let whole = short.len();
    for head in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n".to_owned(),
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n".to_owned(),
        format!("Content-Length: {whole}\r\nTransfer-Encoding: chunked\r\n"),
        format!("Transfer-Encoding: chunked\r\nContent-Length: {whole}\r\n"),
        format!("Content-Length: 0\r\nContent-Length: {whole}\r\n"),
        format!("Content-Length: 5, {whole}\r\n"),
        "Content-Length: +5\r\n".to_owned(),
        "Content-Length: 0x5\r\n".to_owned(),
        "Content-Length: 5 5\r\n".to_owned(),
        "Content-Length: -1\r\n".to_owned(),
        "Content-Length: 99999999999999999999\r\n".to_owned(),
        "Content-Length: 5\r\n 0\r\n".to_owned(),
        "Content-Length : 5\r\n".to_owned(),
        "Transfer-Encoding : chunked\r\n".to_owned(),
        "Transfer-Encoding: xchunked\r\n".to_owned(),
        "Transfer-Encoding: chunked, identity\r\n".to_owned(),
        "Transfer-Encoding: identity\r\n".to_owned(),
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n".to_owned(),
        "Transfer-Encoding:\x0bchunked\r\n".to_owned(),
        "Transfer-Encoding: \"chunked\"\r\n".to_owned(),
    ] {
        let outer = request_head(api, "POST", "/payment-flows/1/cancel", &head);
        let answer = exchange(api, (outer + &short).as_bytes()).await?;
        let answers = answer.matches("HTTP/1.1 ").count();
        ensure!(answers <= 1, "{head:?} was answered {answers} times: {answer}");
        ensure!(status(&answer)?.is_none_or(|status| (400..500).contains(&status)), "{head:?}: {answer}");
    }
    let old = format!("POST /payment-flows/1/cancel HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n{short}");
    for odd in
        [old.as_str(), "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "CONNECT api:80 HTTP/1.1\r\nHost: api\r\n\r\n"]
    {
        let answer = exchange(api, odd.as_bytes()).await?;
        let refused =
            answer.is_empty() || answer.starts_with("HTTP/1.1 4") || answer.starts_with("HTTP/1.0 4");
        ensure!(refused && answer.matches("HTTP/1.").count() <= 1, "{odd:?}: {answer}");
    }
    still_served(api).await
}

/// Bodies in chunks that never come to an end: by the byte, as fast as they go, and without ever being a body.
async fn endless_bodies(api: &ApiClient) -> anyhow::Result<()> {
    let chunk = format!("4000\r\n{}\r\n", " ".repeat(0x4000));
    let (slow, fast, extension, trailers, beginnings) = tokio::try_join!(
        endless(api, b"1\r\n \r\n".to_vec(), Duration::from_millis(200)),
        endless(api, chunk.into_bytes(), Duration::ZERO),
        endless(api, b"5;aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa".to_vec(), Duration::from_millis(1)),
        endless(api, b"0\r\nX-A: b\r\n".to_vec(), Duration::from_millis(1)),
        endless(api, b"000000000000".to_vec(), Duration::from_millis(1)),
    )?;
    ensure!(status(&slow)? == Some(408), "by the byte: {slow}");
    ensure!(status(&fast)? == Some(413), "fast: {fast}");
    for (what, answer) in [("extensions", extension), ("trailers", trailers), ("a size", beginnings)] {
        ensure!(matches!(status(&answer)?, None | Some(400 | 408 | 413 | 431)), "{what}: {answer}");
    }
    Ok(())
}

/// Sends the head of a payment, then the same bytes again and again; what is answered before the connection is ended.
async fn endless(api: &ApiClient, again: Vec<u8>, pause: Duration) -> anyhow::Result<String> {
    let mut socket = Socket::open(api).await?;
    let lines =
        "Idempotency-Key: endless\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n";
    socket.send(request_head(api, "POST", "/payments", lines).as_bytes()).await?;
    let patience = Patience::of(CLOSED_WITHIN);
    while socket.send(&again).await.is_ok() {
        ensure!(
            !patience.is_over(),
            "{:?} is still taken after {CLOSED_WITHIN:?}",
            String::from_utf8_lossy(&again[..again.len().min(20)])
        );
        tokio::time::sleep(pause).await;
    }
    Ok(String::from_utf8_lossy(&socket.read_to_close(CLOSED_WITHIN).await?).into_owned())
}

/// Chunks that are none end the request with its one refusal.
async fn wrong_chunks(api: &ApiClient) -> anyhow::Result<()> {
    let lines = "Idempotency-Key: chunks\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n";
    let head = request_head(api, "POST", "/payments", lines);
    for body in [
        "FFFFFFFFFFFFFFFFF\r\n",
        "-1\r\n\r\n",
        "5\r\nabcdefgh\r\n0\r\n\r\n",
        "zz\r\n",
        "0x5\r\nabcde\r\n0\r\n\r\n",
        " 5\r\nabcde\r\n0\r\n\r\n",
    ] {
        let answer =
            exchange(api, format!("{head}{body}GET /healthz HTTP/1.1\r\nHost: api\r\n\r\n").as_bytes())
                .await?;
        ensure!(answer.matches("HTTP/1.1 ").count() <= 1, "{body:?}: {answer}");
        ensure!(matches!(status(&answer)?, None | Some(400 | 413)), "{body:?}: {answer}");
    }
    Ok(())
}

/// Twenty requests in one breath, reads and payments mixed: all are answered, in order, each its own.
async fn pipelined(api: &ApiClient) -> anyhow::Result<()> {
    const REQUESTS: usize = 20;
    let mut bytes = String::new();
    for number in 0..REQUESTS {
        let name = format!("X-Request-Id: pipe-{number}\r\n");
        if number % 2 == 0 {
            bytes += &request_head(api, "GET", "/payment-flows?limit=1", &name);
            continue;
        }
        let body = Payment::new(70 + number as u64, "pipelined").body().to_string();
        let lines = format!(
            "{name}Idempotency-Key: pipe-{number}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n",
            body.len()
        );
        bytes += &(request_head(api, "POST", "/payments", &lines) + &body);
    }
    bytes += &request_head(api, "GET", "/healthz", "X-Request-Id: pipe-20\r\nConnection: close\r\n");
    let answer = exchange(api, bytes.as_bytes()).await?;
    let ids: Vec<&str> = answer.lines().filter_map(|line| line.strip_prefix("x-request-id: ")).collect();
    let expected: Vec<String> = (0..=REQUESTS).map(|number| format!("pipe-{number}")).collect();
    ensure!(ids == expected, "{ids:?}");
    ensure!(answer.matches("HTTP/1.1 20").count() == REQUESTS + 1, "{answer}");
    Ok(())
}

/// Connections at once, half of which never say a word.
const IDLE: usize = 2_000;
/// Longer than the time after which an idle connection is closed, so that every one is replaced at least once.
const HELD_FOR: Duration = Duration::from_secs(12);

async fn idle_connections(flavor: Flavor) -> anyhow::Result<()> {
    raise_file_limit(IDLE as u64 + 500)?;
    let site = Site::open(Database::shared(flavor, "idle").await?, Tuning::default(), 1, 0).await?;
    let api = site.client();
    let (over, here, most) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    let idle = async {
        let patience = Patience::of(HELD_FOR);
        let ends =
            join_all((0..IDLE).map(|number| idle(&api, number % 2 == 0, &patience, &here, &most))).await;
        over.store(true, Ordering::Relaxed);
        ends.into_iter().sum::<anyhow::Result<usize>>()
    };
    let (connections, ()) = tokio::try_join!(idle, pay_politely(&api, "among-the-idle", 42, &over))?;
    let most = most.into_inner();
    eprintln!("{connections} idle connections, {most} of them at once");
    ensure!(most >= IDLE * 9 / 10, "only {most} were ever there at once");
    ensure!(connections > IDLE, "none was ever closed and replaced");
    site.settle(END).await?;
    site.close().await
}

/// Holds a connection, and another one whenever it is closed, until it is over; how many it had.
async fn idle(
    api: &ApiClient,
    silent: bool,
    patience: &Patience,
    here: &AtomicUsize,
    most: &AtomicUsize,
) -> anyhow::Result<usize> {
    let mut had = 0;
    while !patience.is_over() {
        let mut socket = Socket::open(api).await?;
        if !silent {
            socket.send(request_head(api, "GET", "/healthz", "").as_bytes()).await?;
            let answer = socket.read_answer().await?;
            ensure!(status(&answer)? == Some(200), "a connection was refused: {answer}");
        }
        had += 1;
        most.fetch_max(here.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        let said = socket.read_to_close(END).await;
        here.fetch_sub(1, Ordering::Relaxed);
        let said = said?;
        ensure!(said.is_empty(), "an idle connection was told {}", String::from_utf8_lossy(&said));
    }
    Ok(had)
}
