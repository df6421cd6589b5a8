//! Rounds over what channels have said and nobody is done with: the process that kept an event died, the order was not
//! there yet, or the wallet did not confirm it yet. Each event is claimed before it is worked on, so that of several
//! scanners one has it.

use std::sync::Arc;
use std::time::Duration;

use flow_core::callback::{Callbacks, Came};
use flow_core::ports::{FlowStore, Inbox, InboxChange, InboxEvent, InboxPage, StoreError};
use metrics::{counter, gauge};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// How a round goes about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InboxSettings {
    /// Events read at once, at least 1.
    pub page_rows: u32,
    /// Most events worked on at once, at least 1.
    pub max_parallel_events: usize,
}

/// Events of one round, by what became of them. `seen` is the sum of all the others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InboxTally {
    /// Listed as due.
    pub seen: u64,
    /// Done.
    pub processed: u64,
    /// Exclude what we know; alerted where they were found.
    pub contradicted: u64,
    /// Tried for too long; alerted where they were found.
    pub given_up: u64,
    /// Due again later.
    pub kept: u64,
    /// Somebody else has them.
    pub taken_over: u64,
    /// Could not be worked on; due again when their claim ends.
    pub failed: u64,
    /// Listed, but not begun: the process was told to stop.
    pub left: u64,
}

impl InboxTally {
    fn count(&mut self, came: Option<&Came>) {
        let field = match came {
            Some(Came::To(InboxChange::Processed)) => &mut self.processed,
            Some(Came::To(InboxChange::Contradicted { .. })) => &mut self.contradicted,
            Some(Came::To(InboxChange::GivenUp { .. })) => &mut self.given_up,
            Some(Came::To(InboxChange::TryAgain { .. })) => &mut self.kept,
            Some(Came::TakenOver) => &mut self.taken_over,
            None => &mut self.failed,
        };
        *field += 1;
    }
}

/// What rounds are made with.
pub struct InboxSweep {
    store: Arc<dyn FlowStore>,
    callbacks: Arc<Callbacks>,
    settings: InboxSettings,
}

type UnderWay = JoinSet<Option<Came>>;

impl InboxSweep {
    /// Puts the parts together.
    pub fn new(store: Arc<dyn FlowStore>, callbacks: Arc<Callbacks>, settings: InboxSettings) -> InboxSweep {
        InboxSweep { store, callbacks, settings }
    }

    /// One round over everything that is due, in pages, with one "now" for all. `stop` keeps it from beginning anything
    /// new.
    ///
    /// # Errors
    /// The store failed; events that were begun are finished, the rest is the next round's. An event that fails never
    /// ends a round.
    pub async fn round(&self, stop: &CancellationToken) -> Result<InboxTally, StoreError> {
        let mut tally = InboxTally::default();
        let mut under_way = UnderWay::new();
        let ended = self.pages(stop, &mut tally, &mut under_way).await;
        while let Some(done) = under_way.join_next().await {
            // One that panicked has failed like any other; the panic was logged where it happened.
            tally.count(done.unwrap_or(None).as_ref());
        }
        publish(&tally);
        ended.map(|()| tally)
    }

    async fn pages(
        &self,
        stop: &CancellationToken,
        tally: &mut InboxTally,
        under_way: &mut UnderWay,
    ) -> Result<(), StoreError> {
        let seats = Arc::new(Semaphore::new(self.settings.max_parallel_events));
        let now = self.store.now().await?;
        let mut after_id = 0;
        while !stop.is_cancelled() {
            let page = InboxPage { after_id, due_by: now, limit_rows: self.settings.page_rows };
            let events = self.callbacks.inbox().list_due_events(page).await?;
            let is_full = u32::try_from(events.len()).is_ok_and(|rows| rows >= self.settings.page_rows);
            let last_id = events.last().map(|event| event.id.get());
            for event in events {
                tally.seen += 1;
                let seat = tokio::select! {
                    biased;
                    () = stop.cancelled() => None,
                    seat = Arc::clone(&seats).acquire_owned() => seat.ok(),
                };
                let Some(seat) = seat else {
                    tally.left += 1;
                    continue;
                };
                let callbacks = Arc::clone(&self.callbacks);
                under_way.spawn(async move {
                    let came = work(&callbacks, event, now).await;
                    drop(seat);
                    came
                });
                while let Some(done) = under_way.try_join_next() {
                    tally.count(done.unwrap_or(None).as_ref());
                }
            }
            match last_id {
                Some(id) if is_full => after_id = id,
                Some(_) | None => break,
            }
        }
        Ok(())
    }
}

async fn work(callbacks: &Callbacks, event: InboxEvent, now: chrono::DateTime<chrono::Utc>) -> Option<Came> {
    let inbox_id = event.id;
    callbacks
        .claim_and_work(event, now)
        .await
        .inspect_err(|error| {
            tracing::warn!(%inbox_id, %error, "a callback could not be worked on; it is due again later");
        })
        .ok()
}

fn publish(tally: &InboxTally) {
    for (became, rows) in [
        ("processed", tally.processed),
        ("contradicted", tally.contradicted),
        ("given_up", tally.given_up),
        ("kept", tally.kept),
        ("taken_over", tally.taken_over),
        ("failed", tally.failed),
        ("left", tally.left),
    ] {
        counter!("scanner_inbox_rows_total", "became" => became).increment(rows);
    }
    if tally.seen > 0 {
        let InboxTally { seen, processed, contradicted, given_up, kept, taken_over, failed, left } = *tally;
        tracing::info!(
            seen,
            processed,
            contradicted,
            given_up,
            kept,
            taken_over,
            failed,
            left,
            "inbox round"
        );
    }
}

/// Counts the open events and exports `inbox_open` and `inbox_oldest_open_age_ms`.
///
/// # Errors
/// The store failed; the gauges keep their last values.
#[allow(clippy::cast_precision_loss, reason = "a gauge is a float; counts and ages are far below 2^52")]
pub async fn export(inbox: &dyn Inbox) -> Result<(), StoreError> {
    let summary = inbox.summarise_inbox().await?;
    gauge!("inbox_open").set(summary.open_rows as f64);
    gauge!("inbox_oldest_open_age_ms").set(summary.oldest_open_age_ms as f64);
    Ok(())
}

/// Rounds until `stop` fires, with a pause between them; the gauges are brought up to date after each one.
pub async fn run(sweep: &InboxSweep, round_interval_ms: u64, stop: &CancellationToken) {
    while !stop.is_cancelled() {
        let round = sweep.round(stop).await;
        let exported = export(&**sweep.callbacks.inbox()).await;
        let mut pause_ms = round_interval_ms;
        if let Err(error) = round.map(drop).and(exported) {
            counter!("scanner_inbox_rounds_failed_total").increment(1);
            tracing::warn!(%error, "a round over the inbox failed; the next one starts over");
            pause_ms = pause_ms.max(FAILURE_PAUSE_MS);
        }
        stop.run_until_cancelled(tokio::time::sleep(Duration::from_millis(pause_ms))).await;
    }
}

/// Shortest pause after a round that failed, in milliseconds.
const FAILURE_PAUSE_MS: u64 = 1_000;
