//! What reconciliation keeps and reads: batches, tickets with their trail, entries that wait over a midnight; and flows, as
//! they are compared. Reads flows and never writes one.

mod batch;
mod carry;
mod ticket;

use async_trait::async_trait;
use chrono::{DateTime, NaiveDate, Utc};

pub use self::batch::{Batch, BatchBill, BatchClaim, BatchPage, ClaimPart, PartClaimed, PartEnd};
pub use self::carry::{Carry, CarryKey, CarrySide, EntryKind};
pub use self::ticket::{
    NewTicket, Opened, TicketFilter, TicketPage, TicketRecords, TicketSummary, TicketWrite, TrailLine,
};

use super::store::{CasOutcome, StoreError};
use crate::ids::{
    AttemptNo, ChannelName, DownstreamName, DownstreamRef, FlowId, OrderRef, RefundOrderNo, Target, TicketId,
    TradeOrderNo, Version,
};
use crate::money::Money;
use crate::recon::{Day, Ticket};
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
