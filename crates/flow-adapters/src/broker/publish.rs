//! Asking the broker for wake-ups: a bounded queue that never waits, and what empties it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use async_trait::async_trait;
use chrono::{SecondsFormat, TimeDelta};
use flow_config::BrokerConfig;
use flow_core::crash::{Spot, between};
use flow_core::ids::{FlowId, Version};
use flow_core::ports::{WakeError, WakeQueue, WakeUp};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use metrics::{counter, gauge};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::link::Link;
use super::{explain, message};
use crate::webhook::WallTime;

/// When the broker is to deliver, and where to.
const SCHEDULE: &str = "Nats-Schedule";
const SCHEDULE_TARGET: &str = "Nats-Schedule-Target";

/// A wake-up on its way to the broker.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ask {
    wake_up: WakeUp,
    due: Instant,
}

/// Why a wake-up was not published. Each is counted by its name.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("the broker did not answer in time")]
    TimedOut,
    #[error("the stream of wake-ups is not there")]
    NoStream,
    #[error("the connection to the broker is lost or overloaded")]
    Connection,
    #[error("the broker refuses: {reason}")]
    Refused { reason: String },
}

impl Refusal {
    const fn as_str(&self) -> &'static str {
        match self {
            Refusal::TimedOut => "timed_out",
            Refusal::NoStream => "no_stream",
            Refusal::Connection => "connection",
            Refusal::Refused { .. } => "refused",
        }
    }
}

#[allow(clippy::wildcard_enum_match_arm, reason = "the client's kinds: the rest are the broker's refusals")]
fn refusal(error: &PublishError) -> Refusal {
    match error.kind() {
        PublishErrorKind::TimedOut => Refusal::TimedOut,
        PublishErrorKind::StreamNotFound => Refusal::NoStream,
        PublishErrorKind::BrokenPipe | PublishErrorKind::MaxAckPending => Refusal::Connection,
        _ => Refusal::Refused { reason: explain(error) },
    }
}

fn refused(why: &'static str) {
    counter!("broker_refused_total", "why" => why).increment(1);
}

#[allow(clippy::disallowed_methods, reason = "a delay runs from the moment at which it was asked for")]
fn now() -> Instant {
    Instant::now()
}

/// Where wake-ups are asked for. Cheap to clone; never waits.
#[derive(Clone)]
pub struct BrokerQueue {
    asks: mpsc::Sender<Ask>,
    link: Arc<Link>,
    longest_delay_ms: u64,
}

impl BrokerQueue {
    pub(super) fn new(asks: mpsc::Sender<Ask>, link: Arc<Link>, longest_delay_ms: u64) -> BrokerQueue {
        BrokerQueue { asks, link, longest_delay_ms }
    }
}

#[async_trait]
impl WakeQueue for BrokerQueue {
    /// Taken means: it will be published, or counted as refused.
    async fn wake_after(&self, flow_id: FlowId, version: Version, delay_ms: u64) -> Result<(), WakeError> {
        if delay_ms > self.longest_delay_ms {
            counter!("broker_left_to_scanner_total").increment(1);
            return Ok(());
        }
        if !self.link.is_usable() {
            refused("away");
            return Err(WakeError::Unavailable);
        }
        let wake_up = WakeUp { flow_id, version, at_once: delay_ms == 0 };
        let ask = Ask { wake_up, due: now() + Duration::from_millis(delay_ms) };
        self.asks.try_send(ask).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => {
                refused("full");
                WakeError::Full
            }
            mpsc::error::TrySendError::Closed(_) => {
                refused("stopping");
                WakeError::Unavailable
            }
        })
    }
}

/// What publishes wake-ups, and keeps the connection's streams in order.
pub struct BrokerPublisher {
    asks: mpsc::Receiver<Ask>,
    max_parallel: usize,
    inner: Arc<Inner>,
}

struct Inner {
    link: Arc<Link>,
    limit: Duration,
    wall_time: WallTime,
    /// Whether the last publication was taken: only a change is logged.
    takes: AtomicBool,
}

impl BrokerPublisher {
    pub(super) fn new(
        asks: mpsc::Receiver<Ask>,
        link: Arc<Link>,
        config: &BrokerConfig,
        wall_time: WallTime,
    ) -> BrokerPublisher {
        let limit = Duration::from_millis(config.publish_timeout_ms);
        let inner = Arc::new(Inner { link, limit, wall_time, takes: AtomicBool::new(true) });
        BrokerPublisher { asks, max_parallel: config.max_parallel_publishes, inner }
    }

    /// Publishes until `stop` fires; then takes nothing more, publishes what waits and returns. Bound the wait outside.
    pub async fn run(mut self, stop: CancellationToken) {
        let keeping = CancellationToken::new();
        let keeper = tokio::spawn({
            let (link, keeping) = (Arc::clone(&self.inner.link), keeping.clone());
            async move { link.keep(&keeping).await }
        });
        let inner = Arc::clone(&self.inner);
        // In one task and in the order of the queue, so that of one flow the last one asked for is the last one sent: the
        // broker keeps that. Each publication ends in bounded time.
        let mut under_way = FuturesUnordered::new();
        loop {
            let has_place = under_way.len() < self.max_parallel;
            tokio::select! {
                biased;
                Some(()) = under_way.next(), if !under_way.is_empty() => {}
                ask = self.next(&stop), if has_place => match ask {
                    Some(ask) => under_way.push(inner.publish(ask)),
                    None => break,
                },
            }
        }
        while let Some(()) = under_way.next().await {}
        drop(under_way);
        keeping.cancel();
        if let Err(error) = keeper.await {
            tracing::error!(%error, "what keeps the broker's streams ended in a panic");
        }
    }

    async fn next(&mut self, stop: &CancellationToken) -> Option<Ask> {
        if let Some(ask) = stop.run_until_cancelled(self.asks.recv()).await {
            return ask;
        }
        self.asks.close();
        self.asks.recv().await
    }
}

impl Inner {
    async fn publish(&self, ask: Ask) {
        let came = tokio::time::timeout(self.limit, self.send(ask)).await.unwrap_or(Err(Refusal::TimedOut));
        let takes = came.is_ok();
        match &came {
            Ok(()) => counter!("broker_published_total").increment(1),
            Err(refusal) => {
                refused(refusal.as_str());
                if matches!(refusal, Refusal::NoStream) {
                    self.link.doubt();
                }
            }
        }
        gauge!("broker_takes").set(f64::from(u8::from(takes)));
        if self.takes.swap(takes, Ordering::Relaxed) != takes {
            match came {
                Ok(()) => tracing::info!("the broker takes wake-ups again"),
                Err(refusal) => tracing::warn!(
                    error = %refusal, flow_id = %ask.wake_up.flow_id,
                    "the broker does not take wake-ups; flows are the scanner's meanwhile"
                ),
            }
        }
    }

    async fn send(&self, ask: Ask) -> Result<(), Refusal> {
        let (names, flow_id) = (&self.link.names, ask.wake_up.flow_id);
        let wait = ask.due.saturating_duration_since(now());
        let due = (self.wall_time)() + TimeDelta::from_std(wait).unwrap_or_default();
        let mut headers = HeaderMap::new();
        headers.insert(SCHEDULE, format!("@at {}", due.to_rfc3339_opts(SecondsFormat::Millis, true)));
        headers.insert(SCHEDULE_TARGET, names.due(flow_id));
        let body = message::encode(ask.wake_up).into();
        let published = between(Spot::BrokerPublish, async {
            self.link.jetstream.publish_with_headers(names.at(flow_id), headers, body).await?.await
        });
        published.await.map(drop).map_err(|error| refusal(&error))
    }
}
