//! Counts what is read and hands it on.

use crate::entry::{BillEntry, EntryKind, Proof, QuarantineReason, QuarantinedRow};
use crate::error::BillError;
use crate::records::Record;
use crate::rules::BillRules;
use crate::sink::BillSink;
use crate::summary::BillSummary;
use crate::times::Instant;

/// What a row turned out to be, if it is legible.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// A charge or refund.
    Entry(Draft),
    /// Neither, and known to be.
    Ignored,
}

/// An entry without what every entry has.
#[derive(Debug)]
pub(crate) struct Draft {
    pub kind: EntryKind,
    pub order_no: String,
    pub trade_order_no: Option<String>,
    pub amount_minor: u64,
    pub currency: String,
    pub user: Option<String>,
    pub channel_ref: Option<String>,
    pub at: Instant,
    pub proof: Proof,
}

/// What a bill amounts to so far.
pub(crate) struct Tally<'a> {
    /// The rules it is read by.
    pub rules: &'a BillRules,
    /// The counts so far.
    pub summary: BillSummary,
    sink: &'a mut dyn BillSink,
}

impl<'a> Tally<'a> {
    pub(crate) fn new(rules: &'a BillRules, sink: &'a mut dyn BillSink) -> Self {
        Self { rules, summary: BillSummary::default(), sink }
    }

    /// Takes a data row.
    ///
    /// # Errors
    /// When the sink can't keep it, or too many rows were illegible.
    pub(crate) fn row(
        &mut self,
        record: &Record,
        outcome: Result<Outcome, QuarantineReason>,
    ) -> Result<(), BillError> {
        self.summary.rows += 1;
        match outcome {
            Ok(Outcome::Entry(draft)) => self.entry(record, draft),
            Ok(Outcome::Ignored) => {
                self.summary.ignored += 1;
                Ok(())
            }
            Err(reason) => self.quarantine(record, reason),
        }
    }

    fn entry(&mut self, record: &Record, draft: Draft) -> Result<(), BillError> {
        let summary = &mut self.summary;
        let (count, sums) = match draft.kind {
            EntryKind::Payment => (&mut summary.payments, &mut summary.payment_sum_minor),
            EntryKind::Refund => (&mut summary.refunds, &mut summary.refund_sum_minor),
        };
        *count += 1;
        // A name is copied once per currency, not once per row.
        match sums.get_mut(&draft.currency) {
            Some(sum) => *sum += u128::from(draft.amount_minor),
            None => drop(sums.insert(draft.currency.clone(), u128::from(draft.amount_minor))),
        }
        summary.ambiguous_times += u64::from(draft.at.ambiguous);
        let Draft { kind, order_no, trade_order_no, amount_minor, currency, user, channel_ref, at, proof } =
            draft;
        let (at, line, raw) = (at.at, record.line, record.shown(self.rules.limits.raw_bytes));
        let entry = BillEntry {
            kind,
            order_no,
            trade_order_no,
            amount_minor,
            currency,
            user,
            channel_ref,
            at,
            proof,
            line,
            raw,
        };
        Ok(self.sink.entry(entry)?)
    }

    fn quarantine(&mut self, record: &Record, reason: QuarantineReason) -> Result<(), BillError> {
        self.summary.quarantined += 1;
        let limit_rows = self.rules.limits.quarantined_rows;
        if self.summary.quarantined > limit_rows {
            return Err(BillError::TooManyQuarantined { limit_rows, line: record.line });
        }
        let (line, raw) = (record.line, record.shown(self.rules.limits.raw_bytes));
        Ok(self.sink.quarantined(QuarantinedRow { line, reason, raw })?)
    }
}
