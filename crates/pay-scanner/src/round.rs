//! One round: every partition that can be had, from its first due row to its last, with one "now" for all.
//!
//! The cursor lives inside a round only. A row that becomes due behind it is found by the next round.

use std::sync::Arc;

use flow_core::ports::{Clock, FlowStore, StoreError};
use metrics::{counter, histogram};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::advance::Advance;
use crate::lanes::Lanes;
use crate::partition::{PartitionSweep, Swept};
use crate::report::{PartitionEnd, RoundReport};

/// Partitions swept at once: while the last slow rows of one are under way, the next one is begun. Few, so that
/// replicas find partitions to take.
const PARTITIONS_AT_ONCE: usize = 2;

/// How a round goes about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SweepSettings {
    /// Parts of the id space that replicas share; the same for all of them, at least 1.
    pub partitions: u32,
    /// Rows read at once, at least 1.
    pub page_rows: u32,
    /// Most rows worked on at once for one downstream system, at least 1.
    pub max_parallel_flows: usize,
}

/// What rounds are made with; cheap to clone.
#[derive(Clone)]
pub struct Sweep {
    pub(crate) store: Arc<dyn FlowStore>,
    pub(crate) advance: Arc<dyn Advance>,
    pub(crate) settings: SweepSettings,
    pub(crate) clock: Arc<dyn Clock>,
}

/// The store failed, and the round ended early. Rows that were begun are finished; the rest is the next round's.
#[derive(Debug, thiserror::Error)]
#[error("the store failed after {} rows; the next round starts over", report.tally.seen)]
pub struct RoundFailed {
    /// How far it came.
    pub report: RoundReport,
    /// The first failure.
    pub source: StoreError,
}

impl Sweep {
    /// Puts the parts together.
    pub fn new(
        store: Arc<dyn FlowStore>,
        advance: Arc<dyn Advance>,
        clock: Arc<dyn Clock>,
        settings: SweepSettings,
    ) -> Sweep {
        Sweep { store, advance, settings, clock }
    }

    /// How rounds go about it.
    pub fn settings(&self) -> SweepSettings {
        self.settings
    }

    /// One round, starting at a partition and going round to the one before it. `stop` keeps it from beginning
    /// anything new.
    ///
    /// # Errors
    /// [`RoundFailed`]. A row that fails never ends a round.
    pub async fn round(
        &self,
        first_partition: u32,
        stop: &CancellationToken,
    ) -> Result<RoundReport, RoundFailed> {
        let started_ms = self.clock.monotonic_ms();
        let mut report = RoundReport::default();
        let mut failure = None;
        match self.store.now().await {
            Ok(due_by) => {
                let lanes = Lanes::new(self.settings.max_parallel_flows);
                let mut sweeping: JoinSet<Swept> = JoinSet::new();
                for step in 0..self.settings.partitions {
                    if sweeping.len() >= PARTITIONS_AT_ONCE {
                        collect(sweeping.join_next().await, &mut report, &mut failure);
                    }
                    if failure.is_some() || stop.is_cancelled() {
                        break;
                    }
                    let partition =
                        (first_partition % self.settings.partitions + step) % self.settings.partitions;
                    let (sweep, lanes, stop) = (self.clone(), lanes.clone(), stop.clone());
                    sweeping.spawn(PartitionSweep { sweep, partition, due_by, lanes, stop }.run());
                }
                while let Some(done) = sweeping.join_next().await {
                    collect(Some(done), &mut report, &mut failure);
                }
            }
            Err(error) => failure = Some(error),
        }
        report.took_ms = self.clock.monotonic_ms().saturating_sub(started_ms);
        publish(&report, failure.as_ref());
        match failure {
            None => Ok(report),
            Some(source) => Err(RoundFailed { report, source }),
        }
    }
}

fn collect(
    done: Option<Result<Swept, tokio::task::JoinError>>,
    report: &mut RoundReport,
    failure: &mut Option<StoreError>,
) {
    match done {
        Some(Ok((partition, error))) => {
            report.add(partition);
            if failure.is_none() {
                *failure = error;
            }
        }
        // A sweep that panicked: logged where it happened; its lease went with its connection.
        Some(Err(_)) => counter!("scanner_sweeps_panicked_total").increment(1),
        None => {}
    }
}

/// One line and the metrics of a round. A round that met nothing is logged at debug level only.
fn publish(report: &RoundReport, failure: Option<&StoreError>) {
    let tally = report.tally;
    for (became, rows) in [
        ("advanced", tally.advanced),
        ("repeated", tally.repeated),
        ("gate_closed", tally.gate_closed),
        ("overtaken", tally.overtaken),
        ("held", tally.held),
        ("failed", tally.failed),
        ("left", tally.left),
    ] {
        counter!("scanner_rows_total", "became" => became).increment(rows);
    }
    counter!("scanner_rows_seen_total").increment(tally.seen);
    counter!("scanner_rounds_total", "ended" => if failure.is_none() { "ok" } else { "failed" }).increment(1);
    #[allow(clippy::cast_precision_loss, reason = "milliseconds of a round are far below 2^52")]
    histogram!("scanner_round_took_ms").record(report.took_ms as f64);

    let held_elsewhere = report.ended(PartitionEnd::HeldElsewhere);
    let lease_lost = report.ended(PartitionEnd::LeaseLost);
    counter!("scanner_partitions_held_elsewhere_total").increment(u64::try_from(held_elsewhere).unwrap_or(0));
    macro_rules! log_round {
        ($level:ident, $($more:tt)*) => {
            tracing::$level!(
                seen = tally.seen, advanced = tally.advanced, repeated = tally.repeated,
                gate_closed = tally.gate_closed, overtaken = tally.overtaken,
                held = tally.held, failed = tally.failed, left = tally.left, partitions = report.partitions.len(),
                held_elsewhere, lease_lost, took_ms = report.took_ms, $($more)*
            )
        };
    }
    match failure {
        Some(error) => log_round!(error, %error, "round failed; the next one starts over"),
        None if tally.seen > 0 => log_round!(info, "round"),
        None => log_round!(debug, "round"),
    }
}
