//! One accepted connection, from its first byte to its last.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use super::stream::BoundedStream;
use super::{HttpLimits, HttpService, PeerAddr, RequestBody};

/// When a connection must think of its end.
#[derive(Debug, Clone)]
pub(super) struct Ends {
    /// Finish the request under way, take no other.
    pub(super) shutdown: CancellationToken,
    /// Stop now.
    pub(super) cut: CancellationToken,
}

/// The protocol settings that every connection of a server shares.
pub(super) fn protocol(limits: &HttpLimits) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_millis(limits.header_read_timeout_ms))
        .keep_alive(true)
        .max_headers(limits.max_headers)
        .max_header_size(limits.max_header_bytes);
    builder
}

/// Serves one connection to its end. A failure here is the client's (it went away, it was too slow, it spoke no
/// HTTP): it is logged at debug level and concerns nobody else.
pub(super) async fn run<S: HttpService>(
    stream: TcpStream,
    peer: SocketAddr,
    service: S,
    protocol: &http1::Builder,
    limits: &HttpLimits,
    ends: Ends,
) {
    let io = TokioIo::new(BoundedStream::new(stream, limits.write_timeout_ms, limits.linger_ms));
    let body_read_timeout_ms = limits.body_read_timeout_ms;
    let answer = service_fn(move |request: Request<Incoming>| {
        let mut request = request.map(|incoming| RequestBody::new(incoming, body_read_timeout_ms));
        request.extensions_mut().insert(PeerAddr(peer));
        let body_end = request.body().end();
        let answering = service.clone().answer(request);
        async move {
            let mut response = answering.await?;
            // The rest of the body stands in the way of the next request, so this connection takes none: the client
            // must not learn that from a request that breaks off.
            if !body_end.was_reached() {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, Infallible>(response)
        }
    });
    let mut connection = pin!(protocol.serve_connection(io, answer));
    let mut shutting_down = false;
    loop {
        tokio::select! {
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%peer, %error, "connection ended");
                }
                return;
            }
            () = ends.shutdown.cancelled(), if !shutting_down => {
                shutting_down = true;
                connection.as_mut().graceful_shutdown();
            }
            () = ends.cut.cancelled() => return,
        }
    }
}
