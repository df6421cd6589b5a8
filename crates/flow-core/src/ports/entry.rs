//! An optional lock around the synchronous entry of a payment. It spares the duplicate work of double clicks, and nothing
//! depends on it: with the lock lost, doubled or away, the database's unique keys settle every race as they always do.

use async_trait::async_trait;

use crate::ids::Target;

/// The right to be the one at the entrance, to be given back at the end of the entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryTicket {
    /// The target's place.
    pub place: String,
    /// Tells this holder from every other, ever.
    pub holder: String,
}

/// How somebody came in. Every one of them comes in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entered {
    /// As the first; others wait until the ticket is given back, or expires.
    First(EntryTicket),
    /// Behind somebody who is out again: what that one did can be seen now.
    Followed,
    /// Without regard to others: there is no lock, it does not answer, or waiting took too long.
    Unguarded,
}

/// One at a time per target, as far as it can be told cheaply.
#[async_trait]
pub trait EntryLock: Send + Sync {
    /// Comes in for this target, behind whoever is there, but waits at most `wait_ms` milliseconds for it, and less where
    /// the lock's own limit is less. Never fails.
    async fn enter(&self, target: &Target, wait_ms: u64) -> Entered;

    /// Gives the ticket back. One that has expired meanwhile takes nothing from whoever holds the place now.
    async fn leave(&self, ticket: EntryTicket);
}

/// The lock that is none: the default.
#[derive(Debug, Clone, Copy, Default)]
pub struct OpenEntrance;

#[async_trait]
impl EntryLock for OpenEntrance {
    async fn enter(&self, _: &Target, _: u64) -> Entered {
        Entered::Unguarded
    }

    async fn leave(&self, _: EntryTicket) {}
}
