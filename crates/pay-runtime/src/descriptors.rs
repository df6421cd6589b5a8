//! File descriptors: clients must never take those that the database and the downstream systems need.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What a process asks for, where it may.
const WANTED: u64 = 65_536;

/// What is kept from clients: connections to database and downstream systems, files, the rest.
const RESERVED: u64 = 512;

/// Raises this process's limit as far as it may, up to [`WANTED`].
pub(crate) fn raise_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let possible = maximum.map_or(WANTED, |maximum| maximum.min(WANTED));
    if current.is_some_and(|current| current < possible) {
        let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(possible), maximum });
        tracing::debug!(limit = possible, raised = raised.is_ok(), "file descriptors");
    }
}

/// How many clients may be connected at once: as configured, or as many as the limit leaves room for.
pub(crate) fn seats_for_clients(configured: usize) -> usize {
    let seats = seats_within(getrlimit(Resource::Nofile).current, configured);
    if seats < configured {
        tracing::warn!(
            seats,
            configured,
            "the limit of open files leaves room for fewer clients than configured"
        );
    }
    seats
}

fn seats_within(limit: Option<u64>, configured: usize) -> usize {
    let Some(limit) = limit else { return configured };
    let left = limit.saturating_sub(RESERVED).max(limit / 2);
    configured.min(usize::try_from(left).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_get_what_is_left_and_at_most_what_is_configured() {
        assert_eq!(seats_within(None, 10_000), 10_000);
        assert_eq!(seats_within(Some(65_536), 10_000), 10_000);
        assert_eq!(seats_within(Some(4_096), 10_000), 3_584);
        assert_eq!(seats_within(Some(1_024), 10_000), 512);
        assert_eq!(seats_within(Some(64), 10_000), 32);
    }
}
