//! Accepting connections, within bounds, until shutdown; then draining them, within bounds.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::descriptors;

use super::connection::{self, Ends};
use super::{HttpLimits, HttpService};

/// Pause after an accept that failed for want of something (descriptors, memory): trying again at once would spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Connections that may wait to be accepted; the system may allow fewer. Thousands that come at once and are not let in
/// try again only after seconds, and a polite client among them is as late as the rest.
const MAX_WAITING_CONNECTIONS: u32 = 4_096;

/// The whole answer to a connection that is one too many; written at once or not at all.
const TOO_MANY_CONNECTIONS: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
    content-type: application/problem+json\r\n\
    retry-after: 1\r\n\
    connection: close\r\n\
    content-length: 169\r\n\
    \r\n\
    {\"type\":\"about:blank\",\"title\":\"Too many connections\",\"status\":503,\"code\":\"too_many_connections\",\
    \"retryable\":true,\"detail\":\"Nothing was recorded; try again in a second.\"}";

/// How a server ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drained {
    /// Every request under way was answered.
    Complete,
    /// The time for draining was over; so many connections were cut. Whatever their requests had begun is the
    /// scanner's.
    Cut {
        /// How many.
        connections: usize,
    },
}

/// Listens on an address.
///
/// # Errors
/// The address is not this machine's, is in use, or may not be used.
pub async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A process that is started again finds its port free.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(MAX_WAITING_CONNECTIONS)
}

/// Serves until `shutdown` fires, then lets open requests finish for at most `limits.drain_ms`. The service may be an
/// axum `Router` or any other tower service.
///
/// A handler's future is dropped when its client hangs up and when draining ends: work that must not stop half way
/// belongs into a task of its own.
pub async fn serve<S: HttpService>(
    listener: TcpListener,
    service: S,
    limits: HttpLimits,
    shutdown: CancellationToken,
) -> Drained {
    let drain_ms = limits.drain_ms;
    let taken = take_connections(&listener, service, limits, shutdown).await;
    drop(listener);
    drain(taken, drain_ms).await
}

/// Serves until some work is done; gives the listener back with what came of it. For the time in which a process is
/// live but has no other service yet.
pub async fn serve_until<S: HttpService, F: Future>(
    listener: TcpListener,
    service: S,
    limits: HttpLimits,
    work: F,
) -> (TcpListener, F::Output) {
    let done = CancellationToken::new();
    let drain_ms = limits.drain_ms;
    let finish = async {
        let output = work.await;
        done.cancel();
        output
    };
    let (taken, output) = tokio::join!(take_connections(&listener, service, limits, done.clone()), finish);
    // The next service need not wait for the last clients of this one.
    tokio::spawn(drain(taken, drain_ms));
    (listener, output)
}

/// The connections that are under way when no more are taken, and the way to cut them.
struct Taken {
    connections: TaskTracker,
    cut: CancellationToken,
}

async fn take_connections<S: HttpService>(
    listener: &TcpListener,
    service: S,
    limits: HttpLimits,
    shutdown: CancellationToken,
) -> Taken {
    let protocol = Arc::new(connection::protocol(&limits));
    let limits = Arc::new(limits);
    let seats = Arc::new(Semaphore::new(descriptors::seats_for_clients(limits.max_connections)));
    let ends = Ends { shutdown: shutdown.clone(), cut: CancellationToken::new() };
    let connections = TaskTracker::new();

    while let Some((stream, peer)) = accept(listener, &shutdown).await {
        let Some(seat) = take_seat(&seats, &stream) else { continue };
        // Small answers must not wait for an acknowledgement (Nagle); a socket that refuses this is gone already.
        let _ = stream.set_nodelay(true);
        let (service, protocol, limits, ends) =
            (service.clone(), protocol.clone(), limits.clone(), ends.clone());
        connections.spawn(async move {
            connection::run(stream, peer, service, &protocol, &limits, ends).await;
            drop(seat);
        });
    }
    Taken { connections, cut: ends.cut }
}

/// The next connection; `None` once shutdown was asked for.
async fn accept(listener: &TcpListener, shutdown: &CancellationToken) -> Option<(TcpStream, SocketAddr)> {
    let mut failures: u32 = 0;
    loop {
        let accepted = tokio::select! {
            biased;
            () = shutdown.cancelled() => return None,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok(connection) => return Some(connection),
            Err(error) if concerns_one_connection(&error) => {}
            Err(error) => {
                // Said at once, then about every five seconds.
                if failures.is_multiple_of(50) {
                    tracing::error!(%error, failures, "cannot accept connections; trying again in 100 ms");
                }
                failures = failures.saturating_add(1);
                ::metrics::counter!("http_accept_errors_total").increment(1);
                tokio::select! {
                    () = shutdown.cancelled() => return None,
                    () = tokio::time::sleep(ACCEPT_PAUSE) => {}
                }
            }
        }
    }
}

/// Whether an accept failed because that one client left, so that the next accept may be made at once.
fn concerns_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}

/// A seat for the connection; without one it is told so, without ever waiting for it.
fn take_seat(seats: &Arc<Semaphore>, stream: &TcpStream) -> Option<OwnedSemaphorePermit> {
    if let Ok(seat) = seats.clone().try_acquire_owned() {
        return Some(seat);
    }
    ::metrics::counter!("http_connections_refused_total").increment(1);
    // A new socket's buffer is empty: this either fits at once or the client is gone.
    let _ = stream.try_write(TOO_MANY_CONNECTIONS);
    None
}

/// Waits for the connections to finish, then cuts the rest.
async fn drain(taken: Taken, drain_ms: u64) -> Drained {
    let Taken { connections, cut } = taken;
    connections.close();
    if tokio::time::timeout(Duration::from_millis(drain_ms), connections.wait()).await.is_ok() {
        return Drained::Complete;
    }
    let left = connections.len();
    tracing::warn!(connections = left, drain_ms, "connections did not finish in time; cutting them");
    cut.cancel();
    connections.wait().await;
    Drained::Cut { connections: left }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_refusal_is_one_whole_http_answer() {
        let text = std::str::from_utf8(TOO_MANY_CONNECTIONS).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}", body.len())), "body is {} bytes", body.len());
    }

    #[test]
    fn want_of_descriptors_pauses_and_a_lost_client_does_not() {
        let too_many_open_files = io::Error::from_raw_os_error(24);
        assert!(!concerns_one_connection(&too_many_open_files));
        assert!(concerns_one_connection(&io::Error::from(io::ErrorKind::ConnectionAborted)));
    }
}
