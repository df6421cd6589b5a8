//! The entry lock in memory, with the expiry of a real one.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use flow_core::ids::Target;
use flow_core::ports::{Entered, EntryLock, EntryTicket};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

/// One server's places; clones share them.
#[derive(Clone)]
pub struct MemEntryLock {
    shared: Arc<Shared>,
    ttl_ms: u64,
}

#[derive(Default)]
struct Shared {
    holders: Mutex<HashMap<String, String>>,
    tickets: AtomicU64,
    freed: Notify,
}

impl MemEntryLock {
    /// Every place is free; one that is taken is free again after `ttl_ms`.
    pub fn new(ttl_ms: u64) -> MemEntryLock {
        MemEntryLock { shared: Arc::default(), ttl_ms }
    }

    /// Forgets every holder, as a server does that was restarted.
    pub fn forget(&self) {
        self.shared.holders().clear();
        self.shared.freed.notify_waiters();
    }
}

impl Shared {
    fn holders(&self) -> MutexGuard<'_, HashMap<String, String>> {
        self.holders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Frees the place if this is still its holder.
    fn free(&self, ticket: &EntryTicket) {
        let mut holders = self.holders();
        if holders.get(&ticket.place) == Some(&ticket.holder) {
            holders.remove(&ticket.place);
            drop(holders);
            self.freed.notify_waiters();
        }
    }

    /// Takes the place, if nobody has it.
    fn take(&self, ticket: &EntryTicket) -> bool {
        let mut holders = self.holders();
        let is_free = !holders.contains_key(&ticket.place);
        if is_free {
            holders.insert(ticket.place.clone(), ticket.holder.clone());
        }
        is_free
    }

    async fn until_free(&self, place: &str) {
        loop {
            let mut freed = std::pin::pin!(self.freed.notified());
            freed.as_mut().enable();
            if !self.holders().contains_key(place) {
                return;
            }
            freed.await;
        }
    }
}

#[async_trait]
impl EntryLock for MemEntryLock {
    async fn enter(&self, target: &Target, wait_ms: u64) -> Entered {
        let number = self.shared.tickets.fetch_add(1, Ordering::Relaxed);
        let place = format!("{}/{}/{}", target.user_id, target.scene, target.biz_key);
        let ticket = EntryTicket { place, holder: number.to_string() };
        if self.shared.take(&ticket) {
            let (shared, ttl, taken) =
                (Arc::clone(&self.shared), Duration::from_millis(self.ttl_ms), ticket.clone());
            tokio::spawn(async move {
                sleep(ttl).await;
                shared.free(&taken);
            });
            return Entered::First(ticket);
        }
        match timeout(Duration::from_millis(wait_ms), self.shared.until_free(&ticket.place)).await {
            Ok(()) => Entered::Followed,
            Err(_) => Entered::Unguarded,
        }
    }

    async fn leave(&self, ticket: EntryTicket) {
        self.shared.free(&ticket);
    }
}
