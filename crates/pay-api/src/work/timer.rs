//! After the request's own advance: this process pushes the flows that its wake-up queue hands out. A crash loses the
//! queue; the scanner finds the rows.

use std::sync::Arc;

use async_trait::async_trait;
use flow_adapters::timer::WakeHandler;
use flow_core::advance::{Advancer, Call};
use flow_core::flow::Trigger;
use flow_core::ids::FlowId;
use metrics::counter;

use super::Changes;

/// Advances a flow whose time has come, and tells those who wait for it.
pub struct TimedAdvance {
    /// What moves flows.
    pub advancer: Arc<Advancer>,
    /// Whom to tell.
    pub changes: Arc<Changes>,
    /// Time budget of one advance, in milliseconds.
    pub budget_ms: u64,
}

#[async_trait]
impl WakeHandler for TimedAdvance {
    async fn wake(&self, flow_id: FlowId) {
        let call = Call { trigger: Trigger::Timer, trace_id: None, budget_ms: self.budget_ms };
        if let Err(error) = self.advancer.advance(flow_id, &call).await {
            counter!("timer_failed_total").increment(1);
            tracing::warn!(
                %flow_id, retryable = error.retryable(), error = &error as &dyn std::error::Error,
                "advance by timer failed; the scanner will find the flow",
            );
        }
        self.changes.announce(flow_id);
    }
}
