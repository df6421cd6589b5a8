//! One step: perform an action, decide what its answer means, write one compare-and-swap.

use chrono::{DateTime, Utc};
use metrics::counter;

use super::perform::Performed;
use super::{AdvanceError, Advancer, Call, Seat};
use crate::cas::{CasWrite, Change, WriteEvidence};
use crate::decide::{Action, Decision, Evidence};
use crate::decisions::{decide, too_late_to_follow};
use crate::downstream::Turn;
use crate::flow::{Flow, HoldReason, Trigger};
use crate::ids::Actor;
use crate::ports::{CasOutcome, StoreError};

/// What a step came to.
pub(super) enum StepEnd {
    /// The state changed by our write.
    Moved(Flow),
    /// Rescheduled by our write.
    Stayed {
        /// The row as written.
        flow: Flow,
        /// When it is due, in milliseconds from now.
        next_in_ms: u64,
    },
    /// Our own gate let no call out: nothing was written, the row is as due as it was.
    Left {
        /// When the gate may open, in milliseconds.
        retry_in_ms: u64,
    },
    /// Frozen by our write.
    Held(Flow),
    /// The row changed under us: reload and see what that means for the write that was wanted.
    Lost(Box<CasWrite>),
    /// Nothing was written, or whether it was is not known: reload and begin again.
    StartOver,
}

/// A query may call for one more action, which never calls for another.
const MAX_ACTIONS_PER_STEP: u32 = 2;

impl Advancer {
    pub(super) async fn step(
        &self,
        seat: &Seat,
        first: Action,
        call: &Call,
    ) -> Result<StepEnd, AdvanceError> {
        let rules = self.downstreams.rules(&seat.flow);
        let mut action = first;
        let mut asked_first_ms = None;
        for _ in 0..MAX_ACTIONS_PER_STEP {
            let turn = if asked_first_ms.is_none() { first_turn(call.trigger) } else { Turn::Patient };
            let performed = self.perform(&seat.flow, action, turn).await;
            let now = seat.now(&*self.clock);
            let evidence = evidence_of(call, action, &performed);
            // What a second answer means may rest on the first one ("no such order", before a close that is refused),
            // so both are judged by the time before the step's first question.
            let asked_at_ms = *asked_first_ms.get_or_insert(performed.asked_at_ms);
            match decide(&seat.flow, &performed.evidence, &rules, seat.at(asked_at_ms)) {
                // The question was asked in time, but the answer came too late for starting anything.
                Decision::Follow(Action::Debit) if too_late_to_follow(&seat.flow, now) => {
                    return Ok(StepEnd::StartOver);
                }
                Decision::Follow(next) => action = next,
                Decision::Move(transition) => {
                    let change = Change::Move { transition, next_in_ms: self.settings.claim_ms };
                    return self.write(seat, change, evidence, now).await;
                }
                Decision::Stay { pace, code, wake_by } => {
                    let next = self.settings.next_try(&seat.flow, pace, wake_by, now, self.jitter.draw());
                    let change = Change::Reschedule {
                        next_in_ms: next.next_in_ms,
                        retry_count: next.retry_count,
                        code,
                    };
                    return self.write(seat, change, evidence, now).await;
                }
                Decision::Leave { retry_after_ms } => {
                    let retry_in_ms = self.settings.spread_ms(retry_after_ms, self.jitter.draw());
                    return Ok(StepEnd::Left { retry_in_ms });
                }
                Decision::Hold(reason) => {
                    alert_hold(&seat.flow, reason, &performed.evidence);
                    return self.write(seat, Change::Hold { reason, by: system() }, evidence, now).await;
                }
                Decision::Reload => return Ok(StepEnd::StartOver),
            }
        }
        Ok(StepEnd::StartOver)
    }

    async fn write(
        &self,
        seat: &Seat,
        change: Change,
        evidence: WriteEvidence,
        now: DateTime<Utc>,
    ) -> Result<StepEnd, AdvanceError> {
        let flow = &seat.flow;
        let write = CasWrite { flow_id: flow.id, from: flow.state, version: flow.version, change, evidence };
        let next = write.apply(flow, now);
        match self.store.cas(write.clone()).await {
            Ok(CasOutcome::Applied) => {
                log_write(flow, &next, &write);
                Ok(match write.change {
                    Change::Move { .. } => StepEnd::Moved(next),
                    Change::Reschedule { next_in_ms, .. } => StepEnd::Stayed { flow: next, next_in_ms },
                    Change::Hold { .. } => StepEnd::Held(next),
                    Change::Release | Change::RequestCancel { .. } => StepEnd::StartOver,
                })
            }
            Ok(CasOutcome::Lost) => Ok(StepEnd::Lost(Box::new(write))),
            // It may have happened. The row says so; whoever reads it next starts from a query, never from a belief.
            Err(StoreError::OutcomeUnknown) => Ok(StepEnd::StartOver),
            Err(error) => Err(error.into()),
        }
    }
}

/// The scanner's flows keep their place in line; the others would rather come again.
const fn first_turn(trigger: Trigger) -> Turn {
    match trigger {
        Trigger::Scanner => Turn::Patient,
        Trigger::Sync
        | Trigger::Timer
        | Trigger::Wake
        | Trigger::Callback
        | Trigger::Recon
        | Trigger::Operator => Turn::Eager,
    }
}

/// Signs what no person did.
pub(super) fn system() -> Actor {
    Actor::new("system").expect("visible ASCII within the length")
}

fn evidence_of(call: &Call, action: Action, performed: &Performed) -> WriteEvidence {
    WriteEvidence {
        trigger: call.trigger,
        action: Some(action),
        outcome: Some(performed.evidence.label()),
        request_id: performed.request_id.clone(),
        latency_ms: performed.latency_ms,
        trace_id: call.trace_id.clone(),
        actor: None,
    }
}

fn alert_hold(flow: &Flow, reason: HoldReason, evidence: &Evidence) {
    counter!("flow_holds_total", "reason" => reason.as_str()).increment(1);
    tracing::error!(
        flow_id = %flow.id, trade_order_no = %flow.trade_order_no, state = %flow.state, reason = reason.as_str(),
        outcome = evidence.label(), "flow is held: automatic processing stops until people release it",
    );
}

fn log_write(before: &Flow, after: &Flow, write: &CasWrite) {
    let evidence = &write.evidence;
    if before.state == after.state {
        tracing::debug!(
            flow_id = %after.id, state = %after.state, version = after.version.0, retry_count = after.retry_count,
            trigger = evidence.trigger.as_str(), outcome = evidence.outcome, "flow stays",
        );
        return;
    }
    counter!(
        "flow_transitions_total",
        "from" => before.state.as_str(), "to" => after.state.as_str(), "trigger" => evidence.trigger.as_str(),
    )
    .increment(1);
    tracing::info!(
        flow_id = %after.id, biz_key = %after.target.biz_key, attempt_no = after.attempt_no.0,
        trade_order_no = %after.trade_order_no, from = %before.state, to = %after.state, version = after.version.0,
        trigger = evidence.trigger.as_str(), action = evidence.action.map(Action::as_str), outcome = evidence.outcome,
        request_id = evidence.request_id.as_ref().map(tracing::field::display), latency_ms = evidence.latency_ms,
        trace_id = evidence.trace_id.as_ref().map(tracing::field::display), "flow moved",
    );
}
