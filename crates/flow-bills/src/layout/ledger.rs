//! `ledger-csv`: our own layout, which says everything that a reconciliation needs and proves that it is whole.
//!
//! UTF-8, RFC 4180. A line that names version, day and zone; a header; rows with minor units and instants; then totals by kind and currency, the
//! number of rows, and the digest of every byte before its own line. Nothing may follow. See `docs/bill-formats.md`.

use std::collections::BTreeMap;

use chrono::DateTime;

use crate::cells::{Cell, SignOf};
use crate::decimal::Notation;
use crate::entry::{EntryKind, Proof, QuarantineReason};
use crate::error::BillError;
use crate::header::{Column, Header};
use crate::layout::{End, Layout, Part, same_count};
use crate::read::same_digest;
use crate::records::{Dialect, Record};
use crate::rules::BillRules;
use crate::tally::{Draft, Outcome, Tally};
use crate::times::{Instant, NotATime};

const FIRST: &str = "#ledger-csv";
const VERSION: &str = "1";
const TOTAL: &str = "#total";
const ROWS: &str = "#rows";
const DIGEST: &str = "#sha256";

/// The reader of the layout.
#[derive(Default)]
pub(crate) struct Ledger {
    state: State,
    columns: Option<Columns>,
    totals: BTreeMap<(EntryKind, String), Total>,
    rows_checked: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Begin,
    Header,
    Rows,
    Trailer,
    Done,
}

/// Rows of a kind and currency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Total {
    rows: u64,
    sum_minor: u128,
    checked: bool,
}

struct Columns {
    header: Header,
    kind: Column,
    order_no: Column,
    trade_order_no: Column,
    amount_minor: Column,
    currency: Column,
    user_id: Column,
    channel_ref: Column,
    at: Column,
    status: Column,
}

impl Layout for Ledger {
    fn dialect(&self) -> Dialect {
        Dialect { delimiter: b',', quoting: true, digest: true }
    }

    fn record(&mut self, _part: Part, record: &Record, tally: &mut Tally<'_>) -> Result<(), BillError> {
        let is_frame = record.raw().first() == Some(&b'#');
        match self.state {
            State::Begin => {
                check_first(record, tally)?;
                self.state = State::Header;
            }
            State::Header => {
                self.columns = Some(Columns::of(Header::of(record, &tally.rules.limits)?)?);
                self.state = State::Rows;
            }
            State::Rows | State::Trailer if is_frame => {
                self.state = State::Trailer;
                self.trailer(record, tally)?;
            }
            State::Rows => self.row(record, tally)?,
            State::Trailer | State::Done => return Err(BillError::AfterEnd { line: record.line }),
        }
        Ok(())
    }

    fn end(&mut self, _part: Part, _end: End, tally: &mut Tally<'_>) -> Result<(), BillError> {
        if self.state != State::Done {
            return Err(BillError::Truncated { what: "the line with the digest is missing" });
        }
        if !self.rows_checked {
            return Err(BillError::Truncated { what: "the line with the number of rows is missing" });
        }
        if tally.summary.quarantined > 0 {
            tally.summary.unverified_sums.push(TOTAL.to_owned());
            return Ok(());
        }
        match self.totals.iter().find(|(_, total)| !total.checked) {
            Some(((kind, currency), total)) => {
                same_count(&format!("{TOTAL} {kind} {currency}"), 0, total.rows)
            }
            None => Ok(()),
        }
    }
}

/// `#ledger-csv,1,2026-11-30,Asia/Shanghai`
fn check_first(record: &Record, tally: &Tally<'_>) -> Result<(), BillError> {
    if record.cell(0) != FIRST {
        return Err(BillError::HeaderMissing { name: FIRST.to_owned() });
    }
    let same = |what: &'static str, expected: &str, seen: &str| {
        if expected == seen {
            return Ok(());
        }
        let seen = seen.chars().take(64).collect();
        Err(BillError::AnotherBill { what, expected: expected.to_owned(), seen })
    };
    same("version", VERSION, record.cell(1))?;
    if let Some(day) = tally.rules.day {
        same("day", &day.to_string(), record.cell(2))?;
    }
    same("time zone", tally.rules.zone.name(), record.cell(3))
}

impl Ledger {
    fn row(&mut self, record: &Record, tally: &mut Tally<'_>) -> Result<(), BillError> {
        let Some(columns) = &self.columns else { return Err(BillError::AfterEnd { line: record.line }) };
        let outcome = columns.row(record, tally.rules);
        if let Ok(Outcome::Entry(draft)) = &outcome {
            let total = self.totals.entry((draft.kind, draft.currency.clone())).or_default();
            total.rows += 1;
            total.sum_minor += u128::from(draft.amount_minor);
        }
        tally.row(record, outcome)
    }

    fn trailer(&mut self, record: &Record, tally: &Tally<'_>) -> Result<(), BillError> {
        match record.cell(0) {
            TOTAL => self.total(record, tally),
            ROWS => {
                same_count("rows", number(ROWS, record.cell(1))?, tally.summary.rows)?;
                self.rows_checked = true;
                Ok(())
            }
            DIGEST => {
                let mut expected = [0; 32];
                let given = hex::decode_to_slice(record.cell(1), &mut expected);
                given.map_err(|_| BillError::Truncated { what: "the digest is no 64 hexadecimal digits" })?;
                let seen = record.digest_before.unwrap_or_default();
                same_digest("SHA-256 of its trailer", &expected, &seen)?;
                self.state = State::Done;
                Ok(())
            }
            _ => Err(BillError::Corrupt { what: format!("line {} is no line of a trailer", record.line) }),
        }
    }

    /// `#total,payment,CNY,2,3980`
    fn total(&mut self, record: &Record, tally: &Tally<'_>) -> Result<(), BillError> {
        let kind = kind_of(record.cell(1));
        let kind = kind.ok_or_else(|| BillError::Corrupt { what: format!("{TOTAL} of no kind") })?;
        let (rows, sum_minor): (u64, u128) = (number(TOTAL, record.cell(3))?, number(TOTAL, record.cell(4))?);
        if tally.summary.quarantined > 0 {
            return Ok(());
        }
        let seen = self.totals.entry((kind, record.cell(2).to_owned())).or_default();
        seen.checked = true;
        let what = format!("{TOTAL} {kind} {}", record.cell(2));
        same_count(&what, rows, seen.rows)?;
        if sum_minor == seen.sum_minor {
            return Ok(());
        }
        Err(BillError::SumMismatch { what, trailer: sum_minor.to_string(), seen: seen.sum_minor.to_string() })
    }
}

fn number<T: std::str::FromStr>(what: &str, text: &str) -> Result<T, BillError> {
    text.parse().map_err(|_| BillError::Corrupt { what: format!("{what} holds no number") })
}

fn kind_of(text: &str) -> Option<EntryKind> {
    match text {
        "payment" => Some(EntryKind::Payment),
        "refund" => Some(EntryKind::Refund),
        _ => None,
    }
}

impl Columns {
    fn of(header: Header) -> Result<Self, BillError> {
        Ok(Self {
            kind: header.need(&["kind"])?,
            order_no: header.need(&["order_no"])?,
            trade_order_no: header.need(&["trade_order_no"])?,
            amount_minor: header.need(&["amount_minor"])?,
            currency: header.need(&["currency"])?,
            user_id: header.need(&["user_id"])?,
            channel_ref: header.need(&["channel_ref"])?,
            at: header.need(&["at"])?,
            status: header.need(&["status"])?,
            header,
        })
    }

    fn row(&self, record: &Record, rules: &BillRules) -> Result<Outcome, QuarantineReason> {
        self.header.check(record)?;
        let kind = self.kind.of(record);
        let kind = kind_of(kind.text).ok_or_else(|| kind.unknown_status())?;
        let status = self.status.of(record);
        let proof = match status.text {
            "SETTLED" => Proof::Settled,
            "ACCEPTED" => Proof::Accepted,
            _ => return Err(status.unknown_status()),
        };
        let (currency, _) = self.currency.of(record).currency(&rules.exponents)?;
        let amount = self.amount_minor.of(record);
        Ok(Outcome::Entry(Draft {
            kind,
            order_no: self.order_no.of(record).identifier()?,
            trade_order_no: self.trade_order_no.of(record).optional_identifier()?,
            amount_minor: amount.amount(
                amount.minor(Notation::PLAIN, &currency, 0)?,
                kind,
                SignOf::Positive,
            )?,
            currency,
            user: self.user_id.of(record).optional_identifier()?,
            channel_ref: self.channel_ref.of(record).optional_identifier()?,
            at: instant(self.at.of(record))?,
            proof,
        }))
    }
}

/// RFC 3339, with an offset.
fn instant(cell: Cell<'_>) -> Result<Instant, QuarantineReason> {
    match DateTime::parse_from_rfc3339(cell.text) {
        Ok(at) => Ok(Instant { at: at.to_utc(), ambiguous: false }),
        Err(_) => Err(cell.no_time(NotATime::Form)),
    }
}
