//! The flow store: the one shared truth. Every write is a compare-and-swap or a guarded insert; every read comes from
//! the primary, in a statement of its own.

use async_trait::async_trait;
use chrono::{DateTime, Utc};

pub use crate::cas::{CasWrite, Change, WriteEvidence};
use crate::flow::{Flow, Lane};
use crate::ids::{
    AttemptNo, BizKey, CallerId, DownstreamName, Fingerprint, FlowId, IdempotencyKey, RefundOrderNo, Scene,
    Target, TraceId, TradeOrderNo, UserId, Version,
};
use crate::money::Money;
use crate::state::State;

/// Something read, with the database's time of the reading: the "now" of every scheduling decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen<T> {
    /// What was read.
    pub value: T,
    /// The database's clock at that moment.
    pub now: DateTime<Utc>,
}

/// Why the store did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Surely nothing was written: no connection, server stopping or read-only.
    #[error("the database is not available ({reason}); nothing was written; try again later")]
    Unavailable {
        /// What was met, without the driver's text (it may carry addresses).
        reason: &'static str,
    },
    /// A write was under way when the connection was lost: reload and look.
    #[error("the connection was lost while a write was under way; it may have happened: read the row again")]
    OutcomeUnknown,
    /// A guard trigger refused the write. A defect of the caller, or somebody else's schema.
    #[error("the database refused the write by its guard: {message}")]
    Guarded {
        /// The guard's own words.
        message: String,
    },
    /// A row holds what no version of this program writes.
    #[error("row {flow_id} is not readable: column {column} holds an unknown value; the row was left alone")]
    Corrupt {
        /// The row.
        flow_id: i64,
        /// The column.
        column: &'static str,
    },
    /// Anything else the database said. A defect, or a schema of another version.
    #[error("the database failed unexpectedly; nothing is known to be written")]
    Unexpected(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl StoreError {
    /// Whether the same call may succeed later without anything being repaired.
    pub const fn retryable(&self) -> bool {
        match self {
            StoreError::Unavailable { .. } | StoreError::OutcomeUnknown => true,
            StoreError::Guarded { .. } | StoreError::Corrupt { .. } | StoreError::Unexpected(_) => false,
        }
    }
}

/// A row to create, in `WAIT_PAY`, together with its request key. The store gives it an id and derives its numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewFlow {
    /// What is wanted.
    pub target: Target,
    /// Ordinal within the target.
    pub attempt_no: AttemptNo,
    /// How much.
    pub money: Money,
    /// Until when effects may be started.
    pub deadline: DateTime<Utc>,
    /// Wallet that will serve it.
    pub wallet: DownstreamName,
    /// Business system that will serve it.
    pub business: DownstreamName,
    /// Opaque text for the business system.
    pub context: Option<String>,
    /// Who asks.
    pub caller: CallerId,
    /// The request's key.
    pub key: IdempotencyKey,
    /// What the key stands for.
    pub fingerprint: Fingerprint,
    /// Correlates with logs.
    pub trace_id: Option<TraceId>,
    /// How long after its creation the scanner may find it: gives the creating request time to get ahead.
    pub first_due_in_ms: u64,
}

/// Outcome of a creation.
#[allow(clippy::large_enum_variant, reason = "made once per payment and taken apart at once")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Created {
    /// The row is there.
    Inserted(Seen<Flow>),
    /// The caller has used the key before; nothing was written. Look it up.
    KeyTaken,
    /// The target has an open or successful attempt, or this attempt number; nothing was written. Look it up.
    TargetTaken,
}

/// A further key for a flow that exists already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyBinding {
    /// Who asks.
    pub caller: CallerId,
    /// The request's key.
    pub key: IdempotencyKey,
    /// What the key stands for.
    pub fingerprint: Fingerprint,
    /// The flow it stands for from now on.
    pub flow_id: FlowId,
}

/// Outcome of binding a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// The key stands for the flow from now on.
    Bound,
    /// The caller has used the key before; nothing was written. Look it up.
    KeyTaken,
}

/// What is known of a request key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestRecord {
    /// What the key was first used for.
    pub fingerprint: Fingerprint,
    /// The flow it stands for.
    pub flow: Flow,
}

/// What a creation must know before it may insert.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lookup {
    /// The key's record, if the caller has used it.
    pub request: Option<RequestRecord>,
    /// The target's latest attempt, if there is one.
    pub latest: Option<Flow>,
}

/// Outcome of a compare-and-swap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CasOutcome {
    /// Written and committed.
    Applied,
    /// The row has another state or version by now; nothing was written. Reload in a new statement.
    Lost,
}

/// One line of the audit log, as written by the database together with the row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowEvent {
    /// The flow.
    pub flow_id: FlowId,
    /// The version that the write produced.
    pub version: Version,
    /// State before; `None` for the creation.
    pub from: Option<State>,
    /// State after.
    pub to: State,
    /// `CREATED`, `STATE`, `RESCHEDULE`, `HOLD`, `RELEASE` or `CANCEL`.
    pub kind: String,
    /// Which entrance; `BY_HAND` for a write that no program made.
    pub trigger: String,
    /// The downstream action that it followed from.
    pub action: Option<String>,
    /// The class of its answer.
    pub outcome: Option<String>,
    /// The reason code that was kept on the row.
    pub error_code: Option<String>,
    /// The downstream's request id.
    pub request_id: Option<String>,
    /// How long the call took, in milliseconds.
    pub latency_ms: Option<u32>,
    /// Correlates with logs.
    pub trace_id: Option<String>,
    /// The person, where one acted; the database account for a write by hand.
    pub actor: Option<String>,
    /// When, by the database's clock.
    pub at: DateTime<Utc>,
}

/// Which flows an on-call query wants. Everything given must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FlowFilter {
    /// Created by this caller.
    pub caller: Option<CallerId>,
    /// Of this user.
    pub user_id: Option<UserId>,
    /// Of this scene.
    pub scene: Option<Scene>,
    /// Of this business goal.
    pub biz_key: Option<BizKey>,
    /// With this charge number.
    pub trade_order_no: Option<TradeOrderNo>,
    /// With this refund number.
    pub refund_order_no: Option<RefundOrderNo>,
    /// In this state.
    pub state: Option<State>,
    /// Not terminal.
    pub open: Option<bool>,
    /// Held, or not held.
    pub held: Option<bool>,
    /// In the present state for at least so long, in milliseconds.
    pub min_age_ms: Option<u64>,
}

/// One page, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowPage {
    /// The rows.
    pub flows: Vec<Flow>,
    /// Whether more follow; the next page starts before the last row's id.
    pub has_more: bool,
}

/// A part of the id space: the ids with `id % of == index`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ScanPage {
    /// Which part, from 0.
    pub partition: u32,
    /// Of how many, at least 1.
    pub partitions: u32,
    /// Only ids after this one; 0 at the start of a round. Lives for one round only.
    pub after_id: i64,
    /// Only rows due at this moment: the round's one "now".
    pub due_by: DateTime<Utc>,
    /// Most rows.
    pub limit_rows: u32,
}

/// The sole right to sweep one partition, held by a connection: a process that dies loses it at once.
#[async_trait]
pub trait PartitionLease: Send + Sync {
    /// Whether the right is still held; `false` once the connection is gone.
    async fn still_held(&mut self) -> bool;
    /// Gives the right back.
    async fn release(self: Box<Self>);
}

/// Open rows of one state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateSummary {
    /// The state: one of the four that are not terminal.
    pub state: State,
    /// How many rows.
    pub rows: u64,
    /// How many of them are held.
    pub held_rows: u64,
    /// How many were tried at least as often as the given threshold.
    pub attention_rows: u64,
    /// How long the oldest row has been in the state, in milliseconds.
    pub oldest_age_ms: u64,
}

/// A row that is due, as the sweep needs to know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueFlow {
    /// Which.
    pub id: FlowId,
    /// Whom its next call is for.
    pub lane: Lane,
}

/// The store. All methods may be cancelled by the caller at any point: a write that was handed over is carried out.
#[async_trait]
pub trait FlowStore: Send + Sync {
    /// The database's clock.
    async fn now(&self) -> Result<DateTime<Utc>, StoreError>;
    /// Reads one row.
    async fn load(&self, flow_id: FlowId) -> Result<Seen<Option<Flow>>, StoreError>;
    /// Reads what a creation must know.
    async fn look_up(
        &self,
        caller: &CallerId,
        key: &IdempotencyKey,
        target: &Target,
    ) -> Result<Seen<Lookup>, StoreError>;
    /// Creates a row and its request key, both or neither.
    async fn create(&self, new: NewFlow) -> Result<Created, StoreError>;
    /// Makes a further key stand for a flow.
    async fn bind_key(&self, binding: KeyBinding) -> Result<Bound, StoreError>;
    /// Writes if the row is still as expected; row and audit line commit together.
    async fn cas(&self, write: CasWrite) -> Result<CasOutcome, StoreError>;
    /// Due rows that are not terminal, by ascending id.
    async fn list_due_after(&self, page: ScanPage) -> Result<Vec<DueFlow>, StoreError>;
    /// Tries to become the only one to sweep a partition; `None` while another process does.
    async fn try_lease(
        &self,
        partition: u32,
        partitions: u32,
    ) -> Result<Option<Box<dyn PartitionLease>>, StoreError>;
    /// Counts and ages of the open rows, by state; a row tried `attention_tries` times counts for people.
    async fn summarise_open(&self, attention_tries: u32) -> Result<Vec<StateSummary>, StoreError>;
    /// Finds rows for people, newest first, before the given id.
    async fn find(
        &self,
        filter: &FlowFilter,
        before_id: Option<FlowId>,
        limit_rows: u32,
    ) -> Result<FlowPage, StoreError>;
    /// The audit log of one flow, oldest first, after the given version.
    async fn events(
        &self,
        flow_id: FlowId,
        after: Option<Version>,
        limit_rows: u32,
    ) -> Result<Vec<FlowEvent>, StoreError>;
}
