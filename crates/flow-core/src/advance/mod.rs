//! `advance`: the only code that changes a flow's state.
//!
//! Every entrance (request, timer, wake-up message, scanner, callback, reconciliation, operator) calls it with a flow
//! id and nothing else to decide on. One *step* loads the row, lets [`crate::decide`] choose one action, performs it,
//! lets it decide what the answer means, and writes one compare-and-swap. This module knows ports, never the store,
//! and decides nothing itself.

mod compare;
mod people;
mod perform;
mod schedule;
mod step;

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use metrics::{counter, histogram};

pub use people::{Cancelled, Handled};
pub use schedule::AdvanceSettings;

use crate::decide::{Action, Entry};
use crate::decisions::next_action;
use crate::downstream::Downstreams;
use crate::flow::{Flow, Trigger};
use crate::ids::{FlowId, TraceId};
use crate::ports::{CasWrite, Clock, FlowStore, Jitter, Seen, StoreError, WakeQueue};
use crate::state::State;
use step::StepEnd;

/// Why and for how long a flow is advanced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Which entrance.
    pub trigger: Trigger,
    /// Correlates the writes with logs and with the caller's request.
    pub trace_id: Option<TraceId>,
    /// No step is begun after so many milliseconds. A step that was begun is finished.
    pub budget_ms: u64,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The flow is in a terminal state.
    Terminal,
    /// People must look at it.
    Held,
    /// Nothing more to do now; due again after so many milliseconds.
    Waiting {
        /// In milliseconds.
        next_in_ms: u64,
    },
    /// Our own gate (breaker, rate budget) let no call out. Nothing was written: the row is as due as it was, so that
    /// the oldest is tried first when the gate opens.
    GateClosed {
        /// Worth another try by this process after so many milliseconds.
        retry_in_ms: u64,
    },
    /// The time budget or the step limit ran out; the flow is due again soon.
    BudgetSpent,
    /// Another entrance wrote the same or more; it carries the flow on.
    Overtaken,
    /// The row is on a branch that our evidence excludes. Alerted; nothing was written.
    Contradicted,
}

/// What a call came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advanced {
    /// The row as this call last saw or wrote it.
    pub flow: Flow,
    /// How it ended.
    pub end: End,
    /// Steps taken.
    pub steps: u32,
    /// Whether this call changed the state.
    pub moved: bool,
}

/// Why a call could not be carried out. The row is as the last committed write left it; the scanner will find it.
#[derive(Debug, thiserror::Error)]
pub enum AdvanceError {
    /// There is no such flow.
    #[error("there is no flow {flow_id}")]
    NotFound {
        /// The id that was asked for.
        flow_id: FlowId,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl AdvanceError {
    /// Whether the same call may succeed later without anything being repaired.
    pub const fn retryable(&self) -> bool {
        match self {
            AdvanceError::NotFound { .. } => false,
            AdvanceError::Store(error) => error.retryable(),
        }
    }
}

/// Moves flows. Shared behind an `Arc` by all tasks of a process; keeps nothing between calls.
pub struct Advancer {
    store: Arc<dyn FlowStore>,
    downstreams: Downstreams,
    wake: Arc<dyn WakeQueue>,
    clock: Arc<dyn Clock>,
    jitter: Arc<dyn Jitter>,
    settings: AdvanceSettings,
}

/// A row together with the moment it was seen, so that "now" stays the database's clock without asking it again.
struct Seat {
    flow: Flow,
    db_now: DateTime<Utc>,
    seen_at_ms: u64,
}

impl Seat {
    fn new(flow: Flow, db_now: DateTime<Utc>, clock: &dyn Clock) -> Seat {
        Seat { flow, db_now, seen_at_ms: clock.monotonic_ms() }
    }

    fn now(&self, clock: &dyn Clock) -> DateTime<Utc> {
        self.at(clock.monotonic_ms())
    }

    /// The database's time at a moment of the monotonic clock.
    fn at(&self, monotonic_ms: u64) -> DateTime<Utc> {
        let passed_ms = monotonic_ms.saturating_sub(self.seen_at_ms);
        self.db_now + TimeDelta::milliseconds(i64::try_from(passed_ms).unwrap_or(0))
    }
}

impl Advancer {
    /// Puts the parts together.
    pub fn new(
        store: Arc<dyn FlowStore>,
        downstreams: Downstreams,
        wake: Arc<dyn WakeQueue>,
        clock: Arc<dyn Clock>,
        jitter: Arc<dyn Jitter>,
        settings: AdvanceSettings,
    ) -> Advancer {
        Advancer { store, downstreams, wake, clock, jitter, settings }
    }

    /// Loads a flow and takes it as far as it goes now.
    ///
    /// # Errors
    /// [`AdvanceError`]: no such flow, or the store failed.
    pub async fn advance(&self, flow_id: FlowId, call: &Call) -> Result<Advanced, AdvanceError> {
        let started_ms = self.clock.monotonic_ms();
        let seat = self.load(flow_id).await?;
        self.run(seat, call, started_ms).await
    }

    /// Takes a row that was just created or read as far as it goes now: spares the first read.
    ///
    /// # Errors
    /// [`AdvanceError::Store`].
    pub async fn advance_seen(&self, seen: Seen<Flow>, call: &Call) -> Result<Advanced, AdvanceError> {
        let started_ms = self.clock.monotonic_ms();
        let seat = Seat::new(seen.value, seen.now, &*self.clock);
        self.run(seat, call, started_ms).await
    }

    async fn load(&self, flow_id: FlowId) -> Result<Seat, AdvanceError> {
        let seen = self.store.load(flow_id).await?;
        let flow = seen.value.ok_or(AdvanceError::NotFound { flow_id })?;
        Ok(Seat::new(flow, seen.now, &*self.clock))
    }

    async fn run(&self, mut seat: Seat, call: &Call, started_ms: u64) -> Result<Advanced, AdvanceError> {
        let mut entry = Entry::Found;
        let mut moved = false;
        let mut steps = 0;
        let end = loop {
            let action = next_action(&seat.flow, entry, seat.now(&*self.clock));
            match action {
                Action::RestTerminal => break End::Terminal,
                Action::RestHeld => break End::Held,
                Action::EnterPaying
                | Action::Debit
                | Action::QueryCharge
                | Action::CloseCharge
                | Action::ExecuteThenReadFact
                | Action::ReadFact
                | Action::Refund
                | Action::QueryRefund => {}
            }
            let spent_ms = self.clock.monotonic_ms().saturating_sub(started_ms);
            if steps >= self.settings.max_steps || (steps > 0 && spent_ms >= call.budget_ms) {
                break End::BudgetSpent;
            }
            steps += 1;
            match self.step(&seat, action, call).await? {
                StepEnd::Moved(flow) => {
                    seat.flow = flow;
                    entry = Entry::JustEntered;
                    moved = true;
                }
                StepEnd::Stayed { flow, next_in_ms } => {
                    seat.flow = flow;
                    break End::Waiting { next_in_ms };
                }
                StepEnd::Left { retry_in_ms } => break End::GateClosed { retry_in_ms },
                StepEnd::Held(flow) => {
                    seat.flow = flow;
                    break End::Held;
                }
                StepEnd::StartOver => {
                    seat = self.load(seat.flow.id).await?;
                    entry = Entry::Found;
                }
                StepEnd::Lost(write) => {
                    seat = self.load(seat.flow.id).await?;
                    entry = Entry::Found;
                    if let Some(end) = after_lost(&write, &seat.flow) {
                        break end;
                    }
                }
            }
        };
        self.schedule_wake(&seat.flow, end).await;
        histogram!("advance_steps", "trigger" => call.trigger.as_str()).record(steps);
        Ok(Advanced { flow: seat.flow, end, steps, moved })
    }

    /// Asks to be woken when the flow is due. A wake-up that is not taken costs time only: the scanner finds the row.
    async fn schedule_wake(&self, flow: &Flow, end: End) {
        let delay_ms = match end {
            End::Waiting { next_in_ms } => next_in_ms,
            End::GateClosed { retry_in_ms } => retry_in_ms,
            End::BudgetSpent => 0,
            End::Terminal | End::Held | End::Overtaken | End::Contradicted => return,
        };
        if let Err(error) = self.wake.wake_after(flow.id, flow.version, delay_ms).await {
            counter!("wake_refused_total").increment(1);
            tracing::debug!(flow_id = %flow.id, state = %flow.state, %error, "wake-up not taken");
        }
    }
}

/// What a lost compare-and-swap means, given the row as it is now; `None` to start over from it.
fn after_lost(write: &CasWrite, actual: &Flow) -> Option<End> {
    let wanted = write.to();
    counter!("flow_cas_lost_total", "wanted" => wanted.as_str(), "found" => actual.state.as_str())
        .increment(1);
    if wanted == write.from {
        // A reschedule or a hold: whoever moved or rescheduled the row meanwhile carries it on.
        return Some(resting(actual.state).unwrap_or(End::Overtaken));
    }
    if actual.state.is_at_or_after(wanted) {
        return Some(resting(actual.state).unwrap_or(End::Overtaken));
    }
    if actual.state == write.from {
        return None;
    }
    counter!("flow_contradictions_total", "wanted" => wanted.as_str(), "found" => actual.state.as_str())
        .increment(1);
    tracing::error!(
        flow_id = %actual.id, trade_order_no = %actual.trade_order_no, from = %write.from, wanted = %wanted,
        found = %actual.state, version = actual.version.0, outcome = write.evidence.outcome,
        "the row is on a branch that the evidence excludes; nothing was written, look into it",
    );
    Some(End::Contradicted)
}

fn resting(state: State) -> Option<End> {
    state.is_terminal().then_some(End::Terminal)
}
