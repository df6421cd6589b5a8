//! What is owed to receivers, for dashboards and alerts.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use flow_core::ids::CallerId;
use flow_core::ports::{Outbox, OutboxSummary, StoreError};
use metrics::gauge;
use tokio_util::sync::CancellationToken;

/// Counts what is owed and exports `notification_pending`, `notification_oldest_age_ms` and `notification_dead`, each by
/// application. One of `known` to whom nothing is owed is exported as 0. Gives the applications to whom something is
/// pending, and whom nobody here can tell.
///
/// # Errors
/// The store failed; the gauges keep their last values.
pub async fn export(
    outbox: &dyn Outbox,
    known: &mut BTreeSet<CallerId>,
    receivers: &BTreeSet<CallerId>,
) -> Result<Vec<CallerId>, StoreError> {
    let summaries = outbox.summarise_outbox().await?;
    known.extend(summaries.iter().map(|summary| summary.caller.clone()));
    let mut stranded = Vec::new();
    for caller in known.iter() {
        let none =
            OutboxSummary { caller: caller.clone(), pending_rows: 0, oldest_pending_ms: 0, dead_rows: 0 };
        let summary = summaries.iter().find(|summary| summary.caller == *caller).unwrap_or(&none);
        set("notification_pending", caller, summary.pending_rows);
        set("notification_oldest_age_ms", caller, summary.oldest_pending_ms);
        set("notification_dead", caller, summary.dead_rows);
        if summary.pending_rows > 0 && !receivers.contains(caller) {
            stranded.push(caller.clone());
        }
    }
    Ok(stranded)
}

#[allow(clippy::cast_precision_loss, reason = "a gauge is a float; counts and ages are far below 2^52")]
fn set(name: &'static str, caller: &CallerId, value: u64) {
    gauge!(name, "caller" => caller.to_string()).set(value as f64);
}

/// Exports every `interval_ms` until `stop` fires.
pub async fn run(
    outbox: Arc<dyn Outbox>,
    receivers: BTreeSet<CallerId>,
    interval_ms: u64,
    stop: CancellationToken,
) {
    let mut ticks = tokio::time::interval(Duration::from_millis(interval_ms));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut known = receivers.clone();
    let mut said: Vec<CallerId> = Vec::new();
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        match export(&*outbox, &mut known, &receivers).await {
            Ok(stranded) => {
                for caller in stranded.iter().filter(|caller| !said.contains(caller)) {
                    tracing::warn!(
                        %caller,
                        "notifications wait for an application that [notifications] of this process does not have"
                    );
                }
                said = stranded;
            }
            Err(error) => {
                tracing::warn!(%error, "what is owed to receivers could not be counted; its gauges are old");
            }
        }
    }
}
