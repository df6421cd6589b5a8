//! Coming in through the optional entry lock, and out again. Decides nothing: what is behind the entrance must be right
//! without it.

use crate::crash::{Spot, around};
use crate::ids::Target;
use crate::ports::{Entered, EntryLock, EntryTicket};

/// Comes in; see [`EntryLock::enter`]. Gives the ticket that [`leave`] wants, if there is one.
pub async fn enter(lock: &dyn EntryLock, target: &Target, wait_ms: u64) -> Option<EntryTicket> {
    match around!(Spot::EntryEnter, lock.enter(target, wait_ms).await) {
        Entered::First(ticket) => Some(ticket),
        Entered::Followed | Entered::Unguarded => None,
    }
}

/// Gives the ticket back, if there is one. Without it others wait until it expires, or until they have waited enough.
pub async fn leave(lock: &dyn EntryLock, ticket: Option<EntryTicket>) {
    if let Some(ticket) = ticket {
        around!(Spot::EntryLeave, lock.leave(ticket).await);
    }
}
