//! What reconciliation keeps and reads: batches, tickets with their trail, entries that wait over a midnight; and flows, as
//! they are compared. Reads flows and never writes one.

use async_trait::async_trait;
use chrono::{DateTime, NaiveDate, Utc};

use super::store::{CasOutcome, StoreError};
use crate::ids::{
    Actor, AttemptNo, BatchId, ChannelName, DownstreamName, DownstreamRef, FlowId, OrderRef, RefundOrderNo,
    Target, TicketId, TradeOrderNo, Version,
};
use crate::money::Money;
use crate::recon::{BatchState, Day, Finding, FindingKind, Next, Partition, Tally, Ticket, TicketState};
use crate::state::State;

/// A flow, as far as it is compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReconFlow {
    /// Primary key.
    pub id: FlowId,
    /// User, scene and business goal.
    pub target: Target,
    /// Ordinal within the target.
    pub attempt_no: AttemptNo,
    /// The charge's number.
    pub trade_order_no: TradeOrderNo,
    /// The refund's number.
    pub refund_order_no: RefundOrderNo,
    /// Where it stands.
    pub state: State,
    /// At which version it was read.
    pub version: Version,
    /// What is charged.
    pub money: Money,
    /// The wallet that serves it.
    pub wallet: DownstreamName,
    /// The business system that serves it.
    pub business: DownstreamName,
    /// The wallet's transaction that charged.
    pub wallet_pay_txn: Option<DownstreamRef>,
    /// The wallet's transaction that refunded.
    pub wallet_refund_txn: Option<DownstreamRef>,
    /// What is refunded, once that is decided, in minor units.
    pub refund_amount: Option<i64>,
    /// When the charge was confirmed to us.
    pub paid_at: Option<DateTime<Utc>>,
    /// When it ended.
    pub finished_at: Option<DateTime<Utc>>,
    /// Whether people must look at it.
    pub is_held: bool,
}

/// A page of flows that were charged on a day and have not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenFlowsPage {
    /// Of this wallet.
    pub wallet: DownstreamName,
    /// Charged on this day.
    pub day: Day,
    /// Only ids after this one; 0 at the start.
    pub after_id: i64,
    /// Most rows.
    pub limit_rows: u32,
}

/// A page of ended flows that were charged or ended on a day, by the time of their end and their id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedFlowsPage {
    /// Of this wallet.
    pub wallet: DownstreamName,
    /// Charged or ended on this day.
    pub day: Day,
    /// Ended at or after this moment.
    pub ended_from: DateTime<Utc>,
    /// Of those that ended in that very moment, only ids after this one.
    pub after_id: i64,
    /// Ended before this moment.
    pub ended_until: DateTime<Utc>,
    /// Most rows.
    pub limit_rows: u32,
}

/// The wish to work on a part of a day's batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimPart {
    /// The channel.
    pub channel: ChannelName,
    /// The business day.
    pub day: NaiveDate,
    /// Which part.
    pub partition: Partition,
    /// How long nobody else may, in milliseconds, unless it is kept.
    pub claim_ms: u64,
}

/// The sole right to work on a part of a batch, until it runs out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchClaim {
    /// The batch.
    pub batch: BatchId,
    /// Which part of it.
    pub partition: Partition,
    /// Proves the claim.
    pub token: String,
}

/// Outcome of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartClaimed {
    /// It is the claimer's.
    Granted(BatchClaim),
    /// Another process works on it.
    Running,
    /// Other processes work on the batch, split into so many parts.
    SplitOtherwise {
        /// Into how many.
        parts: u32,
    },
}

/// The bill that a batch was compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchBill {
    /// SHA-256 of the original file, in hex.
    pub sha256: String,
    /// Its size.
    pub bytes: u64,
    /// Where it came from.
    pub source: String,
}

/// What a part of a batch came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartEnd {
    /// Compared to the end.
    Done {
        /// What was counted.
        tally: Tally,
        /// With this bill.
        bill: BatchBill,
    },
    /// Not compared; no ticket was written for it.
    Failed {
        /// Why, in words, at most [`PartEnd::MAX_REASON_CHARS`] of them kept.
        reason: String,
    },
}

impl PartEnd {
    /// Longest reason that is kept, in characters.
    pub const MAX_REASON_CHARS: usize = 500;
}

/// A batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Its number.
    pub id: BatchId,
    /// The channel.
    pub channel: ChannelName,
    /// The business day.
    pub day: NaiveDate,
    /// Where it stands.
    pub state: BatchState,
    /// Into how many parts it is split.
    pub parts: u32,
    /// How many of them are done.
    pub parts_done: u32,
    /// How often parts of it were begun.
    pub runs: u64,
    /// What its parts counted.
    pub tally: Tally,
    /// The bill.
    pub bill: Option<BatchBill>,
    /// Why it failed.
    pub reason: Option<String>,
    /// When the last run began.
    pub started_at: Option<DateTime<Utc>>,
    /// When it ended.
    pub finished_at: Option<DateTime<Utc>>,
}

/// Which batches people want, newest day first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BatchPage {
    /// Of this channel.
    pub channel: Option<ChannelName>,
    /// Only days before this one.
    pub before: Option<NaiveDate>,
    /// Most rows.
    pub limit_rows: u32,
}

/// Both sides' records, as JSON.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TicketRecords {
    /// Ours.
    pub local: Option<String>,
    /// The bill's.
    pub bill: Option<String>,
}

impl TicketRecords {
    /// Longest record of either side, in bytes.
    pub const MAX_BYTES: usize = 1_048_576;
}

/// A ticket to open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTicket {
    /// The channel.
    pub channel: ChannelName,
    /// The order.
    pub order_no: OrderRef,
    /// The flow, where there is one.
    pub flow_id: Option<FlowId>,
    /// What was found, at least one.
    pub findings: Vec<Finding>,
    /// Both sides.
    pub records: TicketRecords,
    /// Who opens it.
    pub actor: Actor,
}

/// Outcome of opening a ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opened {
    /// It is there, at version 0.
    Opened,
    /// The order has one; nothing was written. Load it.
    Exists,
}

/// A write to a ticket, if it is still at the given version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TicketWrite {
    /// Which.
    pub id: TicketId,
    /// The version that was read.
    pub version: Version,
    /// What it becomes.
    pub next: Next,
    /// The flow, where one became known.
    pub flow_id: Option<FlowId>,
    /// Both sides, where they were compared anew; `None` leaves what is there.
    pub records: TicketRecords,
    /// Who writes.
    pub actor: Actor,
}

/// One line of a ticket's trail, written by the database together with the ticket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrailLine {
    /// The version that the write produced.
    pub version: Version,
    /// What it was: a [`crate::recon::TrailKind`], or `BY_HAND`.
    pub kind: String,
    /// State before; `None` for the opening.
    pub from: Option<TicketState>,
    /// State after.
    pub to: TicketState,
    /// The kinds of difference after it, separated by commas.
    pub kinds: String,
    /// Who.
    pub actor: String,
    /// Why.
    pub note: Option<String>,
    /// When, by the database's clock.
    pub at: DateTime<Utc>,
}

/// Which tickets people want. Everything given must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TicketFilter {
    /// This very one.
    pub id: Option<TicketId>,
    /// Of this channel.
    pub channel: Option<ChannelName>,
    /// Of this order.
    pub order_no: Option<OrderRef>,
    /// In this state.
    pub state: Option<TicketState>,
    /// Still to be looked at.
    pub open: Option<bool>,
    /// With such a difference.
    pub kind: Option<FindingKind>,
    /// Given to this person.
    pub assigned_to: Option<Actor>,
}

/// One page, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TicketPage {
    /// The tickets.
    pub tickets: Vec<Ticket>,
    /// Whether more follow; the next page starts before the last one's id.
    pub has_more: bool,
}

/// Open tickets of one channel in one currency.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TicketSummary {
    /// The channel.
    pub channel: ChannelName,
    /// The currency of what is in question.
    pub currency: String,
    /// How many.
    pub tickets: u64,
    /// How much is in question, in minor units.
    pub stake_minor: u64,
    /// Age of the oldest, in milliseconds.
    pub oldest_age_ms: u64,
}

/// A payment or a refund.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EntryKind {
    /// A charge.
    Payment,
    /// A refund.
    Refund,
}

impl EntryKind {
    /// Both.
    pub const ALL: [EntryKind; 2] = [EntryKind::Payment, EntryKind::Refund];

    /// The spelling used in the database and in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            EntryKind::Payment => "PAYMENT",
            EntryKind::Refund => "REFUND",
        }
    }

    /// Reads the spelling of [`EntryKind::as_str`].
    pub fn parse(text: &str) -> Option<EntryKind> {
        EntryKind::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

/// Which side an entry that waits is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CarrySide {
    /// Ours: the bill has no counterpart yet.
    Local,
    /// The bill's: our counterpart belongs to another day, or there is none yet.
    Bill,
}

impl CarrySide {
    /// Both.
    pub const ALL: [CarrySide; 2] = [CarrySide::Local, CarrySide::Bill];

    /// The spelling used in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            CarrySide::Local => "LOCAL",
            CarrySide::Bill => "BILL",
        }
    }

    /// Reads the spelling of [`CarrySide::as_str`].
    pub fn parse(text: &str) -> Option<CarrySide> {
        CarrySide::ALL.into_iter().find(|side| side.as_str() == text)
    }
}

/// Identity of an entry that waits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CarryKey {
    /// The order, that is the payment's number.
    pub order_no: OrderRef,
    /// Which side.
    pub side: CarrySide,
    /// Payment or refund.
    pub kind: EntryKind,
    /// The entry's own number.
    pub entry_no: OrderRef,
}

/// An entry of one day that waits for the batch of another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Carry {
    /// The channel.
    pub channel: ChannelName,
    /// The day that lets it wait.
    pub day: NaiveDate,
    /// Which entry.
    pub key: CarryKey,
    /// The day it waits for.
    pub waits_for: NaiveDate,
    /// The record, as JSON.
    pub record: String,
}

/// What reconciliation keeps. All methods may be cancelled by the caller at any point: a write that was begun is carried out.
#[async_trait]
pub trait ReconStore: Send + Sync {
    /// Makes the batch of the day if there is none, and claims a part of it: anew if it was done or had failed.
    async fn claim_part(&self, want: &ClaimPart) -> Result<PartClaimed, StoreError>;
    /// Moves the end of a claim ahead. `Lost`: it ran out, and somebody else has it.
    async fn keep_part(&self, claim: &BatchClaim, claim_ms: u64) -> Result<CasOutcome, StoreError>;
    /// Writes what a part came to, and ends the claim. The batch is done when all of its parts are.
    async fn end_part(&self, claim: &BatchClaim, end: &PartEnd) -> Result<CasOutcome, StoreError>;
    /// One day's batch.
    async fn batch(&self, channel: &ChannelName, day: NaiveDate) -> Result<Option<Batch>, StoreError>;
    /// Batches for people.
    async fn batches(&self, page: &BatchPage) -> Result<Vec<Batch>, StoreError>;

    /// Flows that were charged on a day and have not ended, by id.
    async fn open_flows(&self, page: &OpenFlowsPage) -> Result<Vec<ReconFlow>, StoreError>;
    /// Ended flows that were charged or ended on a day, by the time of their end and their id.
    async fn ended_flows(&self, page: &EndedFlowsPage) -> Result<Vec<ReconFlow>, StoreError>;
    /// The flows with these charge numbers, in no order; numbers without a flow are left out.
    async fn flows_by_number(&self, numbers: &[TradeOrderNo]) -> Result<Vec<ReconFlow>, StoreError>;
    /// Every attempt at a target, oldest first, at most so many.
    async fn target_flows(&self, target: &Target, limit_rows: u32) -> Result<Vec<ReconFlow>, StoreError>;

    /// Orders whose ticket has differences now, by ascending number after the given one.
    async fn current_tickets(
        &self,
        channel: &ChannelName,
        after: Option<&OrderRef>,
        limit_rows: u32,
    ) -> Result<Vec<OrderRef>, StoreError>;
    /// The ticket of an order.
    async fn order_ticket(
        &self,
        channel: &ChannelName,
        order_no: &OrderRef,
    ) -> Result<Option<Ticket>, StoreError>;
    /// Opens a ticket, unless the order has one.
    async fn open_ticket(&self, new: &NewTicket) -> Result<Opened, StoreError>;
    /// Writes a ticket if it is still as expected; ticket and trail commit together.
    async fn write_ticket(&self, write: &TicketWrite) -> Result<CasOutcome, StoreError>;
    /// Finds tickets for people, newest first, before the given id.
    async fn find_tickets(
        &self,
        filter: &TicketFilter,
        before: Option<TicketId>,
        limit_rows: u32,
    ) -> Result<TicketPage, StoreError>;
    /// The trail of a ticket, oldest first, after the given version.
    async fn ticket_trail(
        &self,
        id: TicketId,
        after: Option<Version>,
        limit_rows: u32,
    ) -> Result<Vec<TrailLine>, StoreError>;
    /// Open tickets, by channel and currency.
    async fn summarise_tickets(&self) -> Result<Vec<TicketSummary>, StoreError>;

    /// Lets an entry wait; one that waits already is replaced.
    async fn put_carry(&self, carry: &Carry) -> Result<(), StoreError>;
    /// Takes an entry out that a day let wait.
    async fn take_carry(
        &self,
        channel: &ChannelName,
        day: NaiveDate,
        key: &CarryKey,
    ) -> Result<(), StoreError>;
    /// What waits for a day, by key after the given day and key.
    async fn carries_for(
        &self,
        channel: &ChannelName,
        waits_for: NaiveDate,
        after: Option<(NaiveDate, &CarryKey)>,
        limit_rows: u32,
    ) -> Result<Vec<Carry>, StoreError>;
    /// What a day lets wait, by key after the given one.
    async fn carries_of(
        &self,
        channel: &ChannelName,
        day: NaiveDate,
        after: Option<&CarryKey>,
        limit_rows: u32,
    ) -> Result<Vec<Carry>, StoreError>;
}
