//! After the request's own advance: this process pushes the flows that it was asked to wake, until they rest or their
//! time here is over. A crash loses the queue; the scanner finds the rows.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::TimeDelta;
use flow_core::advance::{Advancer, Call};
use flow_core::flow::Trigger;
use flow_core::ids::FlowId;
use flow_core::ports::FlowStore;
use metrics::counter;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Changes;

/// The reading end of the in-process wake-up queue.
#[async_trait]
pub trait DueFlows: Send {
    /// The next flow that is due; `None` when there will be none any more.
    async fn next_due(&mut self) -> Option<FlowId>;
}

/// Bounds of the timer.
#[derive(Debug, Clone, Copy)]
pub struct TimerSettings {
    /// How long after its creation a flow is pushed from here, in milliseconds.
    pub bound_ms: u64,
    /// Most advances at once.
    pub parallelism: usize,
    /// Time budget of one advance, in milliseconds.
    pub budget_ms: u64,
    /// Longest time for advances under way to finish at the end, in milliseconds.
    pub drain_ms: u64,
}

/// Pushes due flows, until told to stop.
pub struct Timer {
    /// Where flows are read.
    pub store: Arc<dyn FlowStore>,
    /// What moves them.
    pub advancer: Arc<Advancer>,
    /// Whom to tell.
    pub changes: Arc<Changes>,
    /// Bounds.
    pub settings: TimerSettings,
}

impl Timer {
    /// Runs until `stopping` fires or the queue ends, then lets what is under way finish, for a bounded time.
    pub async fn run(self, mut due: impl DueFlows, stopping: CancellationToken) {
        let drain_ms = self.settings.drain_ms;
        let places = Arc::new(Semaphore::new(self.settings.parallelism.clamp(1, Semaphore::MAX_PERMITS)));
        let tasks = TaskTracker::new();
        let timer = Arc::new(self);
        loop {
            let next = async {
                let place = Arc::clone(&places).acquire_owned().await.ok()?;
                Some((place, due.next_due().await?))
            };
            let Some(Some((place, flow_id))) = stopping.run_until_cancelled(next).await else { break };
            let timer = Arc::clone(&timer);
            tasks.spawn(async move {
                timer.push(flow_id).await;
                drop(place);
            });
        }
        tasks.close();
        if tokio::time::timeout(Duration::from_millis(drain_ms), tasks.wait()).await.is_err() {
            tracing::warn!(
                flows = tasks.len(),
                "timer advances did not finish in time; the scanner will find the flows"
            );
        }
    }

    async fn push(&self, flow_id: FlowId) {
        let seen = match self.store.load(flow_id).await {
            Ok(seen) => seen,
            Err(error) => {
                counter!("timer_failed_total").increment(1);
                tracing::warn!(
                    %flow_id, error = &error as &dyn std::error::Error,
                    "a due flow could not be read; the scanner will find it",
                );
                return;
            }
        };
        let now = seen.now;
        let Some(flow) = seen.value else { return };
        let bound =
            TimeDelta::milliseconds(i64::try_from(self.settings.bound_ms).unwrap_or(i64::MAX / 1_000_000));
        if now - flow.created_at > bound {
            counter!("timer_left_to_scanner_total").increment(1);
            tracing::debug!(%flow_id, state = %flow.state, "past the timer's bound; it is the scanner's now");
            return;
        }
        let call = Call { trigger: Trigger::Timer, trace_id: None, budget_ms: self.settings.budget_ms };
        let seen = flow_core::ports::Seen { value: flow, now };
        if let Err(error) = self.advancer.advance_seen(seen, &call).await {
            counter!("timer_failed_total").increment(1);
            tracing::warn!(
                %flow_id, retryable = error.retryable(), error = &error as &dyn std::error::Error,
                "advance by timer failed; the scanner will find the flow",
            );
        }
        self.changes.announce(flow_id);
    }
}
