//! From a file as it came to a verdict: unpacks, decodes, hands records to the layout, checks what was vouched for.

use std::io::Read;

use encoding_rs::UTF_8;
use encoding_rs_io::DecodeReaderBytesBuilder;
use sha1::Sha1;
use sha2::{Digest as _, Sha256};

use crate::archive;
use crate::error::{BillError, FoundFormat};
use crate::layout::{End, Layout, Part, layout_of};
use crate::records::{Record, Records, Text};
use crate::rules::{BillFormat, BillRules, MAX_EXPONENT};
use crate::sink::BillSink;
use crate::sniff::{Sniffed, sniff};
use crate::source::{HEAD_BYTES, Tapped, gunzip, head_of};
use crate::summary::BillSummary;
use crate::tally::Tally;

/// Reads a bill, streaming, in memory that does not depend on its size.
///
/// Gzip files and zip archives are unpacked whatever the format. The verdict comes after the last byte: everything that was
/// vouched for holds, trailers included, or the bill is refused and whatever `sink` took must be thrown away.
///
/// # Errors
/// When the file is something else, incomplete, damaged or altered, the rules contradict themselves, or `input` or `sink` fails.
pub fn read_bill(
    format: &BillFormat,
    rules: &BillRules,
    input: impl Read,
    sink: &mut dyn BillSink,
) -> Result<BillSummary, BillError> {
    check_rules(format, rules)?;
    let mut layout = layout_of(format)?;
    let mut tally = Tally::new(rules, sink);
    let mut original = Tapped::new(input, Some(Sha256::new()), rules.limits.uncompressed_bytes);
    let mut reading = Reading { wanted: format.name(), layout: layout.as_mut(), tally: &mut tally };
    reading.file(&mut original)?;
    original.drain()?;
    let (sha256, bytes) = original.finish();
    let sha256: [u8; 32] = sha256.map(Into::into).unwrap_or_default();
    if let Some(expected) = rules.expected.bytes.filter(|expected| *expected != bytes) {
        return Err(BillError::LengthMismatch { expected, seen: bytes });
    }
    if let Some(expected) = rules.expected.sha256 {
        same_digest("SHA-256", &expected, &sha256)?;
    }
    Ok(BillSummary { sha256, bytes, ..tally.summary })
}

fn check_rules(format: &BillFormat, rules: &BillRules) -> Result<(), BillError> {
    let bad_exponent = rules.exponents.iter().find(|(_, exponent)| **exponent > MAX_EXPONENT);
    let complaint = match (format.check().into_iter().next(), bad_exponent) {
        (Some((field, complaint)), _) => format!("{field} {complaint}"),
        (None, Some((currency, _))) => format!("the exponent of {currency} is above {MAX_EXPONENT}"),
        (None, None) => return Ok(()),
    };
    Err(BillError::Rules { what: complaint })
}

/// # Errors
/// When the two differ.
pub(crate) fn same_digest(algorithm: &'static str, expected: &[u8], seen: &[u8]) -> Result<(), BillError> {
    if expected == seen {
        return Ok(());
    }
    Err(BillError::DigestMismatch { algorithm, expected: hex::encode(expected), seen: hex::encode(seen) })
}

/// A bill that is being read.
pub(crate) struct Reading<'r, 't> {
    /// The format's name.
    pub wanted: &'static str,
    /// Its layout.
    pub layout: &'r mut dyn Layout,
    /// What was read so far.
    pub tally: &'r mut Tally<'t>,
}

impl Reading<'_, '_> {
    fn file(&mut self, original: &mut dyn Read) -> Result<(), BillError> {
        let (head, whole) = head_of(original)?;
        match sniff(&head) {
            Sniffed::Empty => Err(BillError::Empty),
            Sniffed::Gzip => self.part(Part::Bill, gunzip(whole)),
            Sniffed::Zip => archive::read(self, whole),
            Sniffed::Text { .. } | Sniffed::Document(_) | Sniffed::Other(_) => self.part(Part::Bill, whole),
        }
    }

    /// Reads one uncompressed file of the bill to its end.
    pub(crate) fn part(&mut self, part: Part, content: impl Read) -> Result<(), BillError> {
        let limit_bytes = self.tally.rules.limits.uncompressed_bytes;
        let expected = self.tally.rules.expected.sha1_uncompressed.filter(|_| part == Part::Bill);
        let mut content = Tapped::new(content, expected.map(|_| Sha1::new()), limit_bytes);
        let (head, mut whole) = head_of(&mut content)?;
        let mark_bytes = match sniff(&head) {
            Sniffed::Text { mark_bytes } => mark_bytes,
            Sniffed::Empty => return Err(BillError::Empty),
            Sniffed::Gzip => return Err(self.something_else(FoundFormat::Gzip)),
            Sniffed::Zip => return Err(self.something_else(FoundFormat::Zip)),
            Sniffed::Other(found) => return Err(self.something_else(found)),
            Sniffed::Document(found) => {
                let answer = self.layout.answer(&head[..head.len().min(HEAD_BYTES)]);
                return Err(answer.unwrap_or_else(|| self.something_else(found)));
            }
        };
        let mut mark = [0; 4];
        whole.read_exact(&mut mark[..mark_bytes]).map_err(BillError::Io)?;
        let end = self.text(part, &mut whole, mark_bytes > 0)?;
        drop(whole);
        content.drain()?;
        let (sha1, _) = content.finish();
        if let (Some(expected), Some(sha1)) = (expected, sha1) {
            same_digest("SHA-1 of the uncompressed bytes", &expected, &sha1)?;
        }
        self.layout.end(part, end, self.tally)
    }

    fn text(&mut self, part: Part, content: &mut dyn Read, marked: bool) -> Result<End, BillError> {
        // A byte order mark knows better than the layout.
        let encoding = if marked { UTF_8 } else { self.layout.encoding() };
        let text = Text { encoding: encoding.name(), transcoded: encoding != UTF_8 };
        if text.transcoded {
            let decoded = DecodeReaderBytesBuilder::new().encoding(Some(encoding)).build(content);
            self.records(part, decoded, text)
        } else {
            self.records(part, content, text)
        }
    }

    fn records(&mut self, part: Part, content: impl Read, text: Text) -> Result<End, BillError> {
        let mut records = Records::new(content, self.layout.dialect(), text, self.tally.rules.limits);
        let mut record = Record::default();
        let mut terminated = true;
        while records.next(&mut record)? {
            terminated = record.terminated;
            self.layout.record(part, &record, self.tally)?;
        }
        Ok(End { terminated, proven: self.tally.rules.expected.proves_the_end() })
    }

    /// The verdict on a file that is no bill of the format.
    pub(crate) fn something_else(&self, found: FoundFormat) -> BillError {
        BillError::NotThisFormat { wanted: self.wanted, found }
    }
}
