//! Listeners and connections. hyper is driven directly: a call whose answer a fault withholds ends its connection.
//!
//! One port serves everything. Each system may also have a port of its own, which an outage really closes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service as _;

use super::disturb::Severed;
use crate::faults::System;
use crate::journal::JournalError;
use crate::sim::{Durability, Sim, now_ms};

/// Connections served at once, per port; more wait in the backlog.
const MAX_CONNECTIONS: usize = 4_096;
/// A client that sends no (further) request head for so long is closed.
const IDLE_LIMIT: Duration = Duration::from_secs(60);
/// Requests under way get so long at a graceful stop.
const DRAIN_LIMIT: Duration = Duration::from_secs(5);
/// Pause after a failed accept or bind (no file descriptors left, say).
const RETRY_PAUSE: Duration = Duration::from_millis(100);
const BACKLOG: u32 = 1_024;
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const MAX_REQUEST_ID_BYTES: usize = 128;

/// How to start.
#[derive(Clone, Debug)]
pub struct Options {
    /// The port of everything; port 0 takes a free one.
    pub listen: SocketAddr,
    /// A port for the wallet alone, closed during a `refused` outage.
    pub wallet_listen: Option<SocketAddr>,
    /// A port for the business system alone, closed during a `refused` outage.
    pub business_listen: Option<SocketAddr>,
    /// Where the journal is.
    pub durability: Durability,
    /// What every call waits before anything happens.
    pub latency: Duration,
}

/// Why it did not start. Nothing is listening then.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The port can't be had.
    #[error("can not listen on {addr}: {source}; is it taken?")]
    Listen {
        /// The address.
        addr: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// The journal can't be had.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// A simulator that is listening.
#[derive(Debug)]
pub struct Running {
    /// The port of everything.
    pub addr: SocketAddr,
    /// The wallet's own port.
    pub wallet_addr: Option<SocketAddr>,
    /// The business system's own port.
    pub business_addr: Option<SocketAddr>,
    /// What is served, for tests in the same process.
    pub sim: Arc<Sim>,
    shutdown: CancellationToken,
    tasks: TaskTracker,
}

/// Opens the journal, listens and serves in the background.
///
/// # Errors
/// When the journal or a port can't be had.
pub async fn start(options: Options) -> Result<Running, StartError> {
    let listener = listen(options.listen).await?;
    let wallet = listen_own(options.wallet_listen).await?;
    let business = listen_own(options.business_listen).await?;
    let sim = Sim::open(&options.durability, options.latency)?;
    let (shutdown, tasks) = (CancellationToken::new(), TaskTracker::new());
    let running = Running {
        addr: local_addr(&listener, options.listen)?,
        wallet_addr: wallet.as_ref().map(|(_, addr)| *addr),
        business_addr: business.as_ref().map(|(_, addr)| *addr),
        sim: Arc::clone(&sim),
        shutdown: shutdown.clone(),
        tasks: tasks.clone(),
    };
    let front = Front::new(super::full_router(Arc::clone(&sim)), shutdown.clone(), tasks.clone());
    tasks.spawn(async move { front.accept(listener, CancellationToken::new()).await });
    for (own, system) in [(wallet, System::Wallet), (business, System::Business)] {
        let Some((listener, addr)) = own else { continue };
        let router = super::system_router(Arc::clone(&sim), system);
        let front = Front::new(router, shutdown.clone(), tasks.clone());
        tasks.spawn(serve_between_outages(front, listener, addr, Arc::clone(&sim), system));
    }
    tasks.close();
    Ok(running)
}

impl Running {
    /// Takes no new connections, lets requests under way finish within a bound, and returns.
    pub async fn stop(self) {
        self.shutdown.cancel();
        self.tasks.wait().await;
    }
}

async fn listen(addr: SocketAddr) -> Result<TcpListener, StartError> {
    TcpListener::bind(addr).await.map_err(|source| StartError::Listen { addr, source })
}

async fn listen_own(addr: Option<SocketAddr>) -> Result<Option<(TcpListener, SocketAddr)>, StartError> {
    let Some(addr) = addr else { return Ok(None) };
    let listener = listen(addr).await?;
    let addr = local_addr(&listener, addr)?;
    Ok(Some((listener, addr)))
}

fn local_addr(listener: &TcpListener, asked: SocketAddr) -> Result<SocketAddr, StartError> {
    listener.local_addr().map_err(|source| StartError::Listen { addr: asked, source })
}

/// Serves a system's own port, and closes it while an outage refuses connections.
async fn serve_between_outages(
    front: Front,
    first: TcpListener,
    addr: SocketAddr,
    sim: Arc<Sim>,
    system: System,
) {
    let mut listener = first;
    loop {
        let outage = CancellationToken::new();
        tokio::select! {
            () = front.accept(listener, outage.clone()) => return,
            () = until_port(&sim, system, Port::Closed) => outage.cancel(),
        }
        // Bound but not listening: nobody else gets the port, and whoever connects is refused.
        let placeholder = loop {
            match bind_silently(addr) {
                Ok(socket) => break socket,
                Err(error) => tracing::error!(%error, %addr, "the port is not free again yet"),
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        };
        tokio::select! {
            () = until_port(&sim, system, Port::Open) => {}
            () = front.shutdown.cancelled() => return,
        }
        listener = match placeholder.listen(BACKLOG) {
            Ok(listener) => listener,
            Err(error) => {
                tracing::error!(%error, %addr, "the port could not be opened again; it stays closed");
                return;
            }
        };
    }
}

fn bind_silently(addr: SocketAddr) -> std::io::Result<TcpSocket> {
    let socket = if addr.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    Ok(socket)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Port {
    Open,
    Closed,
}

async fn until_port(sim: &Sim, system: System, wanted: Port) {
    loop {
        let mut changed = std::pin::pin!(sim.faults_changed.notified());
        changed.as_mut().enable();
        let (closed, next_change_ms) = sim.closed_port(system);
        if closed == (wanted == Port::Closed) {
            return;
        }
        match next_change_ms {
            Some(ms) => drop(tokio::time::timeout(Duration::from_millis(ms.max(1)), changed).await),
            None => changed.await,
        }
    }
}

/// Serves the connections of one port.
#[derive(Clone)]
struct Front {
    router: Router,
    shutdown: CancellationToken,
    tasks: TaskTracker,
    slots: Arc<Semaphore>,
    ids: Arc<RequestIds>,
}

impl Front {
    fn new(router: Router, shutdown: CancellationToken, tasks: TaskTracker) -> Self {
        let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        Self { router, shutdown, tasks, slots, ids: Arc::new(RequestIds::new()) }
    }

    /// Returns at shutdown. Dropped by an outage, whose token then cuts the connections it accepted.
    async fn accept(&self, listener: TcpListener, outage: CancellationToken) {
        loop {
            let slot = Arc::clone(&self.slots).acquire_owned().await.expect("the semaphore is never closed");
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = self.shutdown.cancelled() => return,
            };
            match accepted {
                Ok((stream, _peer)) => {
                    let (front, outage) = (self.clone(), outage.clone());
                    self.tasks.spawn(async move {
                        front.serve(stream, outage).await;
                        drop(slot);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "accept failed");
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
            }
        }
    }

    async fn serve(&self, stream: TcpStream, outage: CancellationToken) {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "the connection was gone before it began");
            return;
        }
        let service = service_fn(|request| self.respond(request));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(IDLE_LIMIT)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = outage.cancelled() => return,
            () = self.shutdown.cancelled() => {
                connection.as_mut().graceful_shutdown();
                match tokio::time::timeout(DRAIN_LIMIT, connection).await {
                    Ok(ended) => ended,
                    Err(_) => return,
                }
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "connection ended");
        }
    }

    async fn respond(&self, request: Request<Incoming>) -> Result<Response<Body>, WithheldAnswer> {
        let id = self.ids.of(&request);
        let mut router = self.router.clone();
        let mut response = match router.call(request.map(Body::new)).await {
            Ok(response) => response,
            Err(never) => match never {},
        };
        if response.extensions().get::<Severed>().is_some() {
            return Err(WithheldAnswer);
        }
        response.headers_mut().insert(REQUEST_ID, id);
        Ok(response)
    }
}

/// Makes hyper close the connection without an answer.
#[derive(Debug, thiserror::Error)]
#[error("a fault withheld the answer")]
struct WithheldAnswer;

/// Request ids: the caller's, or a fresh one.
struct RequestIds {
    start_ms: i64,
    next: AtomicU64,
}

impl RequestIds {
    fn new() -> Self {
        Self { start_ms: now_ms(), next: AtomicU64::new(1) }
    }

    fn of<B>(&self, request: &Request<B>) -> HeaderValue {
        let given =
            request.headers().get(REQUEST_ID).filter(|id| (1..=MAX_REQUEST_ID_BYTES).contains(&id.len()));
        given.cloned().unwrap_or_else(|| {
            let serial = self.next.fetch_add(1, Ordering::Relaxed);
            let text = format!("sim-{:x}-{serial:x}", self.start_ms);
            HeaderValue::try_from(text).expect("hexadecimal digits and dashes are valid in a header")
        })
    }
}
