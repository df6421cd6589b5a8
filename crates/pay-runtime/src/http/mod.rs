//! An HTTP/1.1 server that a slow, idle, silent or greedy client cannot hurt.
//!
//! [`serve`] takes any tower service (a web framework's router included) and owns everything below it: connections,
//! their limits, and their end. It knows no route.
//!
//! What bounds what:
//!
//! | client | ended by |
//! |---|---|
//! | connects and never sends a byte; sends its header slowly; keeps an answered connection idle | `header_read_timeout_ms` |
//! | sends its body slowly, or stops | `body_read_timeout_ms`, from the first read of the body |
//! | does not read its answer | `write_timeout_ms` |
//! | sends more or larger headers | `max_headers`, `max_header_bytes` (answered 431) |
//! | one connection too many | answered 503 and closed at once, never queued |
//!
//! A handler that is thinking is bounded by none of these: a long poll is the handler's own matter.

use flow_config::{ApiConfig, ReconConfig, ScannerConfig};

mod body;
mod connection;
mod ops;
mod server;
mod service;
mod stream;

pub use body::{BodyError, RequestBody};
pub use ops::{OpsService, Readiness};
pub use server::{Drained, bind, serve, serve_until};
pub use service::HttpService;

/// What one server allows its clients. Every field is a bound; none may be zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpLimits {
    /// Most connections at once; the next one is answered 503 and closed.
    pub max_connections: usize,
    /// Longest time for a request's header, in milliseconds: counted from the connection's start or from the end of
    /// the previous answer, so it also ends idle and silent connections.
    pub header_read_timeout_ms: u64,
    /// Longest time for a request's body, in milliseconds, counted from its first read.
    pub body_read_timeout_ms: u64,
    /// Longest time for a client to take an answer that does not fit the socket's buffer, in milliseconds.
    pub write_timeout_ms: u64,
    /// Longest time to go on reading after the last answer, in milliseconds, so that a client that is still sending
    /// sees the answer instead of a reset.
    pub linger_ms: u64,
    /// Most bytes of request line and headers together.
    pub max_header_bytes: usize,
    /// Most header fields.
    pub max_headers: usize,
    /// Longest time for open requests to finish after shutdown was asked for, in milliseconds.
    pub drain_ms: u64,
}

impl Default for HttpLimits {
    /// A client that does nothing is gone after 5 s; one that does everything as slowly as it may, before 10 s.
    fn default() -> HttpLimits {
        HttpLimits {
            max_connections: 4_096,
            header_read_timeout_ms: 5_000,
            body_read_timeout_ms: 4_500,
            write_timeout_ms: 5_000,
            linger_ms: 1_000,
            max_header_bytes: 8_192,
            max_headers: 64,
            drain_ms: 10_000,
        }
    }
}

impl From<&ApiConfig> for HttpLimits {
    fn from(config: &ApiConfig) -> HttpLimits {
        HttpLimits {
            max_connections: config.max_connections,
            header_read_timeout_ms: config.header_read_timeout_ms,
            body_read_timeout_ms: config.body_read_timeout_ms,
            write_timeout_ms: config.write_timeout_ms,
            drain_ms: config.shutdown_drain_ms,
            ..HttpLimits::default()
        }
    }
}

impl From<&ReconConfig> for HttpLimits {
    fn from(config: &ReconConfig) -> HttpLimits {
        HttpLimits { drain_ms: config.shutdown_drain_ms, ..HttpLimits::default() }
    }
}

impl From<&ScannerConfig> for HttpLimits {
    /// Health and metrics have few clients and nothing that takes long.
    fn from(config: &ScannerConfig) -> HttpLimits {
        HttpLimits {
            max_connections: 64,
            drain_ms: config.shutdown_drain_ms.min(1_000),
            ..HttpLimits::default()
        }
    }
}

/// Where a request came from; an extension of every request that [`serve`] hands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerAddr(pub std::net::SocketAddr);
