//! The sweep of one partition: lease, pages, rows.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use flow_core::ids::FlowId;
use flow_core::ports::{PartitionLease, ScanPage, StoreError};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::advance::Outcome;
use crate::report::{PartitionEnd, PartitionReport, Tally};
use crate::round::Sweep;

/// One partition of one round.
pub(crate) struct PartitionSweep {
    pub(crate) sweep: Sweep,
    pub(crate) partition: u32,
    /// The round's one "now".
    pub(crate) due_by: DateTime<Utc>,
    /// Shared by the round's partitions: as many seats as rows may be worked on at once.
    pub(crate) seats: Arc<Semaphore>,
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
            let ids = self.sweep.store.list_due_after(page).await?;
            let is_full = u32::try_from(ids.len()).is_ok_and(|rows| rows >= limit_rows);
            report.pages += 1;
            report.full_pages += u32::from(is_full);
            let last_id = ids.last().map(|id| id.get());
            if !self.begin_rows(ids, &mut report.tally, under_way).await {
                return Ok(PartitionEnd::Stopped);
            }
            match last_id {
                Some(id) if is_full => after_id = id,
                Some(_) | None => return Ok(PartitionEnd::Swept),
            }
        }
    }

    /// Begins every row of a page as soon as there is a seat for it; `false` if the process was told to stop first.
    /// The next page is read while the last rows of this one are still under way: the cursor is past them.
    async fn begin_rows(
        &self,
        ids: Vec<FlowId>,
        tally: &mut Tally,
        under_way: &mut JoinSet<Option<Outcome>>,
    ) -> bool {
        let mut ids = ids.into_iter();
        while let Some(flow_id) = ids.next() {
            tally.seen += 1;
            let seat = tokio::select! {
                biased;
                () = self.stop.cancelled() => None,
                seat = Arc::clone(&self.seats).acquire_owned() => seat.ok(),
            };
            let Some(seat) = seat else {
                let unbegun = u64::try_from(ids.len()).unwrap_or(u64::MAX);
                tally.seen += unbegun;
                tally.left += 1 + unbegun;
                return false;
            };
            let advance = Arc::clone(&self.sweep.advance);
            under_way.spawn(async move {
                let advanced = advance.advance(flow_id).await;
                drop(seat);
                advanced
                    .inspect_err(|error| {
                        tracing::warn!(%flow_id, %error, "a flow could not be advanced; it stays due");
                    })
                    .ok()
            });
            while let Some(done) = under_way.try_join_next() {
                tally.count(outcome_of(done));
            }
        }
        true
    }
}

/// A row whose work panicked has failed like any other; the panic itself was logged where it happened.
fn outcome_of(done: Result<Option<Outcome>, tokio::task::JoinError>) -> Option<Outcome> {
    done.unwrap_or(None)
}
