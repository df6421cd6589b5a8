//! The outbox: what applications are still to be told. A row is written together with the change that it tells of, by the
//! store's own compare-and-swap; here it is taken, settled and shown.

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::store::StoreError;
use crate::answer::Answered;
use crate::ids::{Actor, CallerId};
use crate::notify::{Delivery, DeliveryAnswer, EventId, NextStep, Notification};

/// Whether an application is told of its flows from now on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotifiedCaller {
    /// The application.
    pub caller: CallerId,
    /// Whether changes from now on are written to the outbox.
    pub is_enabled: bool,
}

/// What to take for one receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimPage {
    /// The application.
    pub caller: CallerId,
    /// Most rows, at least 1.
    pub limit_rows: u32,
    /// How long nobody else takes them, in milliseconds.
    pub claim_ms: u64,
}

/// A notification that nobody else sends until the claim ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    /// What to tell.
    pub notification: Notification,
    /// Tries so far in this series.
    pub tries: u32,
    /// Proves the claim when it is settled.
    pub claim: String,
}

/// What became of a claimed notification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settlement {
    /// Which.
    pub id: EventId,
    /// The claim under which it was sent.
    pub claim: String,
    /// The receiver's answer.
    pub answer: DeliveryAnswer,
    /// How long the attempt took, in milliseconds.
    pub latency_ms: u32,
    /// What follows.
    pub next: NextStep,
}

/// Whether a settlement was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// Row and line of the attempt are committed.
    Written,
    /// The claim has ended and somebody else has taken the row, or it was settled already; nothing was written.
    ClaimLost,
}

/// A row of the outbox, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxRow {
    /// What it tells.
    pub notification: Notification,
    /// How far it has come.
    pub delivery: Delivery,
    /// When it is due, or was last.
    pub next_attempt_at: DateTime<Utc>,
    /// Attempts so far.
    pub attempts: u32,
    /// Attempts since people last asked for it.
    pub tries: u32,
    /// Class of the last answer.
    pub last_answer: Option<String>,
    /// HTTP status of the last answer.
    pub last_http_status: Option<u16>,
    /// When the last attempt began.
    pub last_attempt_at: Option<DateTime<Utc>>,
    /// When it was delivered.
    pub delivered_at: Option<DateTime<Utc>>,
    /// When people last asked for it.
    pub resent_at: Option<DateTime<Utc>>,
    /// Who did.
    pub resent_by: Option<String>,
}

/// One attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryAttempt {
    /// Ordinal, from 1.
    pub attempt_no: u32,
    /// When it began.
    pub at: DateTime<Utc>,
    /// Class of the answer.
    pub answer: String,
    /// HTTP status, where there was one.
    pub http_status: Option<u16>,
    /// How long it took, in milliseconds.
    pub latency_ms: u32,
}

/// Which rows people want. Everything given must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutboxFilter {
    /// This very one.
    pub id: Option<EventId>,
    /// So far come.
    pub delivery: Option<Delivery>,
    /// For this application.
    pub caller: Option<CallerId>,
}

/// One page, newest flow first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxPage {
    /// The rows.
    pub rows: Vec<OutboxRow>,
    /// Whether more follow; the next page starts before the last row's id.
    pub has_more: bool,
}

/// What was asked for by hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resent {
    /// It is due now, and has a whole schedule before it.
    Queued,
    /// It is pending anyway; nothing was changed.
    Pending,
    /// There is no such notification.
    NotFound,
}

/// What is owed to one application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxSummary {
    /// The application.
    pub caller: CallerId,
    /// Rows still to be delivered.
    pub pending_rows: u64,
    /// Age of the oldest of them, in milliseconds.
    pub oldest_pending_ms: u64,
    /// Rows given up.
    pub dead_rows: u64,
}

/// The outbox. All methods may be cancelled by the caller at any point: a write that was begun is carried out.
#[async_trait]
pub trait Outbox: Send + Sync {
    /// Says who is told from now on. Applications that are not named keep what they had.
    async fn set_callers(&self, callers: &[NotifiedCaller]) -> Result<(), StoreError>;
    /// Takes what is due for one application, oldest first: no other process takes it until the claim ends.
    async fn claim_due(&self, page: ClaimPage) -> Result<Vec<Claimed>, StoreError>;
    /// Writes what became of a claimed row, with a line of the attempt, and ends the claim.
    async fn settle(&self, settlement: Settlement) -> Result<Settled, StoreError>;
    /// Makes a row due now that was delivered or given up.
    async fn resend(&self, id: EventId, by: &Actor) -> Result<Resent, StoreError>;
    /// Finds rows for people, newest flow first, before the given one.
    async fn find_notifications(
        &self,
        filter: &OutboxFilter,
        before: Option<EventId>,
        limit_rows: u32,
    ) -> Result<OutboxPage, StoreError>;
    /// The log of one row's attempts, oldest first, after the given one.
    async fn attempts(
        &self,
        id: EventId,
        after_attempt_no: u32,
        limit_rows: u32,
    ) -> Result<Vec<DeliveryAttempt>, StoreError>;
    /// What is owed, by application. One to whom nothing is owed may be missing.
    async fn summarise_outbox(&self) -> Result<Vec<OutboxSummary>, StoreError>;
}

/// Where one application is told. Sends once; repeating is the caller's decision.
#[async_trait]
pub trait Receiver: Send + Sync {
    /// Tells it, within a time limit of its own.
    async fn notify(&self, notification: &Notification) -> Answered<DeliveryAnswer>;
}
