//! What the sweep does with one row, as a trait: the sweep itself knows no downstream.

use std::sync::Arc;

use async_trait::async_trait;
use flow_core::advance::{AdvanceError, Advanced, Advancer, Call, End};
use flow_core::flow::Trigger;
use flow_core::ids::FlowId;
use flow_core::ports::{FlowStore, Seen};

/// What became of one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// This call changed its state.
    Moved,
    /// It was tried and stayed; it was rescheduled.
    Stayed,
    /// Another entrance was there first; nothing was done.
    Overtaken,
    /// Our own breaker or budget let no call out; nothing was written, and it stays due.
    GateClosed,
    /// It waits for people.
    Held,
    /// The row and the evidence contradict each other; alerted where it was found.
    Contradicted,
}

/// Takes one row as far as it goes now.
#[async_trait]
pub trait Advance: Send + Sync {
    /// Advances a row that was due when it was listed.
    ///
    /// # Errors
    /// The row could not be worked on; it stays due, and the next round finds it.
    async fn advance(&self, flow_id: FlowId) -> Result<Outcome, AdvanceError>;
}

/// The real thing: [`Advancer`], for rows that are still due when their turn comes.
pub struct AdvanceDue {
    store: Arc<dyn FlowStore>,
    advancer: Arc<Advancer>,
    budget_ms: u64,
}

impl AdvanceDue {
    /// `budget_ms`: see [`Call::budget_ms`].
    pub fn new(store: Arc<dyn FlowStore>, advancer: Arc<Advancer>, budget_ms: u64) -> AdvanceDue {
        AdvanceDue { store, advancer, budget_ms }
    }
}

#[async_trait]
impl Advance for AdvanceDue {
    /// Reads the row once, as [`Advancer::advance`] would: a row that another replica or the API's timer rescheduled
    /// between the listing and now is left alone, which spares its downstream a call.
    async fn advance(&self, flow_id: FlowId) -> Result<Outcome, AdvanceError> {
        let seen = self.store.load(flow_id).await?;
        let flow = seen.value.ok_or(AdvanceError::NotFound { flow_id })?;
        if flow.state.is_terminal() || flow.next_retry_time > seen.now {
            return Ok(Outcome::Overtaken);
        }
        let call = Call { trigger: Trigger::Scanner, trace_id: None, budget_ms: self.budget_ms };
        let advanced = self.advancer.advance_seen(Seen { value: flow, now: seen.now }, &call).await?;
        Ok(outcome(&advanced))
    }
}

fn outcome(advanced: &Advanced) -> Outcome {
    match advanced.end {
        End::Contradicted => Outcome::Contradicted,
        End::Terminal
        | End::Held
        | End::Waiting { .. }
        | End::GateClosed { .. }
        | End::BudgetSpent
        | End::Overtaken
            if advanced.moved =>
        {
            Outcome::Moved
        }
        End::Held => Outcome::Held,
        End::Waiting { .. } | End::BudgetSpent => Outcome::Stayed,
        End::GateClosed { .. } => Outcome::GateClosed,
        // Terminal without a move of ours: somebody else's.
        End::Terminal | End::Overtaken => Outcome::Overtaken,
    }
}
