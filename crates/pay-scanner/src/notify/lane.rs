//! One receiver: claim, tell, settle.

use std::sync::Arc;
use std::time::Duration;

use flow_core::ids::CallerId;
use flow_core::notify::{DeliveryAnswer, NextStep, judge};
use flow_core::ports::{ClaimPage, Claimed, Settled, Settlement};
use metrics::counter;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::Notifier;

/// Sending ends so long before the claim does, in milliseconds: the claim was made a little earlier at the database than
/// its answer was heard here.
const FENCE_MS: u64 = 500;
/// Tries at writing what became of a notification. If all fail, the claim runs out, and it is sent again.
const SETTLE_TRIES: u32 = 3;
/// Pause between them, in milliseconds.
const SETTLE_PAUSE_MS: u64 = 200;
/// Longest pause after looks that failed, in milliseconds.
const MAX_FAILURE_PAUSE_MS: u64 = 15_000;
/// Shortest pause for a gate, in milliseconds.
const SHORTEST_PAUSE_MS: u64 = 10;

/// One receiver's deliveries.
pub(super) struct Lane {
    pub(super) notifier: Arc<Notifier>,
    pub(super) caller: CallerId,
    /// Most calls at once.
    pub(super) places: u32,
    pub(super) stop: CancellationToken,
}

/// What a look at the outbox says about the next one.
enum Next {
    /// There is more, as far as can be seen: when a place is free.
    Place,
    /// In so many milliseconds.
    Pause(u64),
}

impl Lane {
    /// Delivers until told to stop; then settles what is being sent.
    pub(super) async fn run(self) {
        let mut under_way = JoinSet::new();
        let mut failures: u32 = 0;
        while !self.stop.is_cancelled() {
            while under_way.try_join_next().is_some() {}
            match self.look(&mut under_way, &mut failures).await {
                Next::Place => {
                    let place = under_way.join_next();
                    self.stop.run_until_cancelled(place).await;
                }
                Next::Pause(ms) => {
                    self.stop.run_until_cancelled(tokio::time::sleep(Duration::from_millis(ms))).await;
                }
            }
        }
        while under_way.join_next().await.is_some() {}
    }

    /// Claims as many rows as there are places, and begins to send them.
    async fn look(&self, under_way: &mut JoinSet<()>, failures: &mut u32) -> Next {
        let poll_ms = self.notifier.settings.poll_interval_ms;
        let taken = u32::try_from(under_way.len()).unwrap_or(u32::MAX);
        let free = self.places.saturating_sub(taken);
        if free == 0 {
            return Next::Place;
        }
        let room = match self.notifier.receivers.room(&self.caller, free) {
            Ok(room) => room,
            Err(wait_ms) => {
                return Next::Pause(wait_ms.clamp(SHORTEST_PAUSE_MS, poll_ms.max(SHORTEST_PAUSE_MS)));
            }
        };
        let page = ClaimPage {
            caller: self.caller.clone(),
            limit_rows: room,
            claim_ms: self.notifier.settings.claim_ms,
        };
        let asked_ms = self.notifier.clock.monotonic_ms();
        let claimed = match self.notifier.outbox.claim_due(page).await {
            Ok(claimed) => claimed,
            Err(error) => {
                *failures = failures.saturating_add(1);
                tracing::warn!(caller = %self.caller, %error, "notifications could not be claimed; they stay due");
                let doublings = failures.saturating_sub(1).min(16);
                return Next::Pause(poll_ms.saturating_mul(1 << doublings).min(MAX_FAILURE_PAUSE_MS));
            }
        };
        *failures = 0;
        let is_full = u32::try_from(claimed.len()).is_ok_and(|rows| rows >= room);
        for claimed in claimed {
            under_way.spawn(deliver(Arc::clone(&self.notifier), claimed, asked_ms));
        }
        if is_full { Next::Place } else { Next::Pause(poll_ms) }
    }
}

/// Tells once and writes what became of it.
async fn deliver(notifier: Arc<Notifier>, claimed: Claimed, asked_ms: u64) {
    let Claimed { notification, tries, claim } = claimed;
    let elapsed_ms = || notifier.clock.monotonic_ms().saturating_sub(asked_ms);
    let left_ms = notifier.settings.claim_ms.saturating_sub(elapsed_ms() + FENCE_MS);
    if left_ms == 0 {
        tracing::warn!(event_id = %notification.id, "a claim ended before its notification was sent; it stays due");
        return;
    }
    let telling = notifier.receivers.notify(&notification);
    let (answer, latency_ms) = match tokio::time::timeout(Duration::from_millis(left_ms), telling).await {
        Ok(told) => told,
        Err(_) => (DeliveryAnswer::TimedOut, u32::try_from(left_ms).unwrap_or(u32::MAX)),
    };
    let next = judge(answer, tries, &notifier.settings.retry, notifier.jitter.draw());
    count(&notification.caller, answer, next);
    let settlement = Settlement { id: notification.id, claim, answer, latency_ms, next };
    say(&notification.caller, &settlement);
    settle(&notifier, settlement).await;
}

async fn settle(notifier: &Notifier, settlement: Settlement) {
    let event_id = settlement.id;
    for _ in 0..SETTLE_TRIES {
        match notifier.outbox.settle(settlement.clone()).await {
            Ok(Settled::Written) => return,
            // Written by a try whose answer was lost; or the claim has run out, and somebody else sends it.
            Ok(Settled::ClaimLost) => {
                tracing::info!(%event_id, "a notification was settled already, or is somebody else's by now");
                return;
            }
            Err(error) => {
                tracing::warn!(%event_id, %error, "what became of a notification could not be written");
            }
        }
        tokio::time::sleep(Duration::from_millis(SETTLE_PAUSE_MS)).await;
    }
    counter!("notification_unsettled_total").increment(1);
    tracing::warn!(%event_id, "given up: its claim runs out, and it is sent again");
}

fn count(caller: &CallerId, answer: DeliveryAnswer, next: NextStep) {
    counter!("notification_attempts_total", "caller" => caller.to_string(), "answer" => answer.class())
        .increment(1);
    if next == NextStep::Dead {
        counter!("notification_died_total", "caller" => caller.to_string()).increment(1);
    }
}

/// One line per attempt. Ids and classes alone: neither address nor body.
fn say(caller: &CallerId, settlement: &Settlement) {
    let Settlement { id, answer, latency_ms, next, .. } = settlement;
    let (event_id, answer, status) = (id, answer.class(), answer.http_status());
    match next {
        NextStep::Delivered => {
            tracing::debug!(%event_id, %caller, answer, status, latency_ms, "a notification was delivered");
        }
        NextStep::Retry { in_ms } => {
            tracing::info!(%event_id, %caller, answer, status, latency_ms, in_ms, "a notification will be sent again");
        }
        NextStep::Postponed { in_ms } => {
            tracing::debug!(%event_id, %caller, answer, in_ms, "a notification was kept back by our own gate");
        }
        NextStep::Dead => {
            tracing::warn!(%event_id, %caller, answer, status, latency_ms, "a notification is given up; people may resend it");
        }
    }
}
