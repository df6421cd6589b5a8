//! The server against real sockets that misbehave: each must be gone within its limit, at nobody else's cost.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::{Request, Response, StatusCode};
use pay_runtime::http::{BodyError, Drained, HttpLimits, PeerAddr, RequestBody, bind, serve};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tower::service_fn;

/// Longer than any limit in use here, shorter than a person's patience.
const PATIENCE: Duration = Duration::from_secs(10);

const LIMIT_MS: u64 = 300;

const GET_HELLO: &[u8] = b"GET /hello HTTP/1.1\r\nhost: x\r\n\r\n";

/// A running server and the strings to pull.
struct Server {
    address: SocketAddr,
    shutdown: CancellationToken,
    /// A request for `/wait` or `/big` puts a permit here when it starts…
    waiting: Arc<Semaphore>,
    /// …and `/wait` is answered when one is put here.
    let_go: Arc<Semaphore>,
    task: JoinHandle<Drained>,
}

fn short_limits() -> HttpLimits {
    HttpLimits {
        max_connections: 64,
        header_read_timeout_ms: LIMIT_MS,
        body_read_timeout_ms: LIMIT_MS,
        write_timeout_ms: LIMIT_MS,
        linger_ms: LIMIT_MS,
        max_header_bytes: 8_192,
        max_headers: 32,
        drain_ms: 5_000,
    }
}

async fn start(limits: HttpLimits) -> Server {
    let listener = bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = CancellationToken::new();
    let (waiting, let_go) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let (started, released) = (waiting.clone(), let_go.clone());
    let service =
        service_fn(move |request: Request<RequestBody>| answer(request, started.clone(), released.clone()));
    let task = tokio::spawn(serve(listener, service, limits, shutdown.clone()));
    Server { address, shutdown, waiting, let_go, task }
}

async fn answer(
    request: Request<RequestBody>,
    waiting: Arc<Semaphore>,
    let_go: Arc<Semaphore>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    assert!(request.extensions().get::<PeerAddr>().is_some());
    let (parts, body) = request.into_parts();
    let (status, content) = match parts.uri.path() {
        "/hello" => (StatusCode::OK, Bytes::from_static(b"hello")),
        "/big" => {
            waiting.add_permits(1);
            (StatusCode::OK, Bytes::from(vec![b'x'; 32 << 20]))
        }
        "/refuse" => (StatusCode::PAYLOAD_TOO_LARGE, Bytes::from_static(b"too large")),
        "/wait" => {
            waiting.add_permits(1);
            let_go.acquire().await.unwrap().forget();
            (StatusCode::OK, Bytes::from_static(b"waited"))
        }
        _ => match body.collect().await {
            Ok(whole) => (StatusCode::OK, whole.to_bytes()),
            Err(BodyError::TimedOut { .. }) => (StatusCode::REQUEST_TIMEOUT, Bytes::from_static(b"too slow")),
            Err(BodyError::Broken(_)) => (StatusCode::BAD_REQUEST, Bytes::from_static(b"broken")),
        },
    };
    let mut response = Response::new(Full::new(content));
    *response.status_mut() = status;
    Ok(response)
}

async fn connect(server: &Server) -> TcpStream {
    TcpStream::connect(server.address).await.unwrap()
}

/// Everything the server still says before it closes. A reset counts as closing.
async fn read_to_close(stream: &mut TcpStream) -> String {
    let mut said = Vec::new();
    within(async {
        let mut chunk = [0_u8; 4_096];
        while let Ok(read @ 1..) = stream.read(&mut chunk).await {
            said.extend_from_slice(&chunk[..read]);
        }
    })
    .await;
    String::from_utf8(said).unwrap()
}

/// One answer with a short body, read from a connection that stays open.
async fn read_answer(stream: &mut TcpStream, end: &str) -> String {
    let mut said = Vec::new();
    within(async {
        while !said.ends_with(end.as_bytes()) {
            let mut byte = [0_u8; 1];
            stream.read_exact(&mut byte).await.unwrap();
            said.push(byte[0]);
        }
    })
    .await;
    String::from_utf8(said).unwrap()
}

async fn within<F: Future>(work: F) -> F::Output {
    tokio::time::timeout(PATIENCE, work).await.expect("not over in time: the limit does not work")
}

/// Runs some work and says how long it took.
#[allow(clippy::disallowed_methods, reason = "these tests are about real time")]
async fn timed<F: Future>(work: F) -> (F::Output, Duration) {
    let start = Instant::now();
    let output = work.await;
    (output, start.elapsed())
}

fn assert_about_the_limit(took: Duration) {
    let limit = Duration::from_millis(LIMIT_MS);
    assert!(took >= limit / 2, "closed after {took:?}: too early");
    assert!(took < limit * 10, "closed after {took:?}: too late");
}

#[tokio::test]
async fn a_connection_that_never_sends_a_byte_is_closed() {
    let server = start(short_limits()).await;
    let mut silent = connect(&server).await;
    let (said, took) = timed(read_to_close(&mut silent)).await;
    assert_eq!(said, "");
    assert_about_the_limit(took);
}

#[tokio::test]
async fn a_header_that_drips_is_closed() {
    let server = start(short_limits()).await;
    let (mut reading, mut writing) = connect(&server).await.into_split();
    let dripping = tokio::spawn(async move {
        let mut beats = tokio::time::interval(Duration::from_millis(LIMIT_MS / 10));
        for byte in b"GET /hello HTTP/1.1\r\nx-slow: ".iter().chain(std::iter::repeat(&b'a')) {
            beats.tick().await;
            if writing.write_all(&[*byte]).await.is_err() {
                return;
            }
        }
    });
    let (closed, took) = timed(within(async { reading.read(&mut [0_u8; 1]).await })).await;
    assert!(matches!(closed, Ok(0) | Err(_)));
    assert_about_the_limit(took);
    within(dripping).await.unwrap();
}

#[tokio::test]
async fn a_connection_that_stays_idle_after_an_answer_is_closed() {
    let server = start(short_limits()).await;
    let mut idle = connect(&server).await;
    for _ in 0..3 {
        idle.write_all(GET_HELLO).await.unwrap();
        let answer = read_answer(&mut idle, "hello").await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    let (said, took) = timed(read_to_close(&mut idle)).await;
    assert_eq!(said, "");
    assert_about_the_limit(took);
}

#[tokio::test]
async fn a_body_that_drips_is_told_so_and_closed() {
    let server = start(short_limits()).await;
    let (mut reading, mut writing) = connect(&server).await.into_split();
    writing.write_all(b"POST /body HTTP/1.1\r\nhost: x\r\ncontent-length: 100000\r\n\r\n").await.unwrap();
    let dripping = tokio::spawn(async move {
        let mut beats = tokio::time::interval(Duration::from_millis(LIMIT_MS / 20));
        while writing.write_all(b"a").await.is_ok() {
            beats.tick().await;
        }
    });
    let mut said = Vec::new();
    let (_, took) = timed(within(reading.read_to_end(&mut said))).await;
    let said = String::from_utf8(said).unwrap();
    assert!(said.starts_with("HTTP/1.1 408"), "{said}");
    assert_about_the_limit(took);
    within(dripping).await.unwrap();
}

#[tokio::test]
async fn a_body_that_stops_is_told_so_and_closed() {
    let server = start(short_limits()).await;
    let mut stopped = connect(&server).await;
    stopped.write_all(b"POST /body HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\nabc").await.unwrap();
    let (said, took) = timed(read_to_close(&mut stopped)).await;
    assert!(said.starts_with("HTTP/1.1 408"), "{said}");
    assert_about_the_limit(took);
}

#[tokio::test]
async fn a_client_that_does_not_read_its_answer_is_closed() {
    let server = start(short_limits()).await;
    let mut deaf = connect(&server).await;
    deaf.write_all(b"GET /big HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    within(server.waiting.acquire()).await.unwrap().forget();
    let ((), took) = timed(within(server_drained_of_connections(server))).await;
    assert_about_the_limit(took);
    // Only now is the client's end let go: the server did not wait for it.
    drop(deaf);
}

/// Shuts the server down and expects every connection to end by its own limit, none by the cut.
async fn server_drained_of_connections(server: Server) {
    server.shutdown.cancel();
    assert_eq!(server.task.await.unwrap(), Drained::Complete);
}

#[tokio::test]
async fn a_header_of_ten_thousand_bytes_is_answered_431_and_the_next_client_is_served() {
    let server = start(short_limits()).await;
    let mut greedy = connect(&server).await;
    let header = format!("GET /hello HTTP/1.1\r\nhost: x\r\nx-big: {}\r\n\r\n", "a".repeat(10_000));
    greedy.write_all(header.as_bytes()).await.unwrap();
    let said = read_to_close(&mut greedy).await;
    assert!(said.starts_with("HTTP/1.1 431"), "{said}");

    let mut many = connect(&server).await;
    let fields: String = (0..33).map(|number| format!("x-{number}: a\r\n")).collect();
    many.write_all(format!("GET /hello HTTP/1.1\r\n{fields}\r\n").as_bytes()).await.unwrap();
    let said = read_to_close(&mut many).await;
    assert!(said.starts_with("HTTP/1.1 431"), "{said}");

    let mut polite = connect(&server).await;
    polite.write_all(GET_HELLO).await.unwrap();
    assert!(read_answer(&mut polite, "hello").await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_client_still_sending_its_body_sees_the_refusal_not_a_reset() {
    let server = start(short_limits()).await;
    for _ in 0..20 {
        let (mut reading, mut writing) = connect(&server).await.into_split();
        let sending = tokio::spawn(async move {
            let head = "POST /refuse HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\n";
            writing.write_all(head.as_bytes()).await.unwrap();
            writing.write_all(&vec![b'a'; 1_000_000]).await.unwrap();
        });
        let mut said = Vec::new();
        within(reading.read_to_end(&mut said)).await.unwrap();
        let said = String::from_utf8(said).unwrap();
        assert!(said.starts_with("HTTP/1.1 413"));
        assert!(
            said.contains("\r\nconnection: close\r\n"),
            "the end of the connection is not announced: {said}"
        );
        within(sending).await.unwrap();
    }
}

#[tokio::test]
async fn a_connection_whose_requests_were_read_to_their_end_goes_on() {
    let server = start(short_limits()).await;
    let mut stream = connect(&server).await;
    for _ in 0..3 {
        stream.write_all(b"POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\n\r\nbody").await.unwrap();
        let said = read_answer(&mut stream, "body").await;
        assert!(said.starts_with("HTTP/1.1 200") && !said.contains("connection: close"), "{said}");
        stream.write_all(GET_HELLO).await.unwrap();
        let said = read_answer(&mut stream, "hello").await;
        assert!(said.starts_with("HTTP/1.1 200") && !said.contains("connection: close"), "{said}");
    }
}

#[tokio::test]
async fn a_long_poll_outlives_every_limit_for_clients() {
    let server = start(short_limits()).await;
    let mut patient = connect(&server).await;
    patient.write_all(b"GET /wait HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    within(server.waiting.acquire()).await.unwrap().forget();

    // The silent one's end shows that the limits' time has passed, several times over.
    for _ in 0..3 {
        assert_eq!(read_to_close(&mut connect(&server).await).await, "");
    }
    server.let_go.add_permits(1);
    let answer = read_answer(&mut patient, "waited").await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[tokio::test]
async fn idle_connections_cost_the_others_nothing_and_one_too_many_is_refused_at_once() {
    let limits = HttpLimits { max_connections: 500, header_read_timeout_ms: 8_000, ..short_limits() };
    let server = start(limits).await;
    let mut idle = Vec::new();
    for _ in 0..499 {
        idle.push(connect(&server).await);
    }
    let mut served = connect(&server).await;
    let mut took_ms = Vec::new();
    for _ in 0..200 {
        let (_, took) = timed(async {
            served.write_all(GET_HELLO).await.unwrap();
            read_answer(&mut served, "hello").await
        })
        .await;
        took_ms.push(took.as_millis());
    }
    took_ms.sort_unstable();
    assert!(took_ms[100] < 20, "median of {} ms beside idle connections", took_ms[100]);

    let (said, took) = timed(async { read_to_close(&mut connect(&server).await).await }).await;
    assert!(said.starts_with("HTTP/1.1 503"), "{said}");
    assert!(said.contains("retry-after: 1"), "{said}");
    assert!(took < Duration::from_secs(2), "refused only after {took:?}");

    // A seat is free again as soon as its connection is gone.
    drop(idle);
    within(async {
        loop {
            let mut again = connect(&server).await;
            let written = again.write_all(GET_HELLO).await;
            let mut first = [0_u8; 12];
            if written.is_ok() && again.read_exact(&mut first).await.is_ok() && &first == b"HTTP/1.1 200" {
                return;
            }
        }
    })
    .await;
}

/// A crowd that comes while the process is busy for a moment: nobody is turned away to try again in seconds.
#[tokio::test]
async fn a_crowd_is_let_in_before_anybody_is_accepted() {
    let wanted = 1_500;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < wanted * 2) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(wanted * 2), ..limit }).unwrap();
    }
    let listener = bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let address = listener.local_addr().unwrap();
    // As many as the system lets a listener have, if those are fewer.
    let allowed = std::fs::read_to_string("/proc/sys/net/core/somaxconn")
        .ok()
        .and_then(|text| text.trim().parse().ok());
    let mut crowd = Vec::new();
    for _ in 0..wanted.min(allowed.unwrap_or(wanted)) {
        // The system lets a client in, or has it wait for a second and more.
        let client = tokio::time::timeout(Duration::from_millis(900), TcpStream::connect(address)).await;
        crowd.push(client.unwrap_or_else(|_| panic!("only {} were let in", crowd.len())).unwrap());
    }
}

#[tokio::test]
async fn shutdown_answers_open_requests_and_takes_no_new_ones() {
    let server = start(short_limits()).await;
    let mut open = connect(&server).await;
    open.write_all(b"GET /wait HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    within(server.waiting.acquire()).await.unwrap().forget();
    let mut idle = connect(&server).await;
    idle.write_all(GET_HELLO).await.unwrap();
    read_answer(&mut idle, "hello").await;

    server.shutdown.cancel();
    assert_eq!(read_to_close(&mut idle).await, "", "an idle connection is closed at once");
    // Once the idle one is closed the listener is gone as well, or about to be.
    within(async { while TcpStream::connect(server.address).await.is_ok() {} }).await;

    server.let_go.add_permits(1);
    let said = read_to_close(&mut open).await;
    assert!(said.starts_with("HTTP/1.1 200") && said.ends_with("waited"), "{said}");
    assert_eq!(within(server.task).await.unwrap(), Drained::Complete);
}

#[tokio::test]
async fn shutdown_cuts_what_does_not_finish() {
    let server = start(HttpLimits { drain_ms: LIMIT_MS, ..short_limits() }).await;
    let mut open = connect(&server).await;
    open.write_all(b"GET /wait HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    within(server.waiting.acquire()).await.unwrap().forget();

    server.shutdown.cancel();
    let (drained, took) = timed(within(server.task)).await;
    assert_eq!(drained.unwrap(), Drained::Cut { connections: 1 });
    assert_about_the_limit(took);
    assert_eq!(read_to_close(&mut open).await, "");
}
