//! How many rows are open, how old, how many wait for people: for dashboards and alerts.

use std::sync::Arc;
use std::time::Duration;

use flow_core::ports::{FlowStore, StateSummary, StoreError};
use flow_core::state::State;
use metrics::gauge;
use tokio_util::sync::CancellationToken;

/// Counts the open rows and exports `flow_open`, `flow_held`, `flow_attention` and `flow_oldest_age_ms`, each by
/// state. A state without rows is exported as 0, so that an alert sees the end of a trouble.
///
/// # Errors
/// The store failed; the gauges keep their last values.
pub async fn export(store: &dyn FlowStore, attention_tries: u32) -> Result<(), StoreError> {
    let summaries = store.summarise_open(attention_tries).await?;
    for state in State::ALL.into_iter().filter(|state| !state.is_terminal()) {
        let none = StateSummary { state, rows: 0, held_rows: 0, attention_rows: 0, oldest_age_ms: 0 };
        let summary = summaries.iter().find(|summary| summary.state == state).unwrap_or(&none);
        set("flow_open", state, summary.rows);
        set("flow_held", state, summary.held_rows);
        set("flow_attention", state, summary.attention_rows);
        set("flow_oldest_age_ms", state, summary.oldest_age_ms);
    }
    Ok(())
}

#[allow(clippy::cast_precision_loss, reason = "a gauge is a float; counts and ages are far below 2^52")]
fn set(name: &'static str, state: State, value: u64) {
    gauge!(name, "state" => state.as_str()).set(value as f64);
}

/// Exports every `interval_ms` until `stop` fires.
pub async fn run(store: Arc<dyn FlowStore>, attention_tries: u32, interval_ms: u64, stop: CancellationToken) {
    let mut ticks = tokio::time::interval(Duration::from_millis(interval_ms));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        if let Err(error) = export(&*store, attention_tries).await {
            tracing::warn!(%error, "the open rows could not be counted; their gauges are old");
        }
    }
}
