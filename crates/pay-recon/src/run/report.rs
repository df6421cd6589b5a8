//! What a run says while it goes on, and at its end.

use flow_core::ids::BatchId;
use flow_core::ports::BatchBill;
use flow_core::recon::Tally;

/// Where a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Reads the bill and our flows.
    Reading,
    /// Compares orders.
    Orders {
        /// Records that will be looked at.
        records: u64,
    },
}

/// Is told how far a run has come.
pub trait Progress: Send + Sync {
    /// A phase begins.
    fn phase(&self, phase: Phase);
    /// So many more records were looked at: rows and flows, or orders, as the phase has it.
    fn step(&self, records: u64);
}

/// Nobody wants to know.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoProgress;

impl Progress for NoProgress {
    fn phase(&self, _phase: Phase) {}
    fn step(&self, _records: u64) {}
}

/// A row of the bill that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuarantinedLine {
    /// Its line.
    pub line: u64,
    /// Why, in words that hold no value of it.
    pub reason: String,
}

impl QuarantinedLine {
    /// Most of them that are listed; all are counted.
    pub const MOST: usize = 100;
}

/// What a run came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunReport {
    /// The batch, unless it was a dry run.
    pub batch: Option<BatchId>,
    /// What was counted.
    pub tally: Tally,
    /// The bill.
    pub bill: BatchBill,
    /// The first rows that could not be read.
    pub quarantined: Vec<QuarantinedLine>,
}

impl RunReport {
    /// Whether nothing is left for people to look at.
    pub const fn is_clean(&self) -> bool {
        self.tally.is_clean()
    }
}
