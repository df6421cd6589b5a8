//! Where entries go while a bill is read.

use std::error::Error;

use crate::entry::{BillEntry, QuarantinedRow};

/// Takes entries and quarantined rows as they are read, in the bill's order.
///
/// Whatever it took is worth nothing until [`crate::read_bill`] answers `Ok`: the verdict comes after the last byte.
pub trait BillSink {
    /// Takes an entry.
    ///
    /// # Errors
    /// When it can't be kept; reading stops and `read_bill` answers [`crate::BillError::Sink`].
    fn entry(&mut self, entry: BillEntry) -> Result<(), SinkError>;

    /// Takes a row that nobody can read.
    ///
    /// # Errors
    /// As for entries.
    fn quarantined(&mut self, row: QuarantinedRow) -> Result<(), SinkError>;
}

/// Why a sink could not keep a row.
#[derive(Debug, thiserror::Error)]
#[error("the reader of the bill could not keep a row: {0}")]
pub struct SinkError(#[source] pub Box<dyn Error + Send + Sync>);

impl SinkError {
    /// Wraps whatever went wrong.
    pub fn new(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(error.into())
    }
}
