//! Delivers the outbox: one lane per receiver, each with places, rate and breaker of its own, so that a dead receiver
//! delays no other.
//!
//! A lane claims no more rows than it has places for, so that what is claimed is sent at once: memory is bounded by the
//! places, whatever waits in the database. A claim is a lease; sending ends before the lease does, so that no two scanners
//! send one notification at the same time. A scanner that dies leaves its claims to run out. Everything is sent at least
//! once; receivers tell repetitions by the id.

mod lane;
pub mod summary;

use std::sync::Arc;

use flow_core::downstream::Receivers;
use flow_core::notify::RetryPlan;
use flow_core::ports::{Clock, Jitter, Outbox};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use lane::Lane;

/// How deliveries go about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotifySettings {
    /// How long no other scanner takes what this one is sending, in milliseconds. Longer than any call.
    pub claim_ms: u64,
    /// Pause between two looks for what is due, while nothing is, in milliseconds.
    pub poll_interval_ms: u64,
    /// When a failed delivery is tried again, and how often.
    pub retry: RetryPlan,
}

/// What lanes are made with.
pub struct Notifier {
    pub(crate) outbox: Arc<dyn Outbox>,
    pub(crate) receivers: Receivers,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) jitter: Arc<dyn Jitter>,
    pub(crate) settings: NotifySettings,
}

impl Notifier {
    /// Puts the parts together.
    pub fn new(
        outbox: Arc<dyn Outbox>,
        receivers: Receivers,
        clock: Arc<dyn Clock>,
        jitter: Arc<dyn Jitter>,
        settings: NotifySettings,
    ) -> Notifier {
        Notifier { outbox, receivers, clock, jitter, settings }
    }

    /// Delivers until `stop` fires; then nothing more is claimed, and what is being sent is settled. The caller bounds
    /// that wait.
    pub async fn run(self: Arc<Self>, stop: &CancellationToken) {
        let mut lanes = JoinSet::new();
        for (caller, places) in self.receivers.callers() {
            let lane = Lane { notifier: Arc::clone(&self), caller, places, stop: stop.clone() };
            lanes.spawn(lane.run());
        }
        while let Some(ended) = lanes.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "the lane of a receiver ended in a panic; its notifications stay due");
            }
        }
    }
}
