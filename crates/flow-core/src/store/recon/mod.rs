//! What reconciliation keeps, on MySQL and MariaDB (`migrations/0007_recon.sql`): batches, tickets, entries that wait. Reads
//! go over the store's reader; writes are guarded single statements. Flows are read here as they are compared, by pages
//! over an index, and never written.

mod batches;
mod carries;
mod flows;
mod tickets;
mod trail;

use async_trait::async_trait;
use chrono::{NaiveDate, NaiveDateTime};
use serde::Serialize;

use super::MySqlStore;
use super::connect::Connector;
use super::reads::Reader;
use super::single::{NotWritten, SingleWrites};
use crate::ids::{ChannelName, IdError, OrderRef, Target, TicketId, TradeOrderNo, Version};
use crate::ports::{
    Batch, BatchClaim, BatchPage, Carry, CarryKey, CasOutcome, ClaimPart, EndedFlowsPage, NewTicket,
    OpenFlowsPage, Opened, PartClaimed, PartEnd, ReconFlow, ReconStore, StoreError, TicketFilter, TicketPage,
    TicketSummary, TicketWrite, TrailLine,
};
use crate::recon::Ticket;

/// Connections of one process for what it writes here.
const CONNECTIONS: u32 = 4;
/// Most rows of one page, whatever is asked for.
const MAX_PAGE_ROWS: u32 = 10_000;
/// Longest time ahead of a claim, in milliseconds: a year.
const MAX_CLAIM_MS: u64 = 31_536_000_000;

/// The statements.
#[derive(Debug, Clone)]
pub(super) struct ReconTables {
    reader: Reader,
    writes: SingleWrites,
}

impl ReconTables {
    pub(super) fn new(connector: &Connector, reader: Reader) -> ReconTables {
        ReconTables { reader, writes: SingleWrites::new(connector, CONNECTIONS) }
    }

    /// Closes what writes; writes under way finish first.
    pub(super) async fn close(&self) {
        self.writes.close().await;
    }
}

/// Checks values of one row of a table; remembers which, for the error.
#[derive(Clone, Copy)]
struct Cells(&'static str);

impl Cells {
    fn corrupt(self, column: &'static str) -> StoreError {
        tracing::error!(table = self.0, column, "a stored value is not readable");
        StoreError::Corrupt { flow_id: 0, column }
    }

    fn text<T>(
        self,
        column: &'static str,
        value: String,
        parse: impl FnOnce(String) -> Result<T, IdError>,
    ) -> Result<T, StoreError> {
        parse(value).map_err(|_| self.corrupt(column))
    }

    fn text_or_none<T>(
        self,
        column: &'static str,
        value: Option<String>,
        parse: impl FnOnce(String) -> Result<T, IdError>,
    ) -> Result<Option<T>, StoreError> {
        value.map(|value| self.text(column, value, parse)).transpose()
    }

    fn word<T>(
        self,
        column: &'static str,
        value: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, StoreError> {
        parse(value).ok_or_else(|| self.corrupt(column))
    }

    fn number<N: TryInto<T>, T>(self, column: &'static str, value: N) -> Result<T, StoreError> {
        value.try_into().map_err(|_| self.corrupt(column))
    }
}

fn outcome(rows: Result<u64, NotWritten>) -> Result<CasOutcome, StoreError> {
    match rows {
        Ok(0) => Ok(CasOutcome::Lost),
        Ok(_) => Ok(CasOutcome::Applied),
        Err(failed) => Err(failed.into_store_error()),
    }
}

fn json<T: Serialize + ?Sized>(value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::Unexpected(Box::new(error)))
}

/// The first characters of a text, as many as a column takes.
fn cut(text: &str, max_chars: usize) -> String {
    text.chars().take(max_chars).collect()
}

fn utc(time: Option<NaiveDateTime>) -> Option<chrono::DateTime<chrono::Utc>> {
    time.map(|time| time.and_utc())
}

#[async_trait]
impl ReconStore for MySqlStore {
    async fn claim_part(&self, want: &ClaimPart) -> Result<PartClaimed, StoreError> {
        self.recon.claim_part(want).await
    }

    async fn keep_part(&self, claim: &BatchClaim, claim_ms: u64) -> Result<CasOutcome, StoreError> {
        self.recon.keep_part(claim, claim_ms).await
    }

    async fn end_part(&self, claim: &BatchClaim, end: &PartEnd) -> Result<CasOutcome, StoreError> {
        self.recon.end_part(claim, end).await
    }

    async fn batch(&self, channel: &ChannelName, day: NaiveDate) -> Result<Option<Batch>, StoreError> {
        self.recon.batch(channel, day).await
    }

    async fn batches(&self, page: &BatchPage) -> Result<Vec<Batch>, StoreError> {
        self.recon.batches(page).await
    }

    async fn open_flows(&self, page: &OpenFlowsPage) -> Result<Vec<ReconFlow>, StoreError> {
        self.recon.open_flows(page).await
    }

    async fn ended_flows(&self, page: &EndedFlowsPage) -> Result<Vec<ReconFlow>, StoreError> {
        self.recon.ended_flows(page).await
    }

    async fn flows_by_number(&self, numbers: &[TradeOrderNo]) -> Result<Vec<ReconFlow>, StoreError> {
        self.recon.flows_by_number(numbers).await
    }

    async fn target_flows(&self, target: &Target, limit_rows: u32) -> Result<Vec<ReconFlow>, StoreError> {
        self.recon.target_flows(target, limit_rows).await
    }

    async fn current_tickets(
        &self,
        channel: &ChannelName,
        after: Option<&OrderRef>,
        limit_rows: u32,
    ) -> Result<Vec<OrderRef>, StoreError> {
        self.recon.current_tickets(channel, after, limit_rows).await
    }

    async fn order_ticket(
        &self,
        channel: &ChannelName,
        order_no: &OrderRef,
    ) -> Result<Option<Ticket>, StoreError> {
        self.recon.order_ticket(channel, order_no).await
    }

    async fn open_ticket(&self, new: &NewTicket) -> Result<Opened, StoreError> {
        self.recon.open_ticket(new).await
    }

    async fn write_ticket(&self, write: &TicketWrite) -> Result<CasOutcome, StoreError> {
        self.recon.write_ticket(write).await
    }

    async fn find_tickets(
        &self,
        filter: &TicketFilter,
        before: Option<TicketId>,
        limit_rows: u32,
    ) -> Result<TicketPage, StoreError> {
        self.recon.find_tickets(filter, before, limit_rows).await
    }

    async fn ticket_trail(
        &self,
        id: TicketId,
        after: Option<Version>,
        limit_rows: u32,
    ) -> Result<Vec<TrailLine>, StoreError> {
        self.recon.ticket_trail(id, after, limit_rows).await
    }

    async fn summarise_tickets(&self) -> Result<Vec<TicketSummary>, StoreError> {
        self.recon.summarise_tickets().await
    }

    async fn put_carry(&self, carry: &Carry) -> Result<(), StoreError> {
        self.recon.put_carry(carry).await
    }

    async fn take_carry(
        &self,
        channel: &ChannelName,
        day: NaiveDate,
        key: &CarryKey,
    ) -> Result<(), StoreError> {
        self.recon.take_carry(channel, day, key).await
    }

    async fn carries_for(
        &self,
        channel: &ChannelName,
        waits_for: NaiveDate,
        after: Option<(NaiveDate, &CarryKey)>,
        limit_rows: u32,
    ) -> Result<Vec<Carry>, StoreError> {
        self.recon.carries_for(channel, waits_for, after, limit_rows).await
    }

    async fn carries_of(
        &self,
        channel: &ChannelName,
        day: NaiveDate,
        after: Option<&CarryKey>,
        limit_rows: u32,
    ) -> Result<Vec<Carry>, StoreError> {
        self.recon.carries_of(channel, day, after, limit_rows).await
    }
}
