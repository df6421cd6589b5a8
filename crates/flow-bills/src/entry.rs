//! What a bill says: one [`BillEntry`] per charge or refund, one [`QuarantinedRow`] per row that nobody can read.
//!
//! Knows nothing of files, formats or flows.

use std::fmt;

use chrono::{DateTime, Utc};

/// Which of the two numbers of an order the row is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EntryKind {
    /// Money came in for a payment.
    Payment,
    /// Money went back for a refund.
    Refund,
}

impl fmt::Display for EntryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Payment => "payment",
            Self::Refund => "refund",
        })
    }
}

/// What the row proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Proof {
    /// Money moved.
    Settled,
    /// Only that the channel took the request: a WeChat refund row in `PROCESSING` says accepted, not paid.
    Accepted,
}

/// One charge or refund as the bill tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BillEntry {
    /// Charge or refund.
    pub kind: EntryKind,
    /// Our own number: the `trade_order_no` of a payment, the `refund_order_no` of a refund.
    pub order_no: String,
    /// Of a refund, the payment's number where the bill tells it; of a payment, `None`.
    pub trade_order_no: Option<String>,
    /// Always positive; the kind says in which direction it went.
    pub amount_minor: u64,
    /// Upper case, as the channel names it.
    pub currency: String,
    /// Our own user id, where the bill carries it. What the channel calls the user (an open id, a masked mail address) is not it.
    pub user: Option<String>,
    /// The channel's own number of the charge or refund.
    pub channel_ref: Option<String>,
    /// When it happened, converted from the channel's named zone.
    pub at: DateTime<Utc>,
    /// What the row proves.
    pub proof: Proof,
    /// Where its record starts: 1-based line of the decompressed file.
    pub line: u64,
    /// The record as it stood, bounded by `Limits::raw_bytes`.
    pub raw: String,
}

/// A row that is no entry because nobody can read it for certain. It is counted, kept and shown; it is never guessed at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuarantinedRow {
    /// Where its record starts: 1-based line of the decompressed file.
    pub line: u64,
    /// Why it can't be read.
    pub reason: QuarantineReason,
    /// The record as it stood, bounded by `Limits::raw_bytes`.
    pub raw: String,
}

/// Why a row can't be read. Names columns, never their values: those are in the raw record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuarantineReason {
    /// Too few or too many cells, and no way to tell which belongs where.
    #[error("the row has {seen} cells where the header has {expected}")]
    Shape {
        /// Cells of the header.
        expected: usize,
        /// Cells of the row.
        seen: usize,
    },
    /// The record is longer than a record may be; the rest of it was skipped.
    #[error("the row is longer than {limit_bytes} bytes")]
    TooLong {
        /// The limit.
        limit_bytes: usize,
    },
    /// Bytes that are not text in the bill's encoding.
    #[error("the row holds bytes that are not {encoding}")]
    Encoding {
        /// The encoding the bill should have.
        encoding: &'static str,
    },
    /// A quotation mark where none may stand, so that the ends of cells are uncertain.
    #[error("the row's quotation marks do not pair up")]
    Quotes,
    /// A cell that must not be empty is.
    #[error("`{column}` is empty")]
    Empty {
        /// The cell's column.
        column: String,
    },
    /// A number that a spreadsheet re-wrote (`1.23E+15`): its last digits are lost.
    #[error(
        "`{column}` was re-written by a spreadsheet (scientific notation): its digits are lost; fetch the bill again"
    )]
    SpreadsheetNumber {
        /// The cell's column.
        column: String,
    },
    /// An order number or other identifier that is too long or holds control characters or blanks.
    #[error("`{column}` is no identifier")]
    Identifier {
        /// The cell's column.
        column: String,
    },
    /// Not an amount.
    #[error("`{column}` is no amount")]
    Amount {
        /// The cell's column.
        column: String,
    },
    /// An amount finer than the currency's smallest unit.
    #[error("`{column}` has more decimals than {currency} has on this channel ({exponent})")]
    TooManyDecimals {
        /// The cell's column.
        column: String,
        /// The currency.
        currency: String,
        /// Its minor-unit exponent on this channel.
        exponent: u32,
    },
    /// An amount whose sign contradicts the kind of the row, or nothing at all.
    #[error("`{column}` has a sign that a {kind} can't have, or is nothing")]
    Sign {
        /// The cell's column.
        column: String,
        /// What the row says it is.
        kind: EntryKind,
    },
    /// Cells of the row that must add up do not.
    #[error("{what} do not add up")]
    Arithmetic {
        /// Which cells.
        what: &'static str,
    },
    /// A currency the channel's rules give no exponent for.
    #[error("the currency in `{column}` has no minor-unit exponent in the channel's rules")]
    Currency {
        /// The cell's column.
        column: String,
    },
    /// Not a time, or one that a spreadsheet re-wrote.
    #[error("`{column}` is no time of the expected form")]
    Time {
        /// The cell's column.
        column: String,
    },
    /// A local time that the zone's clocks skipped.
    #[error("`{column}` is a time that never was in the channel's zone")]
    TimeSkipped {
        /// The cell's column.
        column: String,
    },
    /// A kind or status that the format does not know, or that needs people to read it.
    #[error("`{column}` holds a kind or status that says neither paid nor refunded")]
    Status {
        /// The cell's column.
        column: String,
    },
}

impl QuarantineReason {
    /// A stable code for reports and metrics.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Shape { .. } => "SHAPE",
            Self::TooLong { .. } => "TOO_LONG",
            Self::Encoding { .. } => "ENCODING",
            Self::Quotes => "QUOTES",
            Self::Empty { .. } => "EMPTY",
            Self::SpreadsheetNumber { .. } => "SPREADSHEET_NUMBER",
            Self::Identifier { .. } => "IDENTIFIER",
            Self::Amount { .. } => "AMOUNT",
            Self::TooManyDecimals { .. } => "TOO_MANY_DECIMALS",
            Self::Sign { .. } => "SIGN",
            Self::Arithmetic { .. } => "ARITHMETIC",
            Self::Currency { .. } => "CURRENCY",
            Self::Time { .. } => "TIME",
            Self::TimeSkipped { .. } => "TIME_SKIPPED",
            Self::Status { .. } => "STATUS",
        }
    }
}
