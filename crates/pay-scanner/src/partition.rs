//! The sweep of one partition: lease, pages, rows.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use flow_core::flow::Lane;
use flow_core::ports::{DueFlow, PartitionLease, ScanPage, StoreError};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::advance::Outcome;
use crate::lanes::{Lanes, Seat};
use crate::report::{PartitionEnd, PartitionReport, Tally};
use crate::round::Sweep;

/// One partition of one round.
pub(crate) struct PartitionSweep {
    pub(crate) sweep: Sweep,
    pub(crate) partition: u32,
    /// The round's one "now".
    pub(crate) due_by: DateTime<Utc>,
    /// Shared by the round's partitions.
    pub(crate) lanes: Lanes,
    pub(crate) stop: CancellationToken,
}

/// What a partition came to, and the store's failure if that ended it.
pub(crate) type Swept = (PartitionReport, Option<StoreError>);

impl PartitionSweep {
    /// Sweeps it, if the lease can be had. Rows that were begun are finished before the lease is given back, so that
    /// the next holder does not find them due.
    pub(crate) async fn run(self) -> Swept {
        let mut report = PartitionReport {
            partition: self.partition,
            end: PartitionEnd::HeldElsewhere,
            pages: 0,
            full_pages: 0,
            tally: Tally::default(),
        };
        let mut lease = match self.sweep.store.try_lease(self.partition, self.sweep.settings.partitions).await
        {
            Ok(Some(lease)) => lease,
            Ok(None) => return (report, None),
            Err(error) => {
                report.end = PartitionEnd::StoreFailed;
                return (report, Some(error));
            }
        };
        let mut under_way = JoinSet::new();
        let mut failure = None;
        report.end = match self.pages(&mut *lease, &mut report, &mut under_way).await {
            Ok(end) => end,
            Err(error) => {
                failure = Some(error);
                PartitionEnd::StoreFailed
            }
        };
        while let Some(done) = under_way.join_next().await {
            report.tally.count(outcome_of(done));
        }
        lease.release().await;
        if report.end == PartitionEnd::LeaseLost {
            tracing::warn!(
                partition = self.partition,
                "lost the lease in the middle; its next holder starts over"
            );
        }
        (report, failure)
    }

    async fn pages(
        &self,
        lease: &mut dyn PartitionLease,
        report: &mut PartitionReport,
        under_way: &mut JoinSet<Option<Outcome>>,
    ) -> Result<PartitionEnd, StoreError> {
        let limit_rows = self.sweep.settings.page_rows;
        let mut after_id = 0;
        let mut patience = Patience::default();
        loop {
            if self.stop.is_cancelled() {
                return Ok(PartitionEnd::Stopped);
            }
            if report.pages > 0 && !lease.still_held().await {
                return Ok(PartitionEnd::LeaseLost);
            }
            let page = ScanPage {
                partition: self.partition,
                partitions: self.sweep.settings.partitions,
                after_id,
                due_by: self.due_by,
                limit_rows,
            };
            let rows = self.sweep.store.list_due_after(page).await?;
            let is_full = u32::try_from(rows.len()).is_ok_and(|rows| rows >= limit_rows);
            report.pages += 1;
            report.full_pages += u32::from(is_full);
            let last_id = rows.last().map(|row| row.id.get());
            if !self.begin_rows(rows, &mut patience, &mut report.tally, under_way).await {
                return Ok(PartitionEnd::Stopped);
            }
            match last_id {
                Some(id) if is_full => after_id = id,
                Some(_) | None => return Ok(PartitionEnd::Swept),
            }
        }
    }

    /// Begins every row of a page as soon as its lane has a seat for it; `false` if the process was told to stop first.
    /// The next page is read while the last rows of this one are still under way: the cursor is past them.
    async fn begin_rows(
        &self,
        rows: Vec<DueFlow>,
        patience: &mut Patience,
        tally: &mut Tally,
        under_way: &mut JoinSet<Option<Outcome>>,
    ) -> bool {
        let mut rows = rows.into_iter();
        while let Some(row) = rows.next() {
            tally.seen += 1;
            let seat = tokio::select! {
                biased;
                () = self.stop.cancelled() => {
                    let unbegun = u64::try_from(rows.len()).unwrap_or(u64::MAX);
                    tally.seen += unbegun;
                    tally.left += 1 + unbegun;
                    return false;
                }
                seat = self.seat(&row.lane, patience) => seat,
            };
            match seat {
                Some(seat) => self.begin(row, seat, under_way),
                None => tally.gate_closed += 1,
            }
            while let Some(done) = under_way.try_join_next() {
                tally.count(outcome_of(done));
            }
        }
        true
    }

    /// A seat in the row's lane; `None` if this sweep has waited for that lane as long as it may.
    async fn seat(&self, lane: &Lane, patience: &mut Patience) -> Option<Seat> {
        let left_ms = patience.left_ms(lane)?;
        let started_ms = self.sweep.clock.monotonic_ms();
        let waiting = tokio::time::timeout(Duration::from_millis(left_ms), self.lanes.enter(lane));
        let seat = waiting.await.ok().flatten();
        let waited_ms = self.sweep.clock.monotonic_ms().saturating_sub(started_ms);
        patience.spend(lane, if seat.is_some() { waited_ms } else { left_ms });
        seat
    }

    fn begin(&self, row: DueFlow, seat: Seat, under_way: &mut JoinSet<Option<Outcome>>) {
        let advance = Arc::clone(&self.sweep.advance);
        let flow_id = row.id;
        under_way.spawn(async move {
            let advanced = advance.advance(flow_id).await;
            if matches!(advanced, Ok(Outcome::GateClosed)) {
                seat.close_lane();
            }
            drop(seat);
            advanced
                .inspect_err(|error| {
                    tracing::warn!(%flow_id, %error, "a flow could not be advanced; it stays due");
                })
                .ok()
        });
    }
}

/// How long one sweep waits for seats of one lane, all in all, in milliseconds. Short enough that the partition's other
/// rows need not wait, and that the next round begins at the oldest row again; long enough for some work to be done.
const LANE_PATIENCE_MS: u64 = 500;

/// What is left of the patience, by lane.
#[derive(Default)]
struct Patience {
    spent_ms: HashMap<Lane, u64>,
}

impl Patience {
    fn left_ms(&self, lane: &Lane) -> Option<u64> {
        let spent_ms = self.spent_ms.get(lane).copied().unwrap_or(0);
        (spent_ms < LANE_PATIENCE_MS).then(|| LANE_PATIENCE_MS - spent_ms)
    }

    fn spend(&mut self, lane: &Lane, waited_ms: u64) {
        if waited_ms > 0 {
            *self.spent_ms.entry(lane.clone()).or_default() += waited_ms;
        }
    }
}

/// A row whose work panicked has failed like any other; the panic itself was logged where it happened.
fn outcome_of(done: Result<Option<Outcome>, tokio::task::JoinError>) -> Option<Outcome> {
    done.unwrap_or(None)
}
