//! Working on one stored event: find its flow, have it advanced, hold the claim against the row, write down what it came
//! to. A crash anywhere leaves the event open; it is due again when its claim ends.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use metrics::counter;

use super::event::NewEvent;
use super::verdict::{Contradiction, Verdict, judge};
use crate::advance::{AdvanceError, Advancer, Call, End};
use crate::flow::{Flow, Trigger};
use crate::ports::{
    CasOutcome, FlowStore, Inbox, InboxChange, InboxEvent, InboxWrite, Jitter, Recorded, StoreError,
};
use crate::retry::Schedule;

/// There is no flow of this number, yet.
const ORDER_UNKNOWN: &str = "ORDER_UNKNOWN";
/// The wallet's own record does not say so, yet.
const NOT_CONFIRMED: &str = "NOT_CONFIRMED";
/// Our own gate let no call out.
const GATE_CLOSED: &str = "GATE_CLOSED";
/// The flow could not be worked on.
const ADVANCE_FAILED: &str = "ADVANCE_FAILED";

/// How events are worked on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallbackSettings {
    /// How long an event is left to the process that works on it, in milliseconds.
    pub claim_ms: u64,
    /// Delays between tries.
    pub retry: Schedule,
    /// How long after its arrival an event is given up, in milliseconds.
    pub give_up_after_ms: u64,
    /// Time budget of one advance, in milliseconds.
    pub budget_ms: u64,
}

/// What working on an event came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Came {
    /// Written down.
    To(InboxChange),
    /// Somebody else has it; nothing was written.
    TakenOver,
}

/// Takes events and works on them. Shared behind an `Arc`; keeps nothing between calls.
pub struct Callbacks {
    inbox: Arc<dyn Inbox>,
    store: Arc<dyn FlowStore>,
    advancer: Arc<Advancer>,
    jitter: Arc<dyn Jitter>,
    settings: CallbackSettings,
}

impl Callbacks {
    /// Puts the parts together.
    pub fn new(
        inbox: Arc<dyn Inbox>,
        store: Arc<dyn FlowStore>,
        advancer: Arc<Advancer>,
        jitter: Arc<dyn Jitter>,
        settings: CallbackSettings,
    ) -> Callbacks {
        Callbacks { inbox, store, advancer, jitter, settings }
    }

    /// Where events are kept.
    pub fn inbox(&self) -> &Arc<dyn Inbox> {
        &self.inbox
    }

    /// Keeps an event whose signature holds. Only after this may its channel be answered.
    ///
    /// # Errors
    /// [`StoreError`]: it may not have been kept; the channel must say it again.
    pub async fn record(&self, event: NewEvent) -> Result<Recorded, StoreError> {
        let (channel, event_type) = (event.key.channel.to_string(), event.key.event_type.as_str());
        let recorded = self.inbox.record(event, self.settings.claim_ms).await?;
        let result = match &recorded {
            Recorded::Stored(_) => "stored",
            Recorded::Known(_) => "known",
        };
        counter!("callback_events_total", "channel" => channel, "type" => event_type, "result" => result)
            .increment(1);
        Ok(recorded)
    }

    /// Works on an event that was listed as due, unless somebody else does. `now` is the database's clock.
    ///
    /// # Errors
    /// [`StoreError`]: the event stays open.
    pub async fn claim_and_work(&self, event: InboxEvent, now: DateTime<Utc>) -> Result<Came, StoreError> {
        match self.inbox.claim_event(event.id, event.version, self.settings.claim_ms).await? {
            CasOutcome::Lost => Ok(Came::TakenOver),
            CasOutcome::Applied => {
                let version = event.version.next();
                self.work(InboxEvent { version, ..event }, now).await
            }
        }
    }

    /// Works on an event that is ours. `now` is the database's clock.
    ///
    /// # Errors
    /// [`StoreError`]: the event stays open, and is due again when its claim ends.
    pub async fn work(&self, event: InboxEvent, now: DateTime<Utc>) -> Result<Came, StoreError> {
        let change = self.come_to(&event, now).await?;
        let write = InboxWrite { id: event.id, version: event.version, change };
        match self.inbox.settle_event(write).await? {
            CasOutcome::Applied => {
                tell(&event, change);
                Ok(Came::To(change))
            }
            CasOutcome::Lost => Ok(Came::TakenOver),
        }
    }

    async fn come_to(&self, event: &InboxEvent, now: DateTime<Utc>) -> Result<InboxChange, StoreError> {
        let Some(flow) = self.flow_of(event).await? else {
            return Ok(self.try_again(event, now, ORDER_UNKNOWN, None));
        };
        let said = event.statement();
        // What excludes itself already moves nobody to ask.
        if let Verdict::Contradicts(how) = judge(&said, &flow) {
            return Ok(InboxChange::Contradicted { note: how.as_str() });
        }
        let call = Call {
            trigger: Trigger::Callback,
            trace_id: event.trace_id.clone(),
            budget_ms: self.settings.budget_ms,
        };
        let advanced = match self.advancer.advance(flow.id, &call).await {
            Ok(advanced) => advanced,
            Err(AdvanceError::NotFound { .. }) => {
                return Ok(self.try_again(event, now, ORDER_UNKNOWN, None));
            }
            Err(AdvanceError::Store(error)) if error.retryable() => return Err(error),
            Err(AdvanceError::Store(error)) => {
                tracing::error!(
                    inbox_id = %event.id, flow_id = %flow.id, error = &error as &dyn std::error::Error,
                    "the flow that a callback names could not be advanced; the event is kept",
                );
                return Ok(self.try_again(event, now, ADVANCE_FAILED, None));
            }
        };
        let retry_in_ms = match advanced.end {
            End::Contradicted => {
                return Ok(InboxChange::Contradicted { note: Contradiction::RowContradicted.as_str() });
            }
            End::GateClosed { retry_in_ms } => Some(retry_in_ms),
            End::Terminal | End::Held | End::Waiting { .. } | End::BudgetSpent | End::Overtaken => None,
        };
        Ok(match judge(&said, &advanced.flow) {
            Verdict::Agrees => InboxChange::Processed,
            Verdict::Contradicts(how) => InboxChange::Contradicted { note: how.as_str() },
            Verdict::NotYet => {
                let note = if retry_in_ms.is_some() { GATE_CLOSED } else { NOT_CONFIRMED };
                self.try_again(event, now, note, retry_in_ms)
            }
        })
    }

    /// The flow, if there is one with exactly this number.
    async fn flow_of(&self, event: &InboxEvent) -> Result<Option<Flow>, StoreError> {
        let Some((_, flow_id)) = event.key.order_no.parts() else { return Ok(None) };
        let flow = self.store.load(flow_id).await?.value;
        Ok(flow.filter(|flow| flow.trade_order_no == event.key.order_no))
    }

    fn try_again(
        &self,
        event: &InboxEvent,
        now: DateTime<Utc>,
        note: &'static str,
        at_least_ms: Option<u64>,
    ) -> InboxChange {
        let age_ms = u64::try_from((now - event.received_at).num_milliseconds()).unwrap_or(0);
        if age_ms >= self.settings.give_up_after_ms {
            return InboxChange::GivenUp { note };
        }
        let delay_ms = self.settings.retry.delay_ms(event.tries, self.jitter.draw());
        InboxChange::TryAgain { next_in_ms: delay_ms.max(at_least_ms.unwrap_or(0)), note }
    }
}

/// Counts what an event came to, and alerts where people must look.
fn tell(event: &InboxEvent, change: InboxChange) {
    let (channel, event_type) = (event.key.channel.to_string(), event.key.event_type.as_str());
    let state = change.state().as_str();
    counter!("callback_worked_total", "channel" => channel.clone(), "type" => event_type, "state" => state)
        .increment(1);
    let (order_no, event_id, claim) = (&event.key.order_no, &event.key.event_id, event.claim.as_str());
    match change {
        InboxChange::Processed => {
            tracing::debug!(inbox_id = %event.id, %order_no, %event_id, event_type, claim, "callback processed");
        }
        InboxChange::TryAgain { next_in_ms, note } => {
            tracing::info!(
                inbox_id = %event.id, %order_no, %event_id, event_type, claim, note, next_in_ms,
                tries = event.tries, "callback kept for later",
            );
        }
        InboxChange::Contradicted { note } => {
            counter!("callback_contradictions_total", "channel" => channel, "type" => event_type, "note" => note)
                .increment(1);
            tracing::error!(
                inbox_id = %event.id, %order_no, channel = %event.key.channel, %event_id, event_type, claim, note,
                "a callback contradicts what is known; it changed nothing, look into it",
            );
        }
        InboxChange::GivenUp { note } => {
            counter!("callback_given_up_total", "channel" => channel, "type" => event_type, "note" => note)
                .increment(1);
            tracing::error!(
                inbox_id = %event.id, %order_no, channel = %event.key.channel, %event_id, event_type, claim, note,
                tries = event.tries, "a callback was never confirmed and is given up; it changed nothing, look into it",
            );
        }
    }
}
