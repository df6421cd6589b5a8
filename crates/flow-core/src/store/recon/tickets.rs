//! Tickets: opened once per order, written by compare-and-swap on their version. Their trail is a trigger's.

use chrono::NaiveDateTime;
use sqlx::{MySql, QueryBuilder};

use super::{Cells, MAX_PAGE_ROWS, ReconTables, cut, json, outcome, utc};
use crate::crash::Spot;
use crate::ids::{Actor, ChannelName, FlowId, OrderRef, TicketId, Version};
use crate::ports::{
    CasOutcome, NewTicket, Opened, StoreError, TicketFilter, TicketPage, TicketRecords, TicketWrite,
};
use crate::recon::{Finding, Proposal, Stake, Ticket, TicketState, TrailKind, needs_second_person};
use crate::store::errors::{Failure, TakenKey};
use crate::store::single::NotWritten;

const TICKET: Cells = Cells("recon_ticket");
/// Longest note or reason that is kept, in characters.
const MAX_NOTE_CHARS: usize = 500;

/// The columns of a ticket.
#[derive(Debug, sqlx::FromRow)]
struct TicketRow {
    id: i64,
    channel: String,
    order_no: String,
    flow_id: Option<i64>,
    state: String,
    version: i64,
    findings: String,
    local_record: Option<String>,
    bill_records: Option<String>,
    assigned_to: Option<String>,
    proposed_state: Option<String>,
    proposed_by: Option<String>,
    proposed_reason: Option<String>,
    opened_at: NaiveDateTime,
    changed_at: NaiveDateTime,
    closed_at: Option<NaiveDateTime>,
}

impl TicketRow {
    fn read(self) -> Result<Ticket, StoreError> {
        let proposal = match (self.proposed_state, self.proposed_by, self.proposed_reason) {
            (Some(state), Some(by), Some(reason)) => Some(Proposal {
                state: TICKET.word("proposed_state", &state, TicketState::parse)?,
                by: TICKET.text("proposed_by", by, Actor::new)?,
                reason,
            }),
            (None, None, None) => None,
            (Some(_) | None, Some(_) | None, Some(_) | None) => return Err(TICKET.corrupt("proposed_state")),
        };
        let findings: Option<Vec<Finding>> = serde_json::from_str(&self.findings).ok();
        Ok(Ticket {
            id: TicketId::new(self.id).map_err(|_| TICKET.corrupt("id"))?,
            channel: TICKET.text("channel", self.channel, ChannelName::new)?,
            order_no: TICKET.text("order_no", self.order_no, OrderRef::new)?,
            flow_id: self
                .flow_id
                .map(|id| FlowId::new(id).map_err(|_| TICKET.corrupt("flow_id")))
                .transpose()?,
            state: TICKET.word("state", &self.state, TicketState::parse)?,
            version: Version(TICKET.number("version", self.version)?),
            findings: findings.ok_or_else(|| TICKET.corrupt("findings"))?,
            local_record: self.local_record,
            bill_records: self.bill_records,
            assigned_to: TICKET.text_or_none("assigned_to", self.assigned_to, Actor::new)?,
            proposal,
            opened_at: self.opened_at.and_utc(),
            changed_at: self.changed_at.and_utc(),
            closed_at: utc(self.closed_at),
        })
    }
}

/// What differences are, in the columns of a ticket.
#[derive(Debug, Clone)]
struct FindingCells {
    json: String,
    count: i32,
    kinds: String,
    moves_money: bool,
    stake: Stake,
}

impl FindingCells {
    fn of(findings: &[Finding]) -> Result<FindingCells, StoreError> {
        let mut kinds: Vec<&str> = findings.iter().map(|finding| finding.kind.as_str()).collect();
        kinds.dedup();
        let largest = findings.iter().map(|finding| &finding.stake).max_by_key(|stake| stake.amount_minor);
        let none = || Stake { amount_minor: 0, currency: String::new() };
        let stake = largest.cloned().unwrap_or_else(none);
        Ok(FindingCells {
            json: json(findings)?,
            count: i32::try_from(findings.len()).unwrap_or(i32::MAX),
            kinds: cut(&kinds.join(","), 1_000),
            moves_money: needs_second_person(findings),
            stake: Stake { currency: cut(&stake.currency, 16), ..stake },
        })
    }
}

fn bounded(record: Option<&String>) -> Result<Option<String>, StoreError> {
    match record {
        Some(text) if text.len() > TicketRecords::MAX_BYTES => {
            Err(StoreError::Guarded { message: "a ticket's record is longer than is kept".to_owned() })
        }
        Some(text) => Ok(Some(text.clone())),
        None => Ok(None),
    }
}

impl ReconTables {
    pub(super) async fn open_ticket(&self, new: &NewTicket) -> Result<Opened, StoreError> {
        let cells = FindingCells::of(&new.findings)?;
        let records = (bounded(new.records.local.as_ref())?, bounded(new.records.bill.as_ref())?);
        let new = new.clone();
        let written = self
            .writes
            .run(Spot::ReconTicketOpen, move |connection| {
                let (new, cells, (local, bill)) = (new.clone(), cells.clone(), records.clone());
                Box::pin(async move {
                    sqlx::query!(
                        "INSERT INTO recon_ticket (channel, order_no, flow_id, state, findings, finding_count, kinds, \
                           moves_money, stake_minor, stake_currency, local_record, bill_records, opened_at, changed_at, \
                           ev_kind, ev_actor) \
                         VALUES (?, ?, ?, 'OPEN', ?, ?, ?, ?, ?, ?, ?, ?, NOW(3), NOW(3), ?, ?)",
                        new.channel.as_str(),
                        new.order_no.as_str(),
                        new.flow_id.map(FlowId::get),
                        cells.json,
                        cells.count,
                        cells.kinds,
                        cells.moves_money,
                        cells.stake.amount_minor,
                        cells.stake.currency,
                        local,
                        bill,
                        TrailKind::Opened.as_str(),
                        new.actor.as_str()
                    )
                    .execute(connection)
                    .await
                    .map(|_| ())
                })
            })
            .await;
        match written {
            Ok(()) => Ok(Opened::Opened),
            Err(NotWritten::Failed(Failure::Taken(TakenKey::Ticket))) => Ok(Opened::Exists),
            Err(failed) => Err(failed.into_store_error()),
        }
    }

    pub(super) async fn write_ticket(&self, write: &TicketWrite) -> Result<CasOutcome, StoreError> {
        let cells = FindingCells::of(&write.next.findings)?;
        let records = (bounded(write.records.local.as_ref())?, bounded(write.records.bill.as_ref())?);
        let version = i64::try_from(write.version.0).unwrap_or(i64::MAX);
        let write = write.clone();
        let written = self
            .writes
            .run(Spot::ReconTicketWrite, move |connection| {
                let (write, cells, (local, bill)) = (write.clone(), cells.clone(), records.clone());
                Box::pin(async move {
                    let next = &write.next;
                    let proposal = next.proposal.as_ref();
                    sqlx::query!(
                        "UPDATE recon_ticket SET state = ?, ev_version = version + 1, version = version + 1, \
                           findings = ?, finding_count = ?, kinds = ?, moves_money = ?, stake_minor = ?, \
                           stake_currency = ?, flow_id = COALESCE(flow_id, ?), \
                           local_record = COALESCE(?, local_record), bill_records = COALESCE(?, bill_records), \
                           assigned_to = ?, proposed_state = ?, proposed_by = ?, proposed_reason = ?, \
                           confirmed_by = ?, changed_at = NOW(3), \
                           closed_at = IF(?, NULL, COALESCE(closed_at, NOW(3))), \
                           ev_kind = ?, ev_actor = ?, ev_note = ? \
                         WHERE id = ? AND version = ?",
                        next.state.as_str(),
                        cells.json,
                        cells.count,
                        cells.kinds,
                        cells.moves_money,
                        cells.stake.amount_minor,
                        cells.stake.currency,
                        write.flow_id.map(FlowId::get),
                        local,
                        bill,
                        next.assigned_to.as_ref().map(Actor::as_str),
                        proposal.map(|proposal| proposal.state.as_str()),
                        proposal.map(|proposal| proposal.by.as_str()),
                        proposal.map(|proposal| cut(&proposal.reason, MAX_NOTE_CHARS)),
                        next.confirmed_by.as_ref().map(Actor::as_str),
                        next.state.is_open(),
                        next.kind.as_str(),
                        write.actor.as_str(),
                        next.note.as_ref().map(|note| cut(note, MAX_NOTE_CHARS)),
                        write.id.get(),
                        version
                    )
                    .execute(connection)
                    .await
                    .map(|done| done.rows_affected())
                })
            })
            .await;
        outcome(written)
    }

    pub(super) async fn order_ticket(
        &self,
        channel: &ChannelName,
        order_no: &OrderRef,
    ) -> Result<Option<Ticket>, StoreError> {
        let (channel, order_no) = (channel.clone(), order_no.clone());
        let row = self
            .reader
            .run(Spot::ReconTicketLoad, move |connection| {
                let (channel, order_no) = (channel.clone(), order_no.clone());
                Box::pin(async move {
                    sqlx::query_as!(
                        TicketRow,
                        "SELECT id, channel, order_no, flow_id, state, version, findings, local_record, bill_records, \
                           assigned_to, proposed_state, proposed_by, proposed_reason, opened_at, changed_at, closed_at \
                         FROM recon_ticket WHERE channel = ? AND order_no = ?",
                        channel.as_str(),
                        order_no.as_str()
                    )
                    .fetch_optional(connection)
                    .await
                })
            })
            .await?;
        row.map(TicketRow::read).transpose()
    }

    pub(super) async fn find_tickets(
        &self,
        filter: &TicketFilter,
        before: Option<TicketId>,
        limit_rows: u32,
    ) -> Result<TicketPage, StoreError> {
        let wanted_rows = limit_rows.clamp(1, MAX_PAGE_ROWS - 1);
        let filter = filter.clone();
        let found: Vec<TicketRow> = self
            .reader
            .run(Spot::ReconTicketFind, move |connection| {
                let mut statement = find_statement(&filter, before, wanted_rows + 1);
                Box::pin(async move { statement.build_query_as().fetch_all(connection).await })
            })
            .await?;
        let wanted = usize::try_from(wanted_rows).unwrap_or(usize::MAX);
        let has_more = found.len() > wanted;
        let tickets = found.into_iter().take(wanted).map(TicketRow::read).collect::<Result<_, _>>()?;
        Ok(TicketPage { tickets, has_more })
    }
}

/// Newest first.
fn find_statement(filter: &TicketFilter, before: Option<TicketId>, limit_rows: u32) -> QueryBuilder<MySql> {
    let mut query = QueryBuilder::new(
        "SELECT id, channel, order_no, flow_id, state, version, findings, local_record, bill_records, assigned_to, \
           proposed_state, proposed_by, proposed_reason, opened_at, changed_at, closed_at FROM recon_ticket WHERE 1 = 1",
    );
    if let Some(id) = filter.id {
        query.push(" AND id = ").push_bind(id.get());
    }
    if let Some(channel) = &filter.channel {
        query.push(" AND channel = ").push_bind(channel.as_str().to_owned());
    }
    if let Some(order_no) = &filter.order_no {
        query.push(" AND order_no = ").push_bind(order_no.as_str().to_owned());
    }
    if let Some(state) = filter.state {
        query.push(" AND state = ").push_bind(state.as_str());
    }
    match filter.open {
        Some(true) => {
            query.push(" AND is_open = 1");
        }
        Some(false) => {
            query.push(" AND is_open IS NULL");
        }
        None => {}
    }
    if let Some(kind) = filter.kind {
        query.push(" AND FIND_IN_SET(").push_bind(kind.as_str()).push(", kinds)");
    }
    if let Some(person) = &filter.assigned_to {
        query.push(" AND assigned_to = ").push_bind(person.as_str().to_owned());
    }
    if let Some(before) = before {
        query.push(" AND id < ").push_bind(before.get());
    }
    query.push(" ORDER BY id DESC LIMIT ").push_bind(limit_rows);
    query
}
