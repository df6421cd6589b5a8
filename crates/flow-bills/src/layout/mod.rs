//! What the module of a layout must offer, and what they all need.

mod alipay;
mod alipay_rows;
mod answers;
mod generic;
mod ledger;
mod stripe;
mod wechat;

use encoding_rs::Encoding;

use self::alipay::Alipay;
use self::generic::Generic;
use self::ledger::Ledger;
use self::stripe::Stripe;
use self::wechat::Wechat;
use crate::decimal::Sum;
use crate::error::BillError;
use crate::header::Column;
use crate::records::{Dialect, Record};
use crate::rules::BillFormat;
use crate::tally::Tally;

/// Which file of a bill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The one with the rows.
    Bill,
    /// One that sums them up (Alipay).
    Summary,
}

/// What is known about the end of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    /// Whether a line end closes the last record.
    pub terminated: bool,
    /// Whether somebody vouched for the file's length or digest.
    pub proven: bool,
}

/// One layout. It sees every record that is not blank, in order, and then the end.
pub(crate) trait Layout {
    /// How the text is encoded, if no byte order mark says otherwise.
    fn encoding(&self) -> &'static Encoding {
        encoding_rs::UTF_8
    }

    /// How records are written.
    fn dialect(&self) -> Dialect;

    /// What a JSON or XML document in the place of the bill means, if the channel is known to send it.
    fn answer(&self, _document: &[u8]) -> Option<BillError> {
        None
    }

    /// Which file of an archive this is, by its first characters; `None` if it is none of the bill's.
    fn part(&self, _head: &str) -> Option<Part> {
        Some(Part::Bill)
    }

    /// Takes a record.
    ///
    /// # Errors
    /// When the bill as a whole can't be trusted.
    fn record(&mut self, part: Part, record: &Record, tally: &mut Tally<'_>) -> Result<(), BillError>;

    /// Passes judgement after the last record of a part. The bill's comes before the summary's.
    ///
    /// # Errors
    /// When the bill is not complete.
    fn end(&mut self, part: Part, end: End, tally: &mut Tally<'_>) -> Result<(), BillError>;
}

/// The layout of a format.
pub(crate) fn layout_of(format: &BillFormat) -> Result<Box<dyn Layout>, BillError> {
    Ok(match format {
        BillFormat::LedgerCsv => Box::new(Ledger::default()),
        BillFormat::GenericCsv(rules) => Box::new(Generic::new(rules)?),
        BillFormat::WechatTrade(rules) => Box::new(Wechat::new(rules)),
        BillFormat::AlipayDetail => Box::new(Alipay::default()),
        BillFormat::StripeItemised(rules) => Box::new(Stripe::new(rules)),
    })
}

/// A column that a trailer sums up. A cell that is illegible makes the sum unverifiable, not wrong.
#[derive(Debug)]
pub(crate) struct SummedColumn {
    /// The column.
    pub column: Column,
    /// Its legible cells.
    pub sum: Sum,
    /// Whether a cell was not legible.
    pub illegible: bool,
}

impl SummedColumn {
    pub(crate) fn new(column: Column) -> Self {
        Self { column, sum: Sum::default(), illegible: false }
    }

    /// Holds the trailer's number against the sum; notes it where that is not possible.
    ///
    /// # Errors
    /// When they differ.
    pub(crate) fn check(&self, what: &str, trailer: Sum, tally: &mut Tally<'_>) -> Result<(), BillError> {
        if self.illegible {
            tally.summary.unverified_sums.push(what.to_owned());
            return Ok(());
        }
        same_sum(what, trailer, self.sum)
    }
}

/// # Errors
/// When the two differ.
pub(crate) fn same_sum(what: &str, trailer: Sum, seen: Sum) -> Result<(), BillError> {
    if trailer == seen {
        return Ok(());
    }
    let (trailer, seen) = (trailer.to_string(), seen.to_string());
    Err(BillError::SumMismatch { what: what.to_owned(), trailer, seen })
}

/// # Errors
/// When the two differ.
pub(crate) fn same_count(what: &str, trailer: u64, seen: u64) -> Result<(), BillError> {
    if trailer == seen {
        return Ok(());
    }
    Err(BillError::CountMismatch { what: what.to_owned(), trailer, seen })
}
