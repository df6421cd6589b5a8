//! Bills with invented values, and a sink that keeps what was read.

use std::io::Write as _;

use chrono_tz::Tz;
use flate2::Compression;
use flate2::write::GzEncoder;
use flow_bills::{
    BillEntry, BillError, BillFormat, BillRules, BillSink, BillSummary, EntryKind, QuarantinedRow, SinkError,
    read_bill,
};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

/// Keeps everything.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) entries: Vec<BillEntry>,
    pub(crate) quarantined: Vec<QuarantinedRow>,
}

impl BillSink for Kept {
    fn entry(&mut self, entry: BillEntry) -> Result<(), SinkError> {
        self.entries.push(entry);
        Ok(())
    }

    fn quarantined(&mut self, row: QuarantinedRow) -> Result<(), SinkError> {
        self.quarantined.push(row);
        Ok(())
    }
}

/// What is told in a table: kind, order number, amount.
pub(crate) type Told = (EntryKind, String, u64);

impl Kept {
    pub(crate) fn told(&self) -> Vec<Told> {
        self.entries.iter().map(|entry| (entry.kind, entry.order_no.clone(), entry.amount_minor)).collect()
    }

    /// Line and code of every quarantined row.
    pub(crate) fn set_aside(&self) -> Vec<(u64, &'static str)> {
        self.quarantined.iter().map(|row| (row.line, row.reason.code())).collect()
    }
}

pub(crate) fn payment(order_no: &str, amount: u64) -> Told {
    (EntryKind::Payment, order_no.to_owned(), amount)
}

pub(crate) fn refund(order_no: &str, amount: u64) -> Told {
    (EntryKind::Refund, order_no.to_owned(), amount)
}

/// Yuan, dollars and yen in Shanghai.
pub(crate) fn rules() -> BillRules {
    let exponents = [("CNY", 2), ("USD", 2), ("JPY", 0), ("EUR", 2)];
    BillRules::new(Tz::Asia__Shanghai, exponents.map(|(name, exponent)| (name.to_owned(), exponent)))
}

/// A bill that must be complete.
pub(crate) fn read(format: &BillFormat, rules: &BillRules, bill: impl AsRef<[u8]>) -> (BillSummary, Kept) {
    let mut kept = Kept::default();
    let summary = read_bill(format, rules, bill.as_ref(), &mut kept)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(bill.as_ref())));
    assert_eq!(summary.bytes, bill.as_ref().len() as u64);
    assert_eq!(summary.rows, summary.payments + summary.refunds + summary.quarantined + summary.ignored);
    assert_eq!(kept.entries.len() as u64, summary.payments + summary.refunds);
    assert_eq!(kept.quarantined.len() as u64, summary.quarantined);
    (summary, kept)
}

/// The code of the verdict on a bill that must be refused.
pub(crate) fn refused(format: &BillFormat, rules: &BillRules, bill: impl AsRef<[u8]>) -> BillError {
    match read_bill(format, rules, bill.as_ref(), &mut Kept::default()) {
        Err(error) => error,
        Ok(summary) => panic!("{summary:?} of {}", String::from_utf8_lossy(bill.as_ref())),
    }
}

pub(crate) fn gz(bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes.as_ref()).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn zipped(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, content) in files {
        writer.start_file(*name, SimpleFileOptions::default()).unwrap();
        writer.write_all(content).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

/// As a server makes it that does not know sizes beforehand: they stand behind the data.
pub(crate) fn zipped_on_the_fly(name: &str, content: &[u8]) -> Vec<u8> {
    let mut writer = ZipWriter::new_stream(Vec::new());
    writer.start_file(name, SimpleFileOptions::default()).unwrap();
    writer.write_all(content).unwrap();
    writer.finish().unwrap().into_inner()
}

pub(crate) fn gbk(text: &str) -> Vec<u8> {
    let (bytes, _, lost) = encoding_rs::GBK.encode(text);
    assert!(!lost, "{text}");
    bytes.into_owned()
}

/// The text with one piece replaced, which must be there.
pub(crate) fn with(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "`{from}` is not in the fixture");
    text.replacen(from, to, 1)
}
