//! One life of a process: from its start to its death or stop. A process that has died does nothing any more: whatever
//! it was doing stands still at its next port for ever, and what it had sent stays sent.

use std::future::pending;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use flow_core::ports::PartitionLease;
use tokio::sync::mpsc::UnboundedSender;
use tokio_util::sync::CancellationToken;

use crate::site::Site;
use crate::time::sleep_ms;
use crate::trace::{What, Who};

/// A lease that dies with its holder's connection.
pub(crate) type HeldLease = Arc<Mutex<Option<Box<dyn PartitionLease>>>>;

/// One life of a process.
pub(crate) struct Life {
    pub(crate) site: Arc<Site>,
    pub(crate) who: Who,
    /// The process's place among all.
    pub(crate) place: u8,
    /// Told to stop.
    pub(crate) stop: CancellationToken,
    dead: AtomicBool,
    stands_until_ms: AtomicU64,
    leases: Mutex<Vec<HeldLease>>,
    deaths: UnboundedSender<Death>,
}

/// A process has died, and is to be started again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Death {
    pub(crate) place: u8,
    /// How long it stays down.
    pub(crate) down_ms: u64,
}

impl Life {
    pub(crate) fn new(site: &Arc<Site>, who: Who, place: u8, deaths: UnboundedSender<Death>) -> Arc<Life> {
        Arc::new(Life {
            site: Arc::clone(site),
            who,
            place,
            stop: CancellationToken::new(),
            dead: AtomicBool::new(false),
            stands_until_ms: AtomicU64::new(0),
            leases: Mutex::default(),
            deaths,
        })
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    /// Dies. Its database connections break, and the leases with them.
    pub(crate) fn die(&self) {
        self.dead.store(true, Ordering::SeqCst);
        self.stop.cancel();
        let leases = std::mem::take(&mut *self.leases.lock().unwrap_or_else(PoisonError::into_inner));
        for lease in leases {
            drop(lease.lock().unwrap_or_else(PoisonError::into_inner).take());
        }
    }

    /// Dies, and is started again after a while. A process that is dead already is on its way back.
    pub(crate) fn crash(&self, down_ms: u64) {
        if self.is_dead() {
            return;
        }
        self.die();
        self.site.note(self.who, What::Process("dies; down for", down_ms));
        // The cast outlives every process; if it is gone, so is the run.
        let _nobody_left = self.deaths.send(Death { place: self.place, down_ms });
    }

    /// Stands still until then.
    pub(crate) fn stall_until(&self, at_ms: u64) {
        self.stands_until_ms.fetch_max(at_ms, Ordering::SeqCst);
    }

    /// Returns while the process is alive and moving; never again once it has died.
    pub(crate) async fn pass(&self) {
        loop {
            if self.is_dead() {
                pending::<()>().await;
            }
            let (until_ms, now_ms) = (self.stands_until_ms.load(Ordering::SeqCst), self.site.time.now_ms());
            if until_ms <= now_ms {
                return;
            }
            sleep_ms(until_ms - now_ms).await;
        }
    }

    /// Keeps a lease for as long as the process lives; the connection of a dead one holds nothing.
    pub(crate) fn keep(&self, lease: Box<dyn PartitionLease>) -> HeldLease {
        let held: HeldLease = Arc::new(Mutex::new(Some(lease).filter(|_| !self.is_dead())));
        let mut leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        leases.retain(|lease| lease.lock().is_ok_and(|lease| lease.is_some()));
        leases.push(Arc::clone(&held));
        held
    }
}
