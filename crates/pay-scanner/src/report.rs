//! What a round came to, as numbers.

use std::ops::AddAssign;

use crate::advance::Outcome;

/// Rows, by what became of them. `seen` is the sum of all the others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Listed as due.
    pub seen: u64,
    /// Changed their state.
    pub advanced: u64,
    /// Tried without a change of state; rescheduled.
    pub repeated: u64,
    /// Left due: our own breaker or budget let no call out, or too many rows were waiting for the same downstream.
    pub gate_closed: u64,
    /// Carried on by somebody else meanwhile.
    pub overtaken: u64,
    /// Now waiting for people.
    pub held: u64,
    /// Could not be worked on, or contradicted their evidence.
    pub failed: u64,
    /// Listed, but not begun: the process was told to stop.
    pub left: u64,
}

impl Tally {
    /// Counts one row that was worked on; `None` if the work failed.
    pub(crate) fn count(&mut self, outcome: Option<Outcome>) {
        let field = match outcome {
            Some(Outcome::Moved) => &mut self.advanced,
            Some(Outcome::Stayed) => &mut self.repeated,
            Some(Outcome::GateClosed) => &mut self.gate_closed,
            Some(Outcome::Overtaken) => &mut self.overtaken,
            Some(Outcome::Held) => &mut self.held,
            Some(Outcome::Contradicted) | None => &mut self.failed,
        };
        *field += 1;
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.seen += other.seen;
        self.advanced += other.advanced;
        self.repeated += other.repeated;
        self.gate_closed += other.gate_closed;
        self.overtaken += other.overtaken;
        self.held += other.held;
        self.failed += other.failed;
        self.left += other.left;
    }
}

/// How a partition's sweep ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartitionEnd {
    /// To its last row.
    Swept,
    /// Another process is sweeping it.
    HeldElsewhere,
    /// The lease was lost in the middle; whoever has it now starts from the beginning.
    LeaseLost,
    /// The process was told to stop.
    Stopped,
    /// The store failed.
    StoreFailed,
}

/// One partition's part of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionReport {
    /// Which, from 0.
    pub partition: u32,
    /// How it ended.
    pub end: PartitionEnd,
    /// Pages read.
    pub pages: u32,
    /// Pages that held as many rows as a page may.
    pub full_pages: u32,
    /// Its rows.
    pub tally: Tally,
}

/// One round.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RoundReport {
    /// Every partition that was tried, in the order of their ends.
    pub partitions: Vec<PartitionReport>,
    /// The sum over the partitions.
    pub tally: Tally,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
}

impl RoundReport {
    pub(crate) fn add(&mut self, partition: PartitionReport) {
        self.tally += partition.tally;
        self.partitions.push(partition);
    }

    /// How many partitions ended so.
    pub fn ended(&self, end: PartitionEnd) -> usize {
        self.partitions.iter().filter(|partition| partition.end == end).count()
    }

    /// Whether there is so much to do that the next round should not wait: a page was full or rows were left,
    /// and the work goes on. When
    /// nothing can be rescheduled, every row stays due, and going on at once would spin.
    pub fn wants_another_at_once(&self) -> bool {
        let worked_on = self.tally.advanced + self.tally.repeated + self.tally.held;
        let more =
            self.tally.gate_closed > 0 || self.partitions.iter().any(|partition| partition.full_pages > 0);
        worked_on > 0 && more
    }
}
