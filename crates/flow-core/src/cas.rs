//! A compare-and-swap of one flow row as a value: what it expects, what it changes, what it gives as evidence.
//!
//! Pure. [`CasWrite::apply`] is the meaning of the write; the MySQL statement and the in-memory store must agree with
//! it, and the conformance suite compares them.

use chrono::{DateTime, TimeDelta, Utc};

use crate::answer::ErrorCode;
use crate::decide::{Action, Transition};
use crate::flow::{CancelRequest, Flow, Hold, HoldReason, RefundTerms, Trigger};
use crate::ids::{Actor, DownstreamRef, FlowId, TraceId, Version};
use crate::state::State;

/// One guarded write: happens exactly if the row still has this state and this version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CasWrite {
    /// The row.
    pub flow_id: FlowId,
    /// The one state it must have.
    pub from: State,
    /// The version it must have; the write produces the next one.
    pub version: Version,
    /// What changes.
    pub change: Change,
    /// What the audit log keeps of why.
    pub evidence: WriteEvidence,
}

/// What a write changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Takes an edge; the retry count starts over.
    Move {
        /// Which edge, and what it records.
        transition: Transition,
        /// When the new state is due, in milliseconds from now.
        next_in_ms: u64,
    },
    /// Stays, and is due later.
    Reschedule {
        /// When, in milliseconds from now.
        next_in_ms: u64,
        /// Counted tries so far in this state.
        retry_count: u32,
        /// Why it stays.
        code: ErrorCode,
    },
    /// Freezes the flow.
    Hold {
        /// Why.
        reason: HoldReason,
        /// Who.
        by: Actor,
    },
    /// Lifts the freeze; due at once, the retry count starts over.
    Release,
    /// Records the wish to cancel; due at once.
    RequestCancel {
        /// Who.
        by: Actor,
    },
}

/// What the audit log keeps of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteEvidence {
    /// Which entrance.
    pub trigger: Trigger,
    /// The downstream action whose answer this write follows from.
    pub action: Option<Action>,
    /// The class of its answer.
    pub outcome: Option<&'static str>,
    /// The downstream's id of the request.
    pub request_id: Option<DownstreamRef>,
    /// How long the call took, in milliseconds.
    pub latency_ms: Option<u32>,
    /// Correlates with logs and with the caller's `request_id`.
    pub trace_id: Option<TraceId>,
    /// The person, where one acted.
    pub actor: Option<Actor>,
}

impl WriteEvidence {
    /// Evidence of a write that follows from no downstream call.
    pub const fn of(trigger: Trigger) -> WriteEvidence {
        WriteEvidence {
            trigger,
            action: None,
            outcome: None,
            request_id: None,
            latency_ms: None,
            trace_id: None,
            actor: None,
        }
    }
}

/// When a held flow is next due: never, until it is released. 9999-12-31T00:00:00Z.
pub const HELD_UNTIL: DateTime<Utc> = match DateTime::from_timestamp(253_402_214_400, 0) {
    Some(time) => time,
    None => DateTime::<Utc>::MAX_UTC,
};

impl CasWrite {
    /// The state that the write leaves the row in.
    pub const fn to(&self) -> State {
        match &self.change {
            Change::Move { transition, .. } => transition.edge().to(),
            Change::Reschedule { .. }
            | Change::Hold { .. }
            | Change::Release
            | Change::RequestCancel { .. } => self.from,
        }
    }

    /// Whether the row is the one that the write expects.
    pub fn matches(&self, flow: &Flow) -> bool {
        flow.id == self.flow_id && flow.state == self.from && flow.version == self.version
    }

    /// Whether the write is one that may be made at all: an edge from its own state, a cancel before any execution,
    /// nothing on a terminal row. The database's triggers refuse the same.
    pub fn is_legal(&self) -> bool {
        match &self.change {
            Change::Move { transition, .. } => transition.edge().from() == self.from,
            Change::Reschedule { .. } | Change::Hold { .. } | Change::Release => !self.from.is_terminal(),
            Change::RequestCancel { .. } => match self.from {
                State::WaitPay | State::Paying => true,
                State::PayFail | State::Payed | State::BizSuccess | State::Refunding | State::Refunded => {
                    false
                }
            },
        }
    }

    /// The row as the write leaves it, if it happens at `now`. The caller has checked [`CasWrite::matches`].
    pub fn apply(&self, flow: &Flow, now: DateTime<Utc>) -> Flow {
        let mut next = flow.clone();
        next.version = flow.version.next();
        next.updated_at = now;
        if self.evidence.request_id.is_some() {
            next.channel_request_id.clone_from(&self.evidence.request_id);
        }
        match &self.change {
            Change::Move { transition, next_in_ms } => {
                self.apply_transition(&mut next, transition, now);
                next.next_retry_time = later(now, *next_in_ms);
            }
            Change::Reschedule { next_in_ms, retry_count, code } => {
                next.next_retry_time = later(now, *next_in_ms);
                next.retry_count = *retry_count;
                next.last_error_code = Some(code.clone());
            }
            Change::Hold { reason, by } => {
                next.hold = Some(Hold { reason: *reason, since: now, by: by.clone() });
                next.next_retry_time = HELD_UNTIL;
            }
            Change::Release => {
                next.hold = None;
                next.retry_count = 0;
                next.next_retry_time = now;
            }
            Change::RequestCancel { by } => {
                next.cancel = Some(CancelRequest { at: now, by: by.clone() });
                next.next_retry_time = now;
            }
        }
        next
    }

    fn apply_transition(&self, next: &mut Flow, transition: &Transition, now: DateTime<Utc>) {
        next.state = transition.edge().to();
        next.state_entered_at = now;
        next.retry_count = 0;
        next.last_error_code = None;
        if next.state.is_terminal() {
            next.finished_at = Some(now);
        }
        match transition {
            Transition::EnterPaying | Transition::ConfirmBusiness => {}
            Transition::FailPayment(code) => next.last_error_code = Some(code.clone()),
            Transition::ConfirmPayment(receipt) => {
                next.wallet_pay_txn.clone_from(&receipt.transaction);
                next.paid_at = Some(now);
            }
            Transition::DecideRefund(reason) => {
                next.refund = Some(RefundTerms {
                    amount: next.money.amount(),
                    reason: *reason,
                    source: self.evidence.trigger,
                });
            }
            Transition::ConfirmRefund(receipt) => next.wallet_refund_txn.clone_from(&receipt.transaction),
        }
    }
}

fn later(now: DateTime<Utc>, ms: u64) -> DateTime<Utc> {
    now + TimeDelta::milliseconds(i64::try_from(ms).unwrap_or(i64::MAX / 1_000_000))
}
