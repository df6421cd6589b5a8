//! Batches and the claims on their parts.

use chrono::{DateTime, NaiveDate, Utc};

use crate::ids::{BatchId, ChannelName};
use crate::recon::{BatchState, Partition, Tally};

/// The wish to work on a part of a day's batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimPart {
    /// The channel.
    pub channel: ChannelName,
    /// The business day.
    pub day: NaiveDate,
    /// Which part.
    pub partition: Partition,
    /// How long nobody else may, in milliseconds, unless it is kept.
    pub claim_ms: u64,
}

/// The sole right to work on a part of a batch, until it runs out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchClaim {
    /// The batch.
    pub batch: BatchId,
    /// Which part of it.
    pub partition: Partition,
    /// Proves the claim.
    pub token: String,
}

/// Outcome of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartClaimed {
    /// It is the claimer's.
    Granted(BatchClaim),
    /// Another process works on it.
    Running,
    /// Other processes work on the batch, split into so many parts.
    SplitOtherwise {
        /// Into how many.
        parts: u32,
    },
}

/// The bill that a batch was compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchBill {
    /// SHA-256 of the original file, in hex.
    pub sha256: String,
    /// Its size.
    pub bytes: u64,
    /// Where it came from.
    pub source: String,
}

/// What a part of a batch came to.
#[allow(clippy::large_enum_variant, reason = "made once per run and taken apart at once")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartEnd {
    /// Compared to the end.
    Done {
        /// What was counted.
        tally: Tally,
        /// With this bill.
        bill: BatchBill,
    },
    /// Not compared; no ticket was written for it.
    Failed {
        /// Why, in words, at most [`PartEnd::MAX_REASON_CHARS`] of them kept.
        reason: String,
    },
}

impl PartEnd {
    /// Longest reason that is kept, in characters.
    pub const MAX_REASON_CHARS: usize = 500;
}

/// A batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Its number.
    pub id: BatchId,
    /// The channel.
    pub channel: ChannelName,
    /// The business day.
    pub day: NaiveDate,
    /// Where it stands.
    pub state: BatchState,
    /// Into how many parts it is split.
    pub parts: u32,
    /// How many of them are done.
    pub parts_done: u32,
    /// How often parts of it were begun.
    pub runs: u64,
    /// What its parts counted.
    pub tally: Tally,
    /// The bill.
    pub bill: Option<BatchBill>,
    /// Why it failed.
    pub reason: Option<String>,
    /// When the last run began.
    pub started_at: Option<DateTime<Utc>>,
    /// When it ended.
    pub finished_at: Option<DateTime<Utc>>,
}

/// Which batches people want, newest day first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BatchPage {
    /// Of this channel.
    pub channel: Option<ChannelName>,
    /// Only days before this one.
    pub before: Option<NaiveDate>,
    /// Most rows.
    pub limit_rows: u32,
}
