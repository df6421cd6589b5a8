//! The inbox in memory: the same answers as the database's, by the same conformance suite.

use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use flow_core::callback::NewEvent;
use flow_core::ids::{InboxId, Version};
use flow_core::ports::{
    CasOutcome, Inbox, InboxChange, InboxEvent, InboxPage, InboxState, InboxSummary, InboxWrite, Recorded,
    StoreError,
};

use crate::clock::ManualClock;

/// A stored event, with everything that is kept of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    /// What it says.
    pub event: InboxEvent,
    /// The bytes it was said in.
    pub raw: Vec<u8>,
    /// Where it stands.
    pub state: InboxState,
    /// Why, where there is something to say.
    pub note: Option<&'static str>,
    /// When it is due again, while it is open.
    pub next_try_at: DateTime<Utc>,
    /// When it came to an end.
    pub processed_at: Option<DateTime<Utc>>,
}

/// The inbox. Clones are connections to the same data.
#[derive(Debug, Clone)]
pub struct MemInbox {
    rows: Arc<Mutex<Vec<StoredEvent>>>,
    is_away: Arc<Mutex<bool>>,
    clock: ManualClock,
}

impl MemInbox {
    /// An empty inbox whose database has this clock.
    pub fn new(clock: ManualClock) -> MemInbox {
        MemInbox { rows: Arc::default(), is_away: Arc::default(), clock }
    }

    /// Every event, by id.
    pub fn events(&self) -> Vec<StoredEvent> {
        self.rows().clone()
    }

    /// While the database is away, every call fails and surely writes nothing.
    pub fn set_away(&self, is_away: bool) {
        *self.is_away.lock().expect("no holder of this lock panics") = is_away;
    }

    /// When the next open event is due; `None` if none is open.
    pub fn next_due(&self) -> Option<DateTime<Utc>> {
        let rows = self.rows();
        rows.iter().filter(|row| row.state == InboxState::New).map(|row| row.next_try_at).min()
    }

    fn rows(&self) -> MutexGuard<'_, Vec<StoredEvent>> {
        self.rows.lock().expect("no holder of this lock panics")
    }

    fn reached(&self) -> Result<MutexGuard<'_, Vec<StoredEvent>>, StoreError> {
        if *self.is_away.lock().expect("no holder of this lock panics") {
            return Err(StoreError::Unavailable { reason: "scripted" });
        }
        Ok(self.rows())
    }

    fn in_ms(&self, ms: u64) -> DateTime<Utc> {
        self.clock.now() + TimeDelta::milliseconds(i64::try_from(ms).unwrap_or(i64::MAX / 2))
    }
}

#[async_trait]
impl Inbox for MemInbox {
    async fn record(&self, event: NewEvent, claim_ms: u64) -> Result<Recorded, StoreError> {
        let mut rows = self.reached()?;
        if event.raw.len() > NewEvent::MAX_RAW_BYTES {
            return Err(StoreError::Guarded { message: "the event is longer than is kept".to_owned() });
        }
        if let Some(known) = rows.iter().find(|row| row.event.key == event.key) {
            return Ok(Recorded::Known(known.state));
        }
        let id = i64::try_from(rows.len()).unwrap_or(i64::MAX - 1) + 1;
        let stored = InboxEvent {
            id: InboxId::new(id).expect("ids count up from 1"),
            key: event.key,
            claim: event.claim,
            money: event.money,
            trace_id: event.trace_id,
            version: Version::FIRST,
            tries: 0,
            received_at: self.clock.now(),
        };
        rows.push(StoredEvent {
            event: stored.clone(),
            raw: event.raw,
            state: InboxState::New,
            note: None,
            next_try_at: self.in_ms(claim_ms),
            processed_at: None,
        });
        Ok(Recorded::Stored(stored))
    }

    async fn list_due_events(&self, page: InboxPage) -> Result<Vec<InboxEvent>, StoreError> {
        let rows = self.reached()?;
        let due = rows.iter().filter(|row| {
            row.state == InboxState::New
                && row.event.id.get() > page.after_id
                && row.next_try_at <= page.due_by
        });
        let most = usize::try_from(page.limit_rows).unwrap_or(usize::MAX);
        Ok(due.take(most).map(|row| row.event.clone()).collect())
    }

    async fn claim_event(
        &self,
        id: InboxId,
        version: Version,
        claim_ms: u64,
    ) -> Result<CasOutcome, StoreError> {
        let now = self.clock.now();
        let until = self.in_ms(claim_ms);
        let mut rows = self.reached()?;
        let Some(row) = open(&mut rows, id, version).filter(|row| row.next_try_at <= now) else {
            return Ok(CasOutcome::Lost);
        };
        row.event.version = version.next();
        row.event.tries += 1;
        row.next_try_at = until;
        Ok(CasOutcome::Applied)
    }

    async fn settle_event(&self, write: InboxWrite) -> Result<CasOutcome, StoreError> {
        let now = self.clock.now();
        let next_try_at = match write.change {
            InboxChange::TryAgain { next_in_ms, .. } => self.in_ms(next_in_ms),
            InboxChange::Processed | InboxChange::Contradicted { .. } | InboxChange::GivenUp { .. } => now,
        };
        let mut rows = self.reached()?;
        let Some(row) = open(&mut rows, write.id, write.version) else { return Ok(CasOutcome::Lost) };
        row.event.version = write.version.next();
        row.state = write.change.state();
        row.note = write.change.note();
        row.next_try_at = next_try_at;
        row.processed_at = (row.state != InboxState::New).then_some(now);
        Ok(CasOutcome::Applied)
    }

    async fn summarise_inbox(&self) -> Result<InboxSummary, StoreError> {
        let now = self.clock.now();
        let rows = self.reached()?;
        let open = || rows.iter().filter(|row| row.state == InboxState::New);
        let oldest = open().map(|row| (now - row.event.received_at).num_milliseconds()).max().unwrap_or(0);
        Ok(InboxSummary {
            open_rows: u64::try_from(open().count()).unwrap_or(u64::MAX),
            oldest_open_age_ms: u64::try_from(oldest).unwrap_or(0),
        })
    }
}

fn open(rows: &mut [StoredEvent], id: InboxId, version: Version) -> Option<&mut StoredEvent> {
    rows.iter_mut()
        .find(|row| row.event.id == id && row.event.version == version && row.state == InboxState::New)
}
