//! What a whole bill amounts to, once it passed its gate.

use std::collections::BTreeMap;

/// The verdict of a bill that is complete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BillSummary {
    /// Data rows of the file: payments, refunds, quarantined and ignored ones.
    pub rows: u64,
    /// Entries that are payments.
    pub payments: u64,
    /// Entries that are refunds.
    pub refunds: u64,
    /// Rows that nobody can read. Above zero the batch is not clean.
    pub quarantined: u64,
    /// Rows that are legible and neither payment nor refund of ours: fees, payouts, refunds that failed, filtered rows.
    pub ignored: u64,
    /// Sum of the payments, in minor units, by currency.
    pub payment_sum_minor: BTreeMap<String, u128>,
    /// Sum of the refunds, in minor units, by currency.
    pub refund_sum_minor: BTreeMap<String, u128>,
    /// Sums of the trailer that could not be checked because a quarantined row's cell in that column is illegible. Never
    /// filled without quarantined rows.
    pub unverified_sums: Vec<String>,
    /// Times that were twice (clocks set back) and were taken to be the first of the two.
    pub ambiguous_times: u64,
    /// Digest of the original bytes, compressed if they came compressed.
    pub sha256: [u8; 32],
    /// Length of the original, in bytes.
    pub bytes: u64,
}

impl BillSummary {
    /// Whether every row was read.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.quarantined == 0
    }
}
