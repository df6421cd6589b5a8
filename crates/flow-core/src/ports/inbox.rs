//! The inbox: what channels said of their own accord, kept before they are answered. Nothing in it decides on a payment.

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::store::{CasOutcome, StoreError};
use crate::callback::{Claim, EventKey, NewEvent, Statement};
use crate::ids::{InboxId, TraceId, Version};
use crate::money::Money;

/// Where a stored event stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InboxState {
    /// Not done with: being worked on, or due again.
    New,
    /// The flow was looked after; the event said nothing that excludes what we know.
    Processed,
    /// It excludes what we know; it changed nothing, and people were alerted.
    Contradicted,
    /// For too long there was no such order, or no confirmation; people were alerted.
    GivenUp,
}

impl InboxState {
    /// All states.
    pub const ALL: [InboxState; 4] =
        [InboxState::New, InboxState::Processed, InboxState::Contradicted, InboxState::GivenUp];

    /// The spelling used in the database, in logs and in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            InboxState::New => "NEW",
            InboxState::Processed => "PROCESSED",
            InboxState::Contradicted => "CONTRADICTED",
            InboxState::GivenUp => "GIVEN_UP",
        }
    }

    /// Reads the spelling of [`InboxState::as_str`].
    pub fn parse(text: &str) -> Option<InboxState> {
        InboxState::ALL.into_iter().find(|state| state.as_str() == text)
    }
}

/// An open event, without its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboxEvent {
    /// Primary key.
    pub id: InboxId,
    /// Which event it is.
    pub key: EventKey,
    /// What it claims.
    pub claim: Claim,
    /// How much, where it says.
    pub money: Option<Money>,
    /// Correlates with the request that brought it.
    pub trace_id: Option<TraceId>,
    /// Grows with every claim and every write.
    pub version: Version,
    /// How often it was worked on without coming to an end.
    pub tries: u32,
    /// When it came, by the database's clock.
    pub received_at: DateTime<Utc>,
}

impl InboxEvent {
    /// What it says, to be held against a flow.
    pub fn statement(&self) -> Statement {
        Statement { event_type: self.key.event_type, claim: self.claim, money: self.money.clone() }
    }
}

/// Outcome of keeping an event.
#[allow(clippy::large_enum_variant, reason = "made once per callback and taken apart at once")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recorded {
    /// It is news, is kept, and is the recorder's to work on until its claim ends.
    Stored(InboxEvent),
    /// It was kept before; nothing was written.
    Known(InboxState),
}

/// A page of open events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InboxPage {
    /// Only ids after this one; 0 at the start of a round. Lives for one round only.
    pub after_id: i64,
    /// Only events due at this moment: the round's one "now".
    pub due_by: DateTime<Utc>,
    /// Most rows.
    pub limit_rows: u32,
}

/// What an event came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InboxChange {
    /// Done.
    Processed,
    /// It excludes what we know.
    Contradicted {
        /// In which way.
        note: &'static str,
    },
    /// Tried for too long.
    GivenUp {
        /// What was missing to the end.
        note: &'static str,
    },
    /// Due again after so many milliseconds.
    TryAgain {
        /// In milliseconds.
        next_in_ms: u64,
        /// What is missing.
        note: &'static str,
    },
}

impl InboxChange {
    /// The state that it leads to.
    pub const fn state(self) -> InboxState {
        match self {
            InboxChange::Processed => InboxState::Processed,
            InboxChange::Contradicted { .. } => InboxState::Contradicted,
            InboxChange::GivenUp { .. } => InboxState::GivenUp,
            InboxChange::TryAgain { .. } => InboxState::New,
        }
    }

    /// Why, where there is something to say.
    pub const fn note(self) -> Option<&'static str> {
        match self {
            InboxChange::Processed => None,
            InboxChange::Contradicted { note }
            | InboxChange::GivenUp { note }
            | InboxChange::TryAgain { note, .. } => Some(note),
        }
    }
}

/// A compare-and-swap on an open event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InboxWrite {
    /// Which event.
    pub id: InboxId,
    /// The version it must still have.
    pub version: Version,
    /// What becomes of it.
    pub change: InboxChange,
}

/// How many events are in which state, for dashboards and alerts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InboxSummary {
    /// Open ones.
    pub open_rows: u64,
    /// Since when the oldest open one has been here, in milliseconds.
    pub oldest_open_age_ms: u64,
}

/// The inbox. All methods may be cancelled by the caller at any point: what was handed over is carried out.
#[async_trait]
pub trait Inbox: Send + Sync {
    /// Keeps an event, once. For `claim_ms` milliseconds it is the caller's to work on.
    async fn record(&self, event: NewEvent, claim_ms: u64) -> Result<Recorded, StoreError>;
    /// Open events that are due, by id.
    async fn list_due_events(&self, page: InboxPage) -> Result<Vec<InboxEvent>, StoreError>;
    /// Makes an open event that is due the caller's to work on for so long, if it still has that version; its version is
    /// the next one then.
    async fn claim_event(
        &self,
        id: InboxId,
        version: Version,
        claim_ms: u64,
    ) -> Result<CasOutcome, StoreError>;
    /// Writes what an event came to, if it is still open and has that version.
    async fn settle_event(&self, write: InboxWrite) -> Result<CasOutcome, StoreError>;
    /// Counts what is open.
    async fn summarise_inbox(&self) -> Result<InboxSummary, StoreError>;
}
