//! From a comparison to its ticket, and to what waits. Written by compare-and-swap, read again after each lost one.

use flow_core::ids::FlowId;
use flow_core::ports::{
    Carry, CarrySide, CasOutcome, NewTicket, Opened, ReconFlow, StoreError, TicketRecords, TicketWrite,
};
use flow_core::recon::{AfterDiff, DiffResult, Next, Ticket, TrailKind, after_diff};
use serde_json::json;

use super::compare::Compared;
use super::{Run, RunError};
use crate::order::{BillRow, Order};

/// How often a ticket is read and written before the run gives up on the database.
const MAX_TRIES: u32 = 8;

impl Run<'_> {
    /// Writes what follows from a comparison: ticket, repair, what waits.
    pub(super) async fn write(&mut self, mut compared: Compared) -> Result<(), RunError> {
        if self.task.is_dry {
            return Ok(());
        }
        let result = &compared.settled.result;
        let concerns_ticket =
            compared.group.has_ticket || !result.found.is_empty() || !result.carried.is_empty();
        if concerns_ticket {
            let ticket = self.put_ticket(&compared.order, result).await?;
            if let Some(ticket) = ticket {
                compared = self.repair(compared, ticket).await?;
            }
        }
        self.put_waiting(&compared).await
    }

    /// Brings the order's ticket up to date, and gives it as it is then.
    pub(super) async fn put_ticket(
        &mut self,
        order: &Order,
        result: &DiffResult,
    ) -> Result<Option<Ticket>, RunError> {
        let channel = &self.channel.name;
        for _ in 0..MAX_TRIES {
            let ticket = self.runner.store.order_ticket(channel, &order.order_no).await?;
            let written = match after_diff(ticket.as_ref(), result) {
                AfterDiff::Nothing => return Ok(ticket),
                AfterDiff::Open(findings) => {
                    let new = NewTicket {
                        channel: channel.clone(),
                        order_no: order.order_no.clone(),
                        flow_id: flow_id(order),
                        findings,
                        records: records(order),
                        actor: self.runner.settings.actor.clone(),
                    };
                    self.runner.store.open_ticket(&new).await.map(|opened| match opened {
                        Opened::Opened => Some(TrailKind::Opened),
                        Opened::Exists => None,
                    })
                }
                AfterDiff::Write(next) => {
                    // Read in this very turn.
                    let Some(ticket) = ticket else { continue };
                    let kind = next.kind;
                    let keeps_records = next.findings.is_empty();
                    let records = if keeps_records { TicketRecords::default() } else { records(order) };
                    let write = self.ticket_write(&ticket, next, records, flow_id(order));
                    self.runner.store.write_ticket(&write).await.map(|outcome| match outcome {
                        CasOutcome::Applied => Some(kind),
                        CasOutcome::Lost => None,
                    })
                }
            };
            match written {
                Ok(Some(kind)) => {
                    self.count_ticket(kind);
                    tracing::info!(
                        %channel, order_no = %order.order_no, day = %self.day.date, change = kind.as_str(),
                        differences = result.found.len() + result.carried.len(), "ticket written",
                    );
                }
                // Lost, or perhaps written: the next turn sees what is there.
                Ok(None) | Err(StoreError::OutcomeUnknown) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(StoreError::Unavailable { reason: "a ticket kept changing" }.into())
    }

    fn count_ticket(&mut self, kind: TrailKind) {
        let counts = &mut self.tally.tickets;
        match kind {
            TrailKind::Opened => counts.opened += 1,
            TrailKind::Changed => counts.changed += 1,
            TrailKind::Reopened => counts.reopened += 1,
            TrailKind::Gone => counts.gone += 1,
            TrailKind::Assigned | TrailKind::Proposed | TrailKind::Settled | TrailKind::Repair => {}
        }
    }

    pub(super) fn ticket_write(
        &self,
        ticket: &Ticket,
        next: Next,
        records: TicketRecords,
        flow_id: Option<FlowId>,
    ) -> TicketWrite {
        let actor = self.runner.settings.actor.clone();
        TicketWrite { id: ticket.id, version: ticket.version, next, flow_id, records, actor }
    }

    /// What waits from now on is exactly what this comparison says; what had waited for this day and was matched is taken out.
    async fn put_waiting(&self, compared: &Compared) -> Result<(), RunError> {
        let (store, channel) = (&self.runner.store, &self.channel.name);
        let wanted = &compared.settled.waiting;
        for waiting in wanted.iter().filter(|waiting| !compared.group.left_waiting.contains(waiting)) {
            let carry = Carry {
                channel: channel.clone(),
                day: waiting.day,
                key: waiting.key.clone(),
                waits_for: waiting.waits_for,
                record: waiting.record.clone(),
            };
            store.put_carry(&carry).await?;
        }
        let stale =
            compared.group.left_waiting.iter().filter(|old| !wanted.iter().any(|new| new.key == old.key));
        for old in stale {
            store.take_carry(channel, old.day, &old.key).await?;
        }
        for waited in compared.group.waited_for.iter().filter(|waited| waited.key.side == CarrySide::Local) {
            let has_row = |row: &BillRow| row.kind == waited.key.kind && row.entry_no == waited.key.entry_no;
            if compared.order.rows.iter().any(has_row) {
                store.take_carry(channel, waited.day, &waited.key).await?;
            }
        }
        Ok(())
    }
}

fn flow_id(order: &Order) -> Option<FlowId> {
    order.local.as_ref().map(|flow| flow.id)
}

/// Both sides as they stood.
fn records(order: &Order) -> TicketRecords {
    let rows: Vec<&BillRow> = order.rows.iter().collect();
    let bill = if rows.is_empty() { None } else { serde_json::to_string(&rows).ok() };
    let within = |text: &String| text.len() <= TicketRecords::MAX_BYTES;
    let short = || serde_json::to_string(&rows.iter().take(1).collect::<Vec<_>>()).ok();
    TicketRecords {
        local: order.local.as_ref().map(|flow| local_record(flow).to_string()),
        bill: bill.filter(within).or_else(short).filter(within).filter(|_| !rows.is_empty()),
    }
}

fn local_record(flow: &ReconFlow) -> serde_json::Value {
    json!({
        "flow_id": flow.id.to_string(),
        "user_id": flow.target.user_id.to_string(),
        "scene": flow.target.scene.as_str(),
        "biz_key": flow.target.biz_key.as_str(),
        "attempt_no": flow.attempt_no.0,
        "trade_order_no": flow.trade_order_no.as_str(),
        "refund_order_no": flow.refund_order_no.as_str(),
        "status": flow.state.as_str(),
        "version": flow.version.0,
        "amount": flow.money.amount(),
        "currency": flow.money.currency().as_str(),
        "wallet": flow.wallet.as_str(),
        "business": flow.business.as_str(),
        "wallet_pay_txn": flow.wallet_pay_txn.as_ref().map(|text| text.as_str()),
        "wallet_refund_txn": flow.wallet_refund_txn.as_ref().map(|text| text.as_str()),
        "refund_amount": flow.refund_amount,
        "paid_at": flow.paid_at,
        "finished_at": flow.finished_at,
        "is_held": flow.is_held,
    })
}
