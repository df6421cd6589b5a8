//! The header of a bill, and its columns bound by name.

use std::sync::Arc;

use crate::cells::Cell;
use crate::entry::QuarantineReason;
use crate::error::BillError;
use crate::records::Record;
use crate::rules::Limits;

/// The names of a bill's columns.
#[derive(Clone, Debug)]
pub(crate) struct Header {
    names: Vec<Arc<str>>,
}

/// A column that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    /// Its 0-based place.
    pub index: usize,
    /// Its name in this header.
    pub name: Arc<str>,
}

impl Column {
    /// The column's cell of a record.
    pub(crate) fn of<'a>(&'a self, record: &'a Record) -> Cell<'a> {
        self.cell(record.cell(self.index))
    }

    /// The reason for a cell of the column that is no amount.
    pub(crate) fn no_amount(&self) -> QuarantineReason {
        QuarantineReason::Amount { column: self.name.to_string() }
    }

    /// The column's cell, given its text.
    pub(crate) fn cell<'a>(&'a self, text: &'a str) -> Cell<'a> {
        Cell { column: &self.name, text }
    }
}

/// A name as people compare it: blanks, backticks and marks around it gone, full-width brackets as plain ones.
pub(crate) fn tidy(name: &str) -> String {
    let kept = name.trim_matches(|c: char| c.is_whitespace() || matches!(c, '`' | '\u{feff}'));
    kept.replace('（', "(").replace('）', ")")
}

impl Header {
    /// The names in a record.
    ///
    /// # Errors
    /// When it can't be split, or has more columns than a bill may.
    pub(crate) fn of(record: &Record, limits: &Limits) -> Result<Self, BillError> {
        if let Some(fault) = record.fault() {
            return Err(BillError::Corrupt { what: format!("the header in line {}: {fault}", record.line) });
        }
        if record.len() > limits.columns {
            return Err(BillError::Corrupt { what: format!("more than {} columns", limits.columns) });
        }
        let names = (0..record.len()).map(|index| tidy(record.cell(index)).into());
        Ok(Self { names: names.collect() })
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    /// The column of the first of these names that is there.
    ///
    /// # Errors
    /// When it is there twice.
    pub(crate) fn find(&self, names: &[&str]) -> Result<Option<Column>, BillError> {
        for wanted in names {
            let wanted = tidy(wanted);
            let mut found = self.names.iter().enumerate().filter(|(_, name)| ***name == *wanted);
            if let Some((index, name)) = found.next() {
                if found.next().is_some() {
                    return Err(BillError::HeaderTwice { name: wanted });
                }
                return Ok(Some(Column { index, name: Arc::clone(name) }));
            }
        }
        Ok(None)
    }

    /// As `find`, for a column that must be there.
    ///
    /// # Errors
    /// When it is not, or is there twice.
    pub(crate) fn need(&self, names: &[&str]) -> Result<Column, BillError> {
        let missing =
            || BillError::HeaderMissing { name: names.first().map_or_else(String::new, |n| tidy(n)) };
        self.find(names)?.ok_or_else(missing)
    }

    /// Whether a record's cells can be told apart and are as many as the header's.
    pub(crate) fn check(&self, record: &Record) -> Result<(), QuarantineReason> {
        if let Some(fault) = record.fault() {
            return Err(fault.clone());
        }
        if record.len() == self.len() {
            return Ok(());
        }
        Err(QuarantineReason::Shape { expected: self.len(), seen: record.len() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::{Dialect, Records, Text};

    fn header(line: &str) -> Header {
        let dialect = Dialect { delimiter: b',', quoting: false, digest: false };
        let text = Text { encoding: "UTF-8", transcoded: false };
        let mut record = Record::default();
        assert!(Records::new(line.as_bytes(), dialect, text, Limits::default()).next(&mut record).unwrap());
        Header::of(&record, &Limits::default()).unwrap()
    }

    #[test]
    fn columns_are_found_by_name_wherever_they_stand() {
        let header = header("b, `订单金额（元）\t,a\n");
        assert_eq!(header.need(&["a"]).unwrap().index, 2);
        assert_eq!(header.need(&["订单金额(元)"]).unwrap().index, 1);
        assert_eq!(header.need(&["x", "b"]).unwrap().index, 0);
        assert_eq!(header.find(&["x"]).unwrap(), None);
        assert!(matches!(header.need(&["x", "y"]), Err(BillError::HeaderMissing { name }) if name == "x"));
    }

    #[test]
    fn a_column_that_is_there_twice_is_no_column() {
        let header = header("a,b,a\n");
        assert!(matches!(header.need(&["a"]), Err(BillError::HeaderTwice { name }) if name == "a"));
        assert!(header.need(&["b"]).is_ok());
    }
}
