//! Picks a port for a private server.
//!
//! Below the range from which the kernel takes ports for outgoing connections: while a killed server is down, a client
//! that keeps trying its port could otherwise be given that very port for its own end, connect to itself and keep the
//! server from coming back.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

use super::ServerError;

const FIRST: u16 = 20_000;
const LAST: u16 = 29_999;

/// A port of 127.0.0.1 that nobody listens on right now. Another process may still take it: the caller tries again.
pub(super) fn free_port() -> Result<u16, ServerError> {
    static PICKED: AtomicU32 = AtomicU32::new(0);
    let count = u32::from(LAST - FIRST) + 1;
    // Different processes start looking at different places.
    let start = std::process::id().wrapping_mul(131).wrapping_add(PICKED.fetch_add(1, Ordering::Relaxed));
    (0..count)
        .map(|step| FIRST + u16::try_from(start.wrapping_add(step) % count).unwrap_or(0))
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .ok_or(ServerError::NoFreePort { first: FIRST, last: LAST })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_in_use_is_passed_over() {
        let first = free_port().unwrap();
        let _held = TcpListener::bind((Ipv4Addr::LOCALHOST, first)).unwrap();
        let second = free_port().unwrap();
        assert_ne!(first, second);
        assert!((FIRST..=LAST).contains(&second));
    }
}
