//! The outbox in memory: rows that come with the change they tell of, as the database's trigger has it.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use flow_core::flow::Flow;
use flow_core::ids::{Actor, CallerId};
use flow_core::notify::{Delivery, EventId, NextStep, Notification, NotifiedChange};
use flow_core::ports::{
    ClaimPage, Claimed, DeliveryAttempt, NotifiedCaller, Outbox, OutboxFilter, OutboxPage, OutboxRow,
    OutboxSummary, Resent, Settled, Settlement, StoreError,
};

use super::{MemStore, StoreOp};

/// What is owed, and what was done about it.
#[derive(Debug, Default)]
pub(super) struct OutboxTable {
    callers: BTreeSet<CallerId>,
    rows: BTreeMap<EventId, Held>,
    attempts: BTreeMap<EventId, Vec<DeliveryAttempt>>,
    last_claim: u64,
}

#[derive(Debug)]
struct Held {
    row: OutboxRow,
    claim: Option<String>,
}

impl OutboxTable {
    /// What the trigger does with a write that turned one row into another.
    pub(super) fn written(&mut self, old: &Flow, new: &Flow) {
        let change = if new.state.is_terminal() {
            NotifiedChange::Ended
        } else {
            match (&old.hold, &new.hold) {
                (None, None) => return,
                (Some(before), Some(after))
                    if (before.since, before.reason) == (after.since, after.reason) =>
                {
                    return;
                }
                (_, Some(_)) => NotifiedChange::Held,
                (Some(_), None) => NotifiedChange::Released,
            }
        };
        if !self.callers.contains(&new.caller) {
            return;
        }
        let notification = Notification {
            id: EventId { flow_id: new.id, version: new.version },
            caller: new.caller.clone(),
            change,
            state: new.state,
            at: new.updated_at,
            user_id: new.target.user_id,
            scene: new.target.scene.clone(),
            biz_key: new.target.biz_key.clone(),
            trade_order_no: new.trade_order_no.clone(),
        };
        let row = OutboxRow {
            delivery: Delivery::Pending,
            next_attempt_at: new.updated_at,
            attempts: 0,
            tries: 0,
            last_answer: None,
            last_http_status: None,
            last_attempt_at: None,
            delivered_at: None,
            resent_at: None,
            resent_by: None,
            notification,
        };
        self.rows.insert(row.notification.id, Held { row, claim: None });
    }

    fn set_callers(&mut self, callers: &[NotifiedCaller]) {
        for NotifiedCaller { caller, is_enabled } in callers {
            if *is_enabled {
                self.callers.insert(caller.clone());
            } else {
                self.callers.remove(caller);
            }
        }
    }

    fn claim_due(&mut self, page: &ClaimPage, now: DateTime<Utc>) -> Vec<Claimed> {
        self.last_claim += 1;
        let claim = format!("claim-{}", self.last_claim);
        let is_due = |held: &&mut Held| {
            held.row.notification.caller == page.caller
                && held.row.delivery == Delivery::Pending
                && held.row.next_attempt_at <= now
        };
        let mut due: Vec<&mut Held> = self.rows.values_mut().filter(is_due).collect();
        due.sort_by_key(|held| held.row.next_attempt_at);
        let claimed = due.into_iter().take(page.limit_rows.max(1) as usize).map(|held| {
            held.claim = Some(claim.clone());
            held.row.next_attempt_at = now + millis(page.claim_ms);
            Claimed {
                notification: held.row.notification.clone(),
                tries: held.row.tries,
                claim: claim.clone(),
            }
        });
        claimed.collect()
    }

    fn settle(&mut self, settlement: &Settlement, now: DateTime<Utc>) -> Settled {
        let Some(held) = self.rows.get_mut(&settlement.id) else { return Settled::ClaimLost };
        if held.claim.as_deref() != Some(&settlement.claim) {
            return Settled::ClaimLost;
        }
        held.claim = None;
        let row = &mut held.row;
        let (delivery, in_ms, is_attempt) = match settlement.next {
            NextStep::Delivered => (Delivery::Delivered, 0, true),
            NextStep::Dead => (Delivery::Dead, 0, true),
            NextStep::Retry { in_ms } => (Delivery::Pending, in_ms, true),
            NextStep::Postponed { in_ms } => (Delivery::Pending, in_ms, false),
        };
        row.delivery = delivery;
        row.next_attempt_at = now + millis(in_ms);
        if delivery == Delivery::Delivered {
            row.delivered_at = Some(now);
        }
        if is_attempt {
            let at = now - TimeDelta::milliseconds(settlement.latency_ms.into());
            row.attempts += 1;
            row.tries += 1;
            row.last_answer = Some(settlement.answer.class().to_owned());
            row.last_http_status = settlement.answer.http_status();
            row.last_attempt_at = Some(at);
            self.attempts.entry(settlement.id).or_default().push(DeliveryAttempt {
                attempt_no: row.attempts,
                at,
                answer: settlement.answer.class().to_owned(),
                http_status: settlement.answer.http_status(),
                latency_ms: settlement.latency_ms,
            });
        }
        Settled::Written
    }

    fn resend(&mut self, id: EventId, by: &Actor, now: DateTime<Utc>) -> Resent {
        match self.rows.get_mut(&id) {
            None => Resent::NotFound,
            Some(held) if held.row.delivery == Delivery::Pending => Resent::Pending,
            Some(held) => {
                held.claim = None;
                held.row.delivery = Delivery::Pending;
                held.row.next_attempt_at = now;
                held.row.tries = 0;
                held.row.resent_at = Some(now);
                held.row.resent_by = Some(by.to_string());
                Resent::Queued
            }
        }
    }

    pub(super) fn rows(&self) -> Vec<OutboxRow> {
        self.rows.values().rev().map(|held| held.row.clone()).collect()
    }

    fn find(&self, filter: &OutboxFilter, before: Option<EventId>, limit_rows: u32) -> OutboxPage {
        let passes = |row: &&OutboxRow| {
            before.is_none_or(|before| row.notification.id < before)
                && filter.id.is_none_or(|id| id == row.notification.id)
                && filter.delivery.is_none_or(|delivery| delivery == row.delivery)
                && filter.caller.as_ref().is_none_or(|caller| *caller == row.notification.caller)
        };
        let wanted = limit_rows.max(1) as usize;
        let found = self.rows.values().rev().map(|held| &held.row).filter(passes);
        let mut rows: Vec<OutboxRow> = found.take(wanted + 1).cloned().collect();
        let has_more = rows.len() > wanted;
        rows.truncate(wanted);
        OutboxPage { rows, has_more }
    }

    fn attempts(&self, id: EventId, after: u32, limit_rows: u32) -> Vec<DeliveryAttempt> {
        let log = self.attempts.get(&id).into_iter().flatten();
        log.filter(|attempt| attempt.attempt_no > after).take(limit_rows.max(1) as usize).cloned().collect()
    }

    fn summarise(&self, now: DateTime<Utc>) -> Vec<OutboxSummary> {
        let mut summaries: BTreeMap<CallerId, OutboxSummary> = BTreeMap::new();
        for Held { row, claim: _ } in
            self.rows.values().filter(|held| held.row.delivery != Delivery::Delivered)
        {
            let caller = &row.notification.caller;
            let summary = summaries.entry(caller.clone()).or_insert_with(|| OutboxSummary {
                caller: caller.clone(),
                pending_rows: 0,
                oldest_pending_ms: 0,
                dead_rows: 0,
            });
            if row.delivery == Delivery::Dead {
                summary.dead_rows += 1;
            } else {
                let age_ms = u64::try_from((now - row.notification.at).num_milliseconds()).unwrap_or(0);
                summary.pending_rows += 1;
                summary.oldest_pending_ms = summary.oldest_pending_ms.max(age_ms);
            }
        }
        summaries.into_values().collect()
    }
}

/// At most a hundred years.
fn millis(ms: u64) -> TimeDelta {
    TimeDelta::milliseconds(i64::try_from(ms.min(3_153_600_000_000)).unwrap_or(0))
}

#[async_trait]
impl Outbox for MemStore {
    async fn set_callers(&self, callers: &[NotifiedCaller]) -> Result<(), StoreError> {
        self.write(StoreOp::Outbox, |table, _| {
            table.outbox.set_callers(callers);
            Ok(())
        })
        .await
    }

    async fn claim_due(&self, page: ClaimPage) -> Result<Vec<Claimed>, StoreError> {
        self.write(StoreOp::Outbox, |table, now| Ok(table.outbox.claim_due(&page, now))).await
    }

    async fn settle(&self, settlement: Settlement) -> Result<Settled, StoreError> {
        self.write(StoreOp::Outbox, |table, now| Ok(table.outbox.settle(&settlement, now))).await
    }

    async fn resend(&self, id: EventId, by: &Actor) -> Result<Resent, StoreError> {
        self.write(StoreOp::Outbox, |table, now| Ok(table.outbox.resend(id, by, now))).await
    }

    async fn find_notifications(
        &self,
        filter: &OutboxFilter,
        before: Option<EventId>,
        limit_rows: u32,
    ) -> Result<OutboxPage, StoreError> {
        self.read(StoreOp::Outbox, |table| table.outbox.find(filter, before, limit_rows)).await
    }

    async fn attempts(
        &self,
        id: EventId,
        after_attempt_no: u32,
        limit_rows: u32,
    ) -> Result<Vec<DeliveryAttempt>, StoreError> {
        self.read(StoreOp::Outbox, |table| table.outbox.attempts(id, after_attempt_no, limit_rows)).await
    }

    async fn summarise_outbox(&self) -> Result<Vec<OutboxSummary>, StoreError> {
        self.read(StoreOp::Outbox, |table| table.outbox.summarise(self.clock.now())).await
    }
}
