//! What is done with a wake-up that a broker delivered: the row is read, and it alone decides. The message names a flow,
//! and nothing else of it is believed, so that one that comes late, twice, early, out of order or from nowhere does no
//! harm: at most a row is read in vain.

use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use flow_core::advance::{AdvanceError, Advancer, Call};
use flow_core::flow::{Flow, Trigger};
use flow_core::ports::{Awaken, Awoken, FlowStore, Seen, WakeUp};
use metrics::counter;

/// Longest wait that a wake-up which came early is sent back for, in milliseconds. What is due later is the scanner's.
const LONGEST_NOT_YET_MS: u64 = 600_000;

/// Advances flows that a broker wakes.
pub struct WakeFlow {
    store: Arc<dyn FlowStore>,
    advancer: Arc<Advancer>,
    budget_ms: u64,
}

/// What a wake-up came to, as it is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Became {
    /// The flow was advanced.
    Advanced,
    /// It had ended, or waits for people.
    AtRest,
    /// Somebody has written the row since, and it is not due: whoever wrote has asked for a wake-up of his own.
    Stale,
    /// The row is not due; the wake-up comes again when it is.
    Early { in_ms: u64 },
    /// The row is not due for long; the scanner will find it.
    LeftToScanner,
    /// There is no such flow.
    Unknown,
    /// The row could not be read or written.
    Failed,
}

impl Became {
    const fn as_str(self) -> &'static str {
        match self {
            Became::Advanced => "advanced",
            Became::AtRest => "at_rest",
            Became::Stale => "stale",
            Became::Early { .. } => "early",
            Became::LeftToScanner => "left_to_scanner",
            Became::Unknown => "unknown",
            Became::Failed => "failed",
        }
    }

    const fn awoken(self) -> Awoken {
        match self {
            Became::Advanced | Became::AtRest | Became::Stale | Became::LeftToScanner | Became::Unknown => {
                Awoken::Done
            }
            Became::Early { in_ms } => Awoken::NotYet { in_ms },
            Became::Failed => Awoken::Failed,
        }
    }
}

/// Whether a row is to be advanced on account of a wake-up; if not, what that is called.
fn judge(wake_up: WakeUp, flow: &Flow, now: DateTime<Utc>) -> Result<(), Became> {
    if flow.state.is_terminal() || flow.hold.is_some() {
        return Err(Became::AtRest);
    }
    if flow.next_retry_time <= now {
        return Ok(());
    }
    if flow.version != wake_up.version {
        return Err(Became::Stale);
    }
    if wake_up.at_once {
        return Ok(());
    }
    // Rounded up: a whole millisecond too early would be early again.
    let in_ms = u64::try_from((flow.next_retry_time - now).num_milliseconds()).unwrap_or(0) + 1;
    Err(if in_ms > LONGEST_NOT_YET_MS { Became::LeftToScanner } else { Became::Early { in_ms } })
}

impl WakeFlow {
    /// `budget_ms`: see [`Call::budget_ms`].
    pub fn new(store: Arc<dyn FlowStore>, advancer: Arc<Advancer>, budget_ms: u64) -> WakeFlow {
        WakeFlow { store, advancer, budget_ms }
    }

    async fn work(&self, wake_up: WakeUp) -> Result<Became, AdvanceError> {
        let Seen { value: Some(flow), now } = self.store.load(wake_up.flow_id).await? else {
            return Ok(Became::Unknown);
        };
        if let Err(became) = judge(wake_up, &flow, now) {
            return Ok(became);
        }
        let call = Call { trigger: Trigger::Wake, trace_id: None, budget_ms: self.budget_ms };
        self.advancer.advance_seen(Seen { value: flow, now }, &call).await?;
        Ok(Became::Advanced)
    }
}

#[async_trait]
impl Awaken for WakeFlow {
    async fn awaken(&self, wake_up: WakeUp) -> Awoken {
        let became = self.work(wake_up).await.unwrap_or_else(|error| {
            tracing::warn!(
                flow_id = %wake_up.flow_id, version = wake_up.version.0, retryable = error.retryable(),
                error = &error as &dyn std::error::Error, "advance by wake-up failed; the scanner will find the flow",
            );
            Became::Failed
        });
        counter!("scanner_wake_ups_total", "became" => became.as_str()).increment(1);
        became.awoken()
    }
}
