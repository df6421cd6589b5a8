//! What configuration says about a table of text that no module of its own reads.

use serde::Deserialize;

use crate::entry::EntryKind;
use crate::rules::blank_columns;

/// A table of text: where everything is, and how it is written.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GenericCsv {
    /// Label of the encoding (WHATWG): `utf-8`, `gbk`, `shift_jis`, `windows-1252` …
    #[serde(default = "utf8")]
    pub encoding: String,
    /// What stands between cells; one ASCII character.
    #[serde(default = "comma")]
    pub delimiter: char,
    /// Whether cells may be quoted (RFC 4180). Off, a quotation mark is a character like any other.
    #[serde(default)]
    pub quoting: bool,
    /// Lines before the header.
    #[serde(default)]
    pub skip_lines: u64,
    /// Lines that begin with it are remarks.
    #[serde(default)]
    pub comment: Option<String>,
    /// Characters that are taken off both ends of every cell, besides blanks: `'` or a backtick that keeps spreadsheets away.
    #[serde(default)]
    pub strip: String,
    /// Which column holds what.
    pub columns: Columns,
    /// The currency of every row, if no column says it.
    #[serde(default)]
    pub currency: Option<String>,
    /// How payments are told from refunds.
    pub kind: KindRule,
    /// How amounts are written.
    #[serde(default)]
    pub amounts: Amounts,
    /// How times are written (`%Y-%m-%d %H:%M:%S`); with an offset in it (`%z`), the channel's zone does not matter.
    #[serde(default = "plain_time")]
    pub time_format: String,
    /// Which rows of the file are ours. A row must pass all.
    #[serde(default)]
    pub filters: Vec<Filter>,
    /// What a row proves. Without it, that money moved.
    #[serde(default)]
    pub proof: Option<ProofRule>,
    /// The last line, where the bill has one that counts and sums up.
    #[serde(default)]
    pub trailer: Option<Trailer>,
    /// Whether the file ends with a line end. A bill without a trailer that does not is cut off.
    #[serde(default = "yes")]
    pub ends_with_line_end: bool,
}

/// Columns by their names in the header. Several names may be given for one, separated by `|`: the first that is there counts.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Columns {
    /// The payment's number.
    pub order_no: String,
    /// The refund's number; needed where there are refunds.
    #[serde(default)]
    pub refund_order_no: Option<String>,
    /// The amount.
    pub amount: String,
    /// The amount of a refund, where it has a column of its own.
    #[serde(default)]
    pub refund_amount: Option<String>,
    /// When it happened.
    pub at: String,
    /// The time of day, where it has a column of its own; joined to `at` with a blank.
    #[serde(default)]
    pub at_time: Option<String>,
    /// The currency.
    #[serde(default)]
    pub currency: Option<String>,
    /// Our own user id.
    #[serde(default)]
    pub user: Option<String>,
    /// The channel's own number.
    #[serde(default)]
    pub channel_ref: Option<String>,
}

/// How payments are told from refunds.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum KindRule {
    /// Every row is of one kind.
    Only(Only),
    /// The amount's sign tells: negative is a refund.
    Sign(Sign),
    /// A column's value tells.
    Column {
        /// Which column.
        name: String,
        /// Its values for payments.
        payment: Vec<String>,
        /// Its values for refunds.
        refund: Vec<String>,
        /// Its values for rows that are neither and may be ignored. Any other value is quarantined.
        #[serde(default)]
        ignore: Vec<String>,
    },
}

/// The kind of every row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Only {
    /// Payments.
    Payment,
    /// Refunds.
    Refund,
}

impl From<Only> for EntryKind {
    fn from(only: Only) -> Self {
        match only {
            Only::Payment => Self::Payment,
            Only::Refund => Self::Refund,
        }
    }
}

/// Which sign is a refund's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sign {
    /// `-1.00` is a refund.
    NegativeIsRefund,
    /// `-1.00` is a payment: the bill is written from the payer's side.
    NegativeIsPayment,
}

/// How amounts are written.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Amounts {
    /// Whole numbers of minor units instead of decimals.
    pub minor: bool,
    /// What stands before the decimals.
    pub decimal_point: char,
    /// What groups thousands, if anything does.
    pub grouping: Option<char>,
    /// Which sign the amount of a refund has, where a column tells the kind.
    pub refund_sign: RefundSign,
}

impl Default for Amounts {
    fn default() -> Self {
        Self { minor: false, decimal_point: '.', grouping: None, refund_sign: RefundSign::Positive }
    }
}

/// Which sign the amount of a refund has, where the sign does not tell the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefundSign {
    /// Always positive; a negative one is quarantined.
    Positive,
    /// Always negative; a positive one is quarantined.
    Negative,
    /// Either.
    Any,
}

/// Which rows are ours.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Filter {
    /// The column that tells.
    pub column: String,
    /// Keep only rows with one of these values.
    #[serde(default)]
    pub keep: Vec<String>,
    /// Ignore rows with one of these values.
    #[serde(default)]
    pub ignore: Vec<String>,
}

/// What a row proves, by a column's value. Any other value is quarantined.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProofRule {
    /// The column that tells.
    pub column: String,
    /// Values that say that money moved.
    pub settled: Vec<String>,
    /// Values that say that the request was taken.
    #[serde(default)]
    pub accepted: Vec<String>,
}

/// The line at the end that counts and sums up. Positions are 1-based cells of that line.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trailer {
    /// What the line begins with.
    pub starts_with: String,
    /// The cell that counts rows, ignored and illegible ones included.
    #[serde(default)]
    pub rows_cell: Option<usize>,
    /// The cell that sums up the amount column, signs as they stand.
    #[serde(default)]
    pub amount_cell: Option<usize>,
}

fn utf8() -> String {
    "utf-8".to_owned()
}

fn comma() -> char {
    ','
}

fn plain_time() -> String {
    "%Y-%m-%d %H:%M:%S".to_owned()
}

fn yes() -> bool {
    true
}

impl GenericCsv {
    /// Everything that is wrong, as field and complaint.
    #[must_use]
    pub fn check(&self) -> Vec<(String, String)> {
        let mut bad = self.columns.check();
        let mut complain = |field: &str, what: &str| bad.push((field.to_owned(), what.to_owned()));
        match encoding_rs::Encoding::for_label(self.encoding.as_bytes()) {
            Some(encoding) if encoding.output_encoding() == encoding => {}
            Some(_) => complain("encoding", "must be an encoding in which ASCII is ASCII, not UTF-16"),
            None => complain("encoding", "is no known encoding (WHATWG label)"),
        }
        if !self.delimiter.is_ascii() || matches!(self.delimiter, '"' | '\n' | '\r' | '\0') {
            complain("delimiter", "must be one ASCII character, no quotation mark or line end");
        }
        if self.comment.as_deref() == Some("") {
            complain("comment", "must not be empty");
        }
        if self.currency.is_some() == self.columns.currency.is_some() {
            complain("currency", "give either currency or columns.currency");
        }
        if chrono::format::StrftimeItems::new(&self.time_format)
            .any(|item| matches!(item, chrono::format::Item::Error))
        {
            complain("time_format", "is no format of times (%Y-%m-%d %H:%M:%S)");
        }
        if self.amounts.grouping == Some(self.amounts.decimal_point) {
            complain("amounts.grouping", "must differ from amounts.decimal_point");
        }
        if self.has_refunds() && self.columns.refund_order_no.is_none() {
            complain("columns.refund_order_no", "is needed: the kind rule knows refunds");
        }
        if let KindRule::Column { name, payment, refund, ignore } = &self.kind {
            if name.trim().is_empty() || (payment.is_empty() && refund.is_empty()) {
                complain("kind.column", "must name a column and the values of payments or refunds");
            }
            let mut values: Vec<&String> = payment.iter().chain(refund).chain(ignore).collect();
            values.sort_unstable();
            if values.windows(2).any(|pair| pair[0] == pair[1]) {
                complain("kind.column", "gives one value two meanings");
            }
        }
        for filter in &self.filters {
            if filter.column.trim().is_empty() || filter.keep.is_empty() == filter.ignore.is_empty() {
                complain("filters", "each must name a column and give either keep or ignore");
            }
        }
        if self.proof.as_ref().is_some_and(|proof| {
            proof.settled.is_empty() || proof.settled.iter().any(|value| proof.accepted.contains(value))
        }) {
            complain("proof", "must give settled values, and no value two meanings");
        }
        if self.trailer.as_ref().is_some_and(|trailer| {
            trailer.starts_with.is_empty()
                || (trailer.rows_cell.is_none() && trailer.amount_cell.is_none())
                || trailer.rows_cell == Some(0)
                || trailer.amount_cell == Some(0)
        }) {
            complain("trailer", "must say how it starts and give rows_cell or amount_cell, counted from 1");
        }
        bad
    }

    /// Whether a row may be a refund.
    pub(crate) fn has_refunds(&self) -> bool {
        match &self.kind {
            KindRule::Only(Only::Payment) => false,
            KindRule::Only(Only::Refund) | KindRule::Sign(_) => true,
            KindRule::Column { refund, .. } => !refund.is_empty(),
        }
    }
}

impl Columns {
    fn check(&self) -> Vec<(String, String)> {
        let columns = [
            ("columns.order_no", Some(self.order_no.as_str())),
            ("columns.refund_order_no", self.refund_order_no.as_deref()),
            ("columns.amount", Some(self.amount.as_str())),
            ("columns.refund_amount", self.refund_amount.as_deref()),
            ("columns.at", Some(self.at.as_str())),
            ("columns.at_time", self.at_time.as_deref()),
            ("columns.currency", self.currency.as_deref()),
            ("columns.user", self.user.as_deref()),
            ("columns.channel_ref", self.channel_ref.as_deref()),
        ];
        blank_columns(&columns)
    }
}
