//! A stream of text as records: bounded, numbered by line, whatever the line ends.
//!
//! Line ends are LF, CRLF and CR, also mixed. Records are framed and split here rather than by a CSV crate because those accept
//! whatever quotation marks do: one stray mark swallows the rest of a file in silence, unbounded. Here a record has an end or is an error.

use std::io::{BufRead, BufReader, Read};
use std::ops::Range;

use memchr::{memchr, memchr_iter, memchr2};
use sha2::{Digest as _, Sha256};

use crate::entry::QuarantineReason;
use crate::error::BillError;
use crate::rules::Limits;
use crate::source::bill_error;

/// Bytes read at once.
const BUFFER_BYTES: usize = 64 * 1024;

/// How records are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dialect {
    /// What stands between cells.
    pub delimiter: u8,
    /// Whether cells may be quoted (RFC 4180, strictly). Off, a quotation mark is a character like any other.
    pub quoting: bool,
    /// Whether every record that begins with `#` knows the digest of the bytes before it.
    pub digest: bool,
}

/// The text's encoding, as records need to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Text {
    /// Its name.
    pub encoding: &'static str,
    /// Bytes that were not of the encoding have been replaced (U+FFFD) on the way.
    pub transcoded: bool,
}

/// One record, re-used for the next.
#[derive(Debug, Default)]
pub(crate) struct Record {
    /// 1-based line it starts in.
    pub line: u64,
    /// Whether a line end closes it; only the last may lack one.
    pub terminated: bool,
    /// Of the bytes before it, if the dialect asks for it and it begins with `#`.
    pub digest_before: Option<[u8; 32]>,
    raw: Vec<u8>,
    text: String,
    cells: Vec<Range<usize>>,
    fault: Option<QuarantineReason>,
}

impl Record {
    /// The cells; none when the record is faulty.
    pub(crate) fn len(&self) -> usize {
        self.cells.len()
    }

    /// A cell, blanks taken off; empty beyond the last.
    pub(crate) fn cell(&self, index: usize) -> &str {
        self.cells.get(index).map_or("", |cell| self.text[cell.clone()].trim())
    }

    /// From one cell to another, with the delimiters between them. Only of a dialect without quoting.
    pub(crate) fn joined(&self, from: usize, to: usize) -> &str {
        match (self.cells.get(from), self.cells.get(to)) {
            (Some(from), Some(to)) => &self.text[from.start..to.end],
            (Some(_) | None, _) => "",
        }
    }

    /// The record's bytes without its line end, as far as they were kept.
    pub(crate) fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// The record as it stood, cut to so many bytes.
    pub(crate) fn shown(&self, limit_bytes: usize) -> String {
        let kept = &self.raw[..self.raw.len().min(limit_bytes)];
        let mut shown = String::from_utf8_lossy(kept).into_owned();
        if kept.len() < self.raw.len() {
            // The cut may have gone through a character.
            let whole = shown.trim_end_matches('\u{fffd}').len();
            shown.truncate(whole);
            shown.push('…');
        }
        shown
    }

    /// Why its cells can't be told, if they can't.
    pub(crate) fn fault(&self) -> Option<&QuarantineReason> {
        self.fault.as_ref()
    }

    fn clear(&mut self) {
        self.terminated = false;
        self.digest_before = None;
        self.raw.clear();
        self.text.clear();
        self.cells.clear();
        self.fault = None;
    }
}

/// Reads records.
pub(crate) struct Records<R> {
    input: BufReader<R>,
    dialect: Dialect,
    text: Text,
    limits: Limits,
    next_line: u64,
    digest: Option<Sha256>,
}

/// How a line ended.
enum LineEnd {
    /// There was no line any more.
    Nothing,
    /// The file ended in the line.
    EndOfFile,
    /// With these bytes.
    Bytes(&'static [u8]),
}

impl<R: Read> Records<R> {
    /// Reads from the first byte after a byte order mark.
    pub(crate) fn new(input: R, dialect: Dialect, text: Text, limits: Limits) -> Self {
        let digest = dialect.digest.then(Sha256::new);
        let input = BufReader::with_capacity(BUFFER_BYTES, input);
        Self { input, dialect, text, limits, next_line: 1, digest }
    }

    /// The next record that is not blank; false after the last.
    ///
    /// # Errors
    /// When the file can't be read, or a quoted record does not end within its limit.
    pub(crate) fn next(&mut self, record: &mut Record) -> Result<bool, BillError> {
        loop {
            record.clear();
            record.line = self.next_line;
            record.digest_before = self.digest_before_trailer()?;
            let mut too_long = false;
            let end = self.line(&mut record.raw, &mut too_long)?;
            match end {
                LineEnd::Nothing => return Ok(false),
                LineEnd::EndOfFile => record.terminated = false,
                LineEnd::Bytes(_) => record.terminated = true,
            }
            if self.dialect.quoting {
                self.whole_quoted(record, end, &mut too_long)?;
            }
            if too_long {
                record.fault = Some(QuarantineReason::TooLong { limit_bytes: self.limits.record_bytes });
                return Ok(true);
            }
            if !record.raw.iter().all(u8::is_ascii_whitespace) {
                self.split(record);
                return Ok(true);
            }
        }
    }

    fn digest_before_trailer(&mut self) -> Result<Option<[u8; 32]>, BillError> {
        let Some(digest) = &self.digest else { return Ok(None) };
        let ahead = self.input.fill_buf().map_err(bill_error)?;
        Ok((ahead.first() == Some(&b'#')).then(|| digest.clone().finalize().into()))
    }

    /// Appends a line without its end. What is beyond the limit is skipped.
    fn line(&mut self, raw: &mut Vec<u8>, too_long: &mut bool) -> Result<LineEnd, BillError> {
        let mut seen = false;
        loop {
            let ahead = self.input.fill_buf().map_err(bill_error)?;
            if ahead.is_empty() {
                return Ok(if seen { LineEnd::EndOfFile } else { LineEnd::Nothing });
            }
            seen = true;
            let end = memchr2(b'\n', b'\r', ahead);
            let content = end.unwrap_or(ahead.len());
            let room = self.limits.record_bytes.saturating_sub(raw.len());
            raw.extend_from_slice(&ahead[..content.min(room)]);
            *too_long |= content > room;
            let is_return = end.is_some_and(|at| ahead[at] == b'\r');
            self.consume(content + usize::from(end.is_some()));
            if end.is_none() {
                continue;
            }
            self.next_line += 1;
            if !is_return {
                return Ok(LineEnd::Bytes(b"\n"));
            }
            let feeds = self.input.fill_buf().map_err(bill_error)?.first() == Some(&b'\n');
            self.consume(usize::from(feeds));
            return Ok(LineEnd::Bytes(if feeds { b"\r\n" } else { b"\r" }));
        }
    }

    fn consume(&mut self, bytes: usize) {
        if let Some(digest) = &mut self.digest {
            digest.update(&self.input.buffer()[..bytes]);
        }
        self.input.consume(bytes);
    }

    /// Appends lines while a quotation mark is open.
    fn whole_quoted(
        &mut self,
        record: &mut Record,
        mut end: LineEnd,
        too_long: &mut bool,
    ) -> Result<(), BillError> {
        let mut counted = 0;
        let mut open = false;
        loop {
            open ^= memchr_iter(b'"', &record.raw[counted..]).count() % 2 == 1;
            if *too_long || (open && record.raw.len() >= self.limits.record_bytes) {
                let (line, limit_bytes) = (record.line, self.limits.record_bytes);
                return Err(BillError::RecordTooLong { line, limit_bytes });
            }
            if !open {
                return Ok(());
            }
            match end {
                LineEnd::Bytes(bytes) => record.raw.extend_from_slice(bytes),
                LineEnd::Nothing | LineEnd::EndOfFile => {
                    return Err(BillError::Truncated { what: "a quoted cell does not end" });
                }
            }
            counted = record.raw.len();
            end = self.line(&mut record.raw, too_long)?;
            record.terminated = matches!(end, LineEnd::Bytes(_));
        }
    }

    fn split(&self, record: &mut Record) {
        let encoding = self.text.encoding;
        let Ok(raw) = std::str::from_utf8(&record.raw) else {
            record.fault = Some(QuarantineReason::Encoding { encoding });
            return;
        };
        if self.text.transcoded && raw.contains('\u{fffd}') {
            record.fault = Some(QuarantineReason::Encoding { encoding });
            return;
        }
        let delimiter = self.dialect.delimiter;
        // One more than the limit is enough to be of the wrong shape.
        let most = self.limits.columns + 1;
        if self.dialect.quoting {
            if !split_quoted(raw, delimiter, most, &mut record.text, &mut record.cells) {
                record.cells.clear();
                record.fault = Some(QuarantineReason::Quotes);
            }
            return;
        }
        record.text.push_str(raw);
        let mut start = 0;
        for end in memchr_iter(delimiter, raw.as_bytes()).take(most - 1).chain([raw.len()]) {
            record.cells.push(start..end);
            start = end + 1;
        }
    }
}

/// Cells of a whole record, unquoted into `text`; false when a quotation mark stands where none may.
fn split_quoted(
    raw: &str,
    delimiter: u8,
    most: usize,
    text: &mut String,
    cells: &mut Vec<Range<usize>>,
) -> bool {
    let bytes = raw.as_bytes();
    let mut at = 0;
    loop {
        let start = text.len();
        if bytes.get(at) == Some(&b'"') {
            at += 1;
            loop {
                let Some(length) = memchr(b'"', &bytes[at..]) else { return false };
                text.push_str(&raw[at..at + length]);
                at += length + 1;
                if bytes.get(at) != Some(&b'"') {
                    break;
                }
                text.push('"');
                at += 1;
            }
        } else {
            let length = memchr2(delimiter, b'"', &bytes[at..]).unwrap_or(bytes.len() - at);
            text.push_str(&raw[at..at + length]);
            at += length;
        }
        if cells.len() < most {
            cells.push(start..text.len());
        }
        match bytes.get(at) {
            None => return true,
            Some(byte) if *byte == delimiter => at += 1,
            Some(_) => return false,
        }
    }
}

#[cfg(test)]
#[path = "records_tests.rs"]
mod tests;
