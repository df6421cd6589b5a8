//! What reconciliation keeps, in memory: the same answers as the database's, by the same conformance suite. Flows are those of
//! a [`MemStore`].

mod rules;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use flow_core::ids::{
    BatchId, ChannelName, DownstreamName, OrderRef, Target, TicketId, TradeOrderNo, Version,
};
use flow_core::ports::{
    Batch, BatchClaim, BatchPage, Carry, CarryKey, CasOutcome, ClaimPart, EndedFlowsPage, NewTicket,
    OpenFlowsPage, Opened, PartClaimed, PartEnd, ReconFlow, ReconStore, StoreError, TicketFilter, TicketPage,
    TicketSummary, TicketWrite, TrailLine,
};
use flow_core::recon::{BatchState, Ticket, TicketState, TrailKind};

use crate::clock::ManualClock;
use crate::mem_store::MemStore;
use rules::{MemBatch, Part, check_records, compared, guard, guarded, kinds, most};

#[derive(Debug, Default)]
struct Tables {
    batches: BTreeMap<(ChannelName, NaiveDate), MemBatch>,
    tickets: BTreeMap<TicketId, Ticket>,
    trail: BTreeMap<TicketId, Vec<TrailLine>>,
    carries: BTreeMap<(ChannelName, NaiveDate, CarryKey), Carry>,
    tokens: u64,
}

/// The store. Clones are connections to the same data.
#[derive(Debug, Clone)]
pub struct MemRecon {
    tables: Arc<Mutex<Tables>>,
    flows: MemStore,
    clock: ManualClock,
}

impl MemRecon {
    /// Nothing kept yet, over these flows and with this database's clock.
    pub fn new(flows: MemStore, clock: ManualClock) -> MemRecon {
        MemRecon { tables: Arc::default(), flows, clock }
    }

    /// Every ticket, oldest first.
    pub fn tickets(&self) -> Vec<Ticket> {
        self.lock().tickets.values().cloned().collect()
    }

    /// Every entry that waits.
    pub fn carries(&self) -> Vec<Carry> {
        self.lock().carries.values().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().expect("no holder of this lock panics")
    }

    fn ahead(&self, ms: u64) -> DateTime<Utc> {
        self.clock.now() + TimeDelta::milliseconds(i64::try_from(ms).unwrap_or(i64::MAX / 4))
    }

    fn flows_of(&self, wallet: &DownstreamName) -> impl Iterator<Item = ReconFlow> {
        let wallet = wallet.clone();
        self.flows.flows().into_iter().map(compared).filter(move |flow| flow.wallet == wallet)
    }

    /// The part that a claim is for, while it is the claim's.
    fn with_claimed<T>(&self, claim: &BatchClaim, act: impl FnOnce(&mut Part) -> T) -> Option<T> {
        let mut tables = self.lock();
        let batch = tables.batches.values_mut().find(|batch| batch.id == claim.batch)?;
        let part = batch.rows.get_mut(&(claim.partition.of(), claim.partition.index()))?;
        let owns = part.claim.as_ref().is_some_and(|(token, _)| *token == claim.token);
        owns.then(|| act(part))
    }
}

fn applied<T>(done: Option<T>) -> CasOutcome {
    if done.is_some() { CasOutcome::Applied } else { CasOutcome::Lost }
}

#[async_trait]
impl ReconStore for MemRecon {
    async fn claim_part(&self, want: &ClaimPart) -> Result<PartClaimed, StoreError> {
        let (now, until) = (self.clock.now(), self.ahead(want.claim_ms));
        let mut tables = self.lock();
        tables.tokens += 1;
        let token = format!("claim-{}", tables.tokens);
        let id = i64::try_from(tables.batches.len()).expect("a test has few batches") + 1;
        let fresh = || MemBatch {
            id: BatchId::new(id).expect("ids count up from 1"),
            parts: 1,
            rows: BTreeMap::new(),
        };
        let batch = tables.batches.entry((want.channel.clone(), want.day)).or_insert_with(fresh);
        let is_alive = |part: &Part| part.claim.as_ref().is_some_and(|(_, until)| *until > now);
        let parts = want.partition.of();
        if !batch.rows.values().any(is_alive) {
            batch.parts = parts;
        }
        if batch.parts != parts {
            return Ok(PartClaimed::SplitOtherwise { parts: batch.parts });
        }
        let part = batch.rows.entry((parts, want.partition.index())).or_insert(Part {
            state: BatchState::Pending,
            runs: 0,
            claim: None,
            started_at: None,
            finished_at: None,
            reason: None,
            done: None,
        });
        if is_alive(part) {
            return Ok(PartClaimed::Running);
        }
        part.state = BatchState::Running;
        part.runs += 1;
        part.claim = Some((token.clone(), until));
        part.started_at = Some(now);
        (part.finished_at, part.reason) = (None, None);
        Ok(PartClaimed::Granted(BatchClaim { batch: batch.id, partition: want.partition, token }))
    }

    async fn keep_part(&self, claim: &BatchClaim, claim_ms: u64) -> Result<CasOutcome, StoreError> {
        let until = self.ahead(claim_ms);
        Ok(applied(self.with_claimed(claim, |part| part.claim = Some((claim.token.clone(), until)))))
    }

    async fn end_part(&self, claim: &BatchClaim, end: &PartEnd) -> Result<CasOutcome, StoreError> {
        let now = self.clock.now();
        Ok(applied(self.with_claimed(claim, |part| {
            (part.claim, part.finished_at) = (None, Some(now));
            match end {
                PartEnd::Done { tally, bill } => {
                    part.state = BatchState::Done;
                    part.done = Some((tally.clone(), bill.clone()));
                }
                PartEnd::Failed { reason } => {
                    part.state = BatchState::Failed;
                    part.done = None;
                    part.reason = Some(reason.chars().take(PartEnd::MAX_REASON_CHARS).collect());
                }
            }
        })))
    }

    async fn batch(&self, channel: &ChannelName, day: NaiveDate) -> Result<Option<Batch>, StoreError> {
        Ok(self.lock().batches.get(&(channel.clone(), day)).map(|batch| batch.shown(channel, day)))
    }

    async fn batches(&self, page: &BatchPage) -> Result<Vec<Batch>, StoreError> {
        let tables = self.lock();
        let wanted = tables.batches.iter().filter(|((channel, day), _)| {
            page.channel.as_ref().is_none_or(|wanted| wanted == channel)
                && page.before.is_none_or(|before| *day < before)
        });
        let mut batches: Vec<Batch> =
            wanted.map(|((channel, day), batch)| batch.shown(channel, *day)).collect();
        batches.sort_by(|a, b| b.day.cmp(&a.day).then_with(|| a.channel.cmp(&b.channel)));
        batches.truncate(most(page.limit_rows));
        Ok(batches)
    }

    async fn open_flows(&self, page: &OpenFlowsPage) -> Result<Vec<ReconFlow>, StoreError> {
        let wanted = self.flows_of(&page.wallet).filter(|flow| {
            let is_paid = flow.paid_at.is_some_and(|at| page.day.contains(at));
            is_paid && !flow.state.is_terminal() && flow.id.get() > page.after_id
        });
        Ok(wanted.take(most(page.limit_rows)).collect())
    }

    async fn ended_flows(&self, page: &EndedFlowsPage) -> Result<Vec<ReconFlow>, StoreError> {
        let wanted = self.flows_of(&page.wallet).filter_map(|flow| Some((flow.finished_at?, flow)));
        let mut rows: Vec<(DateTime<Utc>, ReconFlow)> = wanted
            .filter(|(ended_at, flow)| {
                let is_after = *ended_at > page.ended_from
                    || (*ended_at == page.ended_from && flow.id.get() > page.after_id);
                let is_of_day =
                    page.day.contains(*ended_at) || flow.paid_at.is_some_and(|at| page.day.contains(at));
                is_after && *ended_at < page.ended_until && is_of_day
            })
            .collect();
        rows.sort_by_key(|(ended_at, flow)| (*ended_at, flow.id));
        rows.truncate(most(page.limit_rows));
        Ok(rows.into_iter().map(|(_, flow)| flow).collect())
    }

    async fn flows_by_number(&self, numbers: &[TradeOrderNo]) -> Result<Vec<ReconFlow>, StoreError> {
        let flows = self.flows.flows().into_iter().map(compared);
        Ok(flows.filter(|flow| numbers.contains(&flow.trade_order_no)).collect())
    }

    async fn target_flows(&self, target: &Target, limit_rows: u32) -> Result<Vec<ReconFlow>, StoreError> {
        let flows = self.flows.flows().into_iter().map(compared);
        let mut attempts: Vec<ReconFlow> = flows.filter(|flow| flow.target == *target).collect();
        attempts.sort_by_key(|flow| flow.attempt_no);
        attempts.truncate(most(limit_rows));
        Ok(attempts)
    }

    async fn current_tickets(
        &self,
        channel: &ChannelName,
        after: Option<&OrderRef>,
        limit_rows: u32,
    ) -> Result<Vec<OrderRef>, StoreError> {
        let tables = self.lock();
        let current = tables.tickets.values().filter(|ticket| {
            ticket.channel == *channel
                && !ticket.findings.is_empty()
                && after.is_none_or(|after| ticket.order_no > *after)
        });
        let mut numbers: Vec<OrderRef> = current.map(|ticket| ticket.order_no.clone()).collect();
        numbers.sort();
        numbers.truncate(most(limit_rows));
        Ok(numbers)
    }

    async fn order_ticket(
        &self,
        channel: &ChannelName,
        order_no: &OrderRef,
    ) -> Result<Option<Ticket>, StoreError> {
        let is_it = |ticket: &&Ticket| ticket.channel == *channel && ticket.order_no == *order_no;
        Ok(self.lock().tickets.values().find(is_it).cloned())
    }

    async fn open_ticket(&self, new: &NewTicket) -> Result<Opened, StoreError> {
        check_records(&new.records)?;
        let now = self.clock.now();
        let mut tables = self.lock();
        let has_one = |ticket: &Ticket| ticket.channel == new.channel && ticket.order_no == new.order_no;
        if tables.tickets.values().any(has_one) {
            return Ok(Opened::Exists);
        }
        if new.findings.is_empty() {
            return Err(guarded("a ticket is opened with a difference"));
        }
        let id = i64::try_from(tables.tickets.len()).expect("a test has few tickets") + 1;
        let ticket = Ticket {
            id: TicketId::new(id).expect("ids count up from 1"),
            channel: new.channel.clone(),
            order_no: new.order_no.clone(),
            flow_id: new.flow_id,
            state: TicketState::Open,
            version: Version::FIRST,
            findings: new.findings.clone(),
            local_record: new.records.local.clone(),
            bill_records: new.records.bill.clone(),
            assigned_to: None,
            proposal: None,
            opened_at: now,
            changed_at: now,
            closed_at: None,
        };
        let line = TrailLine {
            version: Version::FIRST,
            kind: TrailKind::Opened.as_str().to_owned(),
            from: None,
            to: TicketState::Open,
            kinds: kinds(&ticket),
            actor: new.actor.to_string(),
            note: None,
            at: now,
        };
        tables.trail.insert(ticket.id, vec![line]);
        tables.tickets.insert(ticket.id, ticket);
        Ok(Opened::Opened)
    }

    async fn write_ticket(&self, write: &TicketWrite) -> Result<CasOutcome, StoreError> {
        check_records(&write.records)?;
        let now = self.clock.now();
        let mut tables = self.lock();
        let Some(ticket) = tables.tickets.get_mut(&write.id).filter(|ticket| ticket.version == write.version)
        else {
            return Ok(CasOutcome::Lost);
        };
        guard(ticket, write)?;
        let from = ticket.state;
        let next = write.next.clone();
        ticket.state = next.state;
        ticket.version = write.version.next();
        ticket.findings = next.findings;
        ticket.flow_id = ticket.flow_id.or(write.flow_id);
        ticket.local_record = write.records.local.clone().or(ticket.local_record.take());
        ticket.bill_records = write.records.bill.clone().or(ticket.bill_records.take());
        (ticket.assigned_to, ticket.proposal) = (next.assigned_to, next.proposal);
        ticket.changed_at = now;
        ticket.closed_at = if next.state.is_open() { None } else { ticket.closed_at.or(Some(now)) };
        let line = TrailLine {
            version: ticket.version,
            kind: next.kind.as_str().to_owned(),
            from: Some(from),
            to: ticket.state,
            kinds: kinds(ticket),
            actor: write.actor.to_string(),
            note: next.note,
            at: now,
        };
        tables.trail.entry(write.id).or_default().push(line);
        Ok(CasOutcome::Applied)
    }

    async fn find_tickets(
        &self,
        filter: &TicketFilter,
        before: Option<TicketId>,
        limit_rows: u32,
    ) -> Result<TicketPage, StoreError> {
        let is_wanted = |ticket: &&Ticket| {
            filter.id.is_none_or(|id| ticket.id == id)
                && filter.channel.as_ref().is_none_or(|channel| ticket.channel == *channel)
                && filter.order_no.as_ref().is_none_or(|order_no| ticket.order_no == *order_no)
                && filter.state.is_none_or(|state| ticket.state == state)
                && filter.open.is_none_or(|open| ticket.state.is_open() == open)
                && filter.kind.is_none_or(|kind| ticket.findings.iter().any(|finding| finding.kind == kind))
                && filter
                    .assigned_to
                    .as_ref()
                    .is_none_or(|person| ticket.assigned_to.as_ref() == Some(person))
                && before.is_none_or(|before| ticket.id < before)
        };
        let tables = self.lock();
        let mut found: Vec<Ticket> = tables.tickets.values().rev().filter(is_wanted).cloned().collect();
        let has_more = found.len() > most(limit_rows);
        found.truncate(most(limit_rows));
        Ok(TicketPage { tickets: found, has_more })
    }

    async fn ticket_trail(
        &self,
        id: TicketId,
        after: Option<Version>,
        limit_rows: u32,
    ) -> Result<Vec<TrailLine>, StoreError> {
        let tables = self.lock();
        let lines = tables.trail.get(&id).into_iter().flatten();
        let wanted = lines.filter(|line| after.is_none_or(|after| line.version > after));
        Ok(wanted.take(most(limit_rows)).cloned().collect())
    }

    async fn summarise_tickets(&self) -> Result<Vec<TicketSummary>, StoreError> {
        let now = self.clock.now();
        let tables = self.lock();
        let mut sums: BTreeMap<(ChannelName, String), TicketSummary> = BTreeMap::new();
        for ticket in tables.tickets.values().filter(|ticket| ticket.state.is_open()) {
            let Some(stake) = ticket.stake() else { continue };
            let fresh = || TicketSummary {
                channel: ticket.channel.clone(),
                currency: stake.currency.clone(),
                tickets: 0,
                stake_minor: 0,
                oldest_age_ms: 0,
            };
            let sum = sums.entry((ticket.channel.clone(), stake.currency.clone())).or_insert_with(fresh);
            let age_ms = u64::try_from((now - ticket.opened_at).num_milliseconds()).unwrap_or(0);
            sum.tickets += 1;
            sum.stake_minor = sum.stake_minor.saturating_add(stake.amount_minor);
            sum.oldest_age_ms = sum.oldest_age_ms.max(age_ms);
        }
        Ok(sums.into_values().collect())
    }

    async fn put_carry(&self, carry: &Carry) -> Result<(), StoreError> {
        if carry.waits_for == carry.day {
            return Err(guarded("an entry waits for another day than its own"));
        }
        let key = (carry.channel.clone(), carry.day, carry.key.clone());
        self.lock().carries.insert(key, carry.clone());
        Ok(())
    }

    async fn take_carry(
        &self,
        channel: &ChannelName,
        day: NaiveDate,
        key: &CarryKey,
    ) -> Result<(), StoreError> {
        self.lock().carries.remove(&(channel.clone(), day, key.clone()));
        Ok(())
    }

    async fn carries_for(
        &self,
        channel: &ChannelName,
        waits_for: NaiveDate,
        after: Option<(NaiveDate, &CarryKey)>,
        limit_rows: u32,
    ) -> Result<Vec<Carry>, StoreError> {
        let tables = self.lock();
        let waiting = tables.carries.values().filter(|carry| {
            carry.channel == *channel
                && carry.waits_for == waits_for
                && after.is_none_or(|(day, key)| (carry.day, &carry.key) > (day, key))
        });
        Ok(waiting.take(most(limit_rows)).cloned().collect())
    }

    async fn carries_of(
        &self,
        channel: &ChannelName,
        day: NaiveDate,
        after: Option<&CarryKey>,
        limit_rows: u32,
    ) -> Result<Vec<Carry>, StoreError> {
        let tables = self.lock();
        let waiting = tables.carries.values().filter(|carry| {
            carry.channel == *channel && carry.day == day && after.is_none_or(|after| carry.key > *after)
        });
        Ok(waiting.take(most(limit_rows)).cloned().collect())
    }
}
