//! What the database makes of batches, and what its triggers refuse, as plain functions.

use std::collections::BTreeMap;

use chrono::{DateTime, NaiveDate, Utc};
use flow_core::flow::Flow;
use flow_core::ids::{BatchId, ChannelName};
use flow_core::ports::{Batch, BatchBill, ReconFlow, StoreError, TicketRecords, TicketWrite};
use flow_core::recon::{BatchState, Tally, Ticket, TicketState, needs_second_person};

/// A part of a batch.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub(super) state: BatchState,
    pub(super) runs: u64,
    pub(super) claim: Option<(String, DateTime<Utc>)>,
    pub(super) started_at: Option<DateTime<Utc>>,
    pub(super) finished_at: Option<DateTime<Utc>>,
    pub(super) reason: Option<String>,
    pub(super) done: Option<(Tally, BatchBill)>,
}

/// A batch with its parts, by into how many and which.
#[derive(Debug, Clone)]
pub(super) struct MemBatch {
    pub(super) id: BatchId,
    pub(super) parts: u32,
    pub(super) rows: BTreeMap<(u32, u32), Part>,
}

pub(super) fn guarded(message: &str) -> StoreError {
    StoreError::Guarded { message: message.to_owned() }
}

pub(super) fn most(limit_rows: u32) -> usize {
    usize::try_from(limit_rows).unwrap_or(usize::MAX).max(1)
}

pub(super) fn compared(flow: Flow) -> ReconFlow {
    ReconFlow {
        id: flow.id,
        target: flow.target,
        attempt_no: flow.attempt_no,
        trade_order_no: flow.trade_order_no,
        refund_order_no: flow.refund_order_no,
        state: flow.state,
        version: flow.version,
        money: flow.money,
        wallet: flow.wallet,
        business: flow.business,
        wallet_pay_txn: flow.wallet_pay_txn,
        wallet_refund_txn: flow.wallet_refund_txn,
        refund_amount: flow.refund.map(|terms| terms.amount),
        paid_at: flow.paid_at,
        finished_at: flow.finished_at,
        is_held: flow.hold.is_some(),
    }
}

/// What a batch is, given its parts.
pub(super) fn state_of(batch: &MemBatch) -> (BatchState, Option<String>) {
    let parts: Vec<&Part> = batch.mine().collect();
    let any = |state: BatchState| parts.iter().any(|part| part.state == state);
    if any(BatchState::Running) {
        return (BatchState::Running, None);
    }
    if any(BatchState::Failed) {
        return (BatchState::Failed, parts.iter().filter_map(|part| part.reason.clone()).max());
    }
    let done: Vec<&(Tally, BatchBill)> = parts.iter().filter_map(|part| part.done.as_ref()).collect();
    if done.len() < most(batch.parts) {
        return (BatchState::Pending, None);
    }
    if done.iter().all(|(_, bill)| bill.sha256 == done[0].1.sha256) {
        return (BatchState::Done, None);
    }
    let reason = "its parts were compared with different bills; run all of them again with one";
    (BatchState::Failed, Some(reason.to_owned()))
}

impl MemBatch {
    fn mine(&self) -> impl Iterator<Item = &Part> {
        self.rows.iter().filter(|((parts, _), _)| *parts == self.parts).map(|(_, part)| part)
    }

    pub(super) fn shown(&self, channel: &ChannelName, day: NaiveDate) -> Batch {
        let (state, reason) = state_of(self);
        let mut tally = Tally::default();
        let (mut bill, mut parts_done) = (None, 0);
        for (counted, with) in self.mine().filter_map(|part| part.done.as_ref()) {
            parts_done += 1;
            tally.add(counted);
            bill = Some(with.clone());
        }
        let has_ended = matches!(state, BatchState::Done | BatchState::Failed);
        Batch {
            id: self.id,
            channel: channel.clone(),
            day,
            state,
            parts: self.parts,
            parts_done,
            runs: self.mine().map(|part| part.runs).sum(),
            tally,
            bill,
            reason,
            started_at: self.mine().filter_map(|part| part.started_at).max(),
            finished_at: self.mine().filter_map(|part| part.finished_at).max().filter(|_| has_ended),
        }
    }
}

pub(super) fn kinds(ticket: &Ticket) -> String {
    let mut kinds: Vec<&str> = ticket.findings.iter().map(|finding| finding.kind.as_str()).collect();
    kinds.dedup();
    kinds.join(",")
}

pub(super) fn check_records(records: &TicketRecords) -> Result<(), StoreError> {
    let is_long =
        |record: &Option<String>| record.as_ref().is_some_and(|text| text.len() > TicketRecords::MAX_BYTES);
    if is_long(&records.local) || is_long(&records.bill) {
        return Err(guarded("a ticket's record is longer than is kept"));
    }
    Ok(())
}

/// What the database's trigger refuses.
pub(super) fn guard(ticket: &Ticket, write: &TicketWrite) -> Result<(), StoreError> {
    let next = &write.next;
    let moves = next.state != ticket.state;
    if moves && !ticket.state.is_open() && next.state != TicketState::Open {
        return Err(guarded("a closed ticket can only be opened again"));
    }
    if next.state.is_open() == next.findings.is_empty()
        && (next.state.is_open() || next.state == TicketState::AutoFixed)
    {
        return Err(guarded("an open ticket has a difference, and one that is fixed has none"));
    }
    let is_end = matches!(next.state, TicketState::Resolved | TicketState::Ignored);
    if moves && is_end && needs_second_person(&ticket.findings) {
        let proposed = ticket.proposal.as_ref().filter(|proposal| proposal.state == next.state);
        let is_second = proposed
            .is_some_and(|proposal| next.confirmed_by.as_ref().is_some_and(|person| *person != proposal.by));
        if !is_second || next.proposal.as_ref() != proposed {
            return Err(guarded("what moves money is ended by two people"));
        }
    }
    Ok(())
}
