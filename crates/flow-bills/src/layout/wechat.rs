//! WeChat Pay trade bill: ALL, SUCCESS and REFUND, in its 24-, 27- and 29-column layouts and whatever comes next.
//!
//! UTF-8, a header, rows whose every cell begins with a backtick, then two lines that count and sum up. A cell without a backtick is the rest of
//! the one before it: a comma inside a goods name. A refund row says that the refund was accepted; that it was paid it says only with the
//! status `SUCCESS`.

use crate::cells::{Cell, SignOf};
use crate::decimal::{Decimal, Notation, Sum};
use crate::entry::{EntryKind, Proof, QuarantineReason};
use crate::error::BillError;
use crate::header::{Column, Header};
use crate::layout::answers;
use crate::layout::{End, Layout, Part, SummedColumn, same_count};
use crate::records::{Dialect, Record};
use crate::rules::{BillRules, WechatTrade};
use crate::tally::{Draft, Outcome, Tally};

/// The first name of the line that begins the trailer.
const COUNT: &str = "总交易单数";

/// The trailer's sums: their names in it, and the names of the columns they sum up.
const SUMS: [(&[&str], &[&str]); 6] = [
    (&["应结订单总金额", "总交易额"], &["应结订单金额", "总金额"]),
    (&["退款总金额", "总退款金额"], &["退款金额"]),
    (
        &["充值券退款总金额", "总代金券或立减优惠退款金额", "总企业红包退款金额"],
        &["充值券退款金额", "代金券或立减优惠退款金额", "企业红包退款金额"],
    ),
    (&["手续费总金额"], &["手续费"]),
    (&["订单总金额"], &["订单金额"]),
    (&["申请退款总金额"], &["申请退款金额"]),
];

/// The reader of the layout.
pub(crate) struct Wechat {
    rules: WechatTrade,
    state: State,
}

enum State {
    BeforeHeader,
    Rows(Box<Rows>),
    Trailer(Box<Rows>, Header),
    Done,
}

struct Rows {
    header: Header,
    columns: Columns,
    sums: Vec<(&'static [&'static str], SummedColumn)>,
}

struct Columns {
    at: Column,
    trade_ref: Column,
    trade_order_no: Column,
    status: Column,
    currency: Column,
    paid: Column,
    user: Option<Column>,
    refund: Option<RefundColumns>,
}

/// Not in a bill of the kind SUCCESS.
struct RefundColumns {
    refunded_at: Option<Column>,
    refund_ref: Column,
    refund_order_no: Column,
    refunded: Column,
    status: Column,
}

impl Wechat {
    pub(crate) fn new(rules: &WechatTrade) -> Self {
        Self { rules: rules.clone(), state: State::BeforeHeader }
    }
}

impl Layout for Wechat {
    fn dialect(&self) -> Dialect {
        Dialect { delimiter: b',', quoting: false, digest: false }
    }

    fn answer(&self, document: &[u8]) -> Option<BillError> {
        answers::wechat(document)
    }

    fn record(&mut self, _part: Part, record: &Record, tally: &mut Tally<'_>) -> Result<(), BillError> {
        match std::mem::replace(&mut self.state, State::Done) {
            State::BeforeHeader => {
                let header = Header::of(record, &tally.rules.limits)?;
                self.state = State::Rows(Box::new(Rows::of(header, &self.rules)?));
            }
            State::Rows(rows) if record.cell(0).trim_start_matches('`').trim() == COUNT => {
                let trailer = Header::of(record, &tally.rules.limits)?;
                self.state = State::Trailer(rows, trailer);
            }
            State::Rows(mut rows) => {
                tally.row(record, rows.row(record, tally.rules))?;
                self.state = State::Rows(rows);
            }
            State::Trailer(mut rows, trailer) => rows.check(&trailer, record, tally)?,
            State::Done => return Err(BillError::AfterEnd { line: record.line }),
        }
        Ok(())
    }

    fn end(&mut self, _part: Part, _end: End, _tally: &mut Tally<'_>) -> Result<(), BillError> {
        match self.state {
            State::Done => Ok(()),
            State::BeforeHeader => Err(BillError::Truncated { what: "the header is missing" }),
            State::Rows(_) | State::Trailer(..) => {
                Err(BillError::Truncated { what: "the two lines that sum up are missing" })
            }
        }
    }
}

impl Rows {
    fn of(header: Header, rules: &WechatTrade) -> Result<Self, BillError> {
        let mut sums = Vec::new();
        for (trailer, columns) in SUMS {
            sums.extend(header.find(columns)?.map(|column| (trailer, SummedColumn::new(column))));
        }
        let refund = match (header.find(&["商户退款单号"])?, header.find(&["退款状态"])?) {
            (Some(refund_order_no), Some(status)) => Some(RefundColumns {
                refunded_at: header.find(&["退款成功时间"])?,
                refund_ref: header.need(&["微信退款单号"])?,
                refund_order_no,
                refunded: header.need(&["申请退款金额", "退款金额"])?,
                status,
            }),
            (Some(_) | None, _) => None,
        };
        let columns = Columns {
            at: header.need(&["交易时间"])?,
            trade_ref: header.need(&["微信订单号"])?,
            trade_order_no: header.need(&["商户订单号"])?,
            status: header.need(&["交易状态"])?,
            currency: header.need(&["货币种类"])?,
            paid: header.need(&["订单金额", "总金额"])?,
            user: rules.user_column.as_deref().map(|name| header.need(&[name])).transpose()?,
            refund,
        };
        Ok(Self { header, columns, sums })
    }

    fn row(&mut self, record: &Record, rules: &BillRules) -> Result<Outcome, QuarantineReason> {
        let cells = self.cells(record);
        let mut illegible = None;
        for (_, summed) in &mut self.sums {
            let number = cells.as_ref().ok().map(|cells| cells[summed.column.index]);
            let number = number.and_then(|text| Decimal::parse(text, Notation::PLAIN).ok());
            if !number.is_some_and(|number| summed.sum.add(number)) {
                summed.illegible = true;
                illegible.get_or_insert_with(|| summed.column.no_amount());
            }
        }
        let cells = cells?;
        let status = cell(&self.columns.status, &cells);
        let outcome = match status.text {
            "SUCCESS" => self.columns.payment(&cells, rules),
            "REFUND" => self.columns.refund(&cells, rules),
            // REVOKED as well: the money went back without a refund of ours.
            _ => Err(status.unknown_status()),
        }?;
        // A sum that can't be checked must never go with a bill that is clean.
        illegible.map_or(Ok(outcome), Err)
    }

    /// The cells without their backticks, with the commas inside of them.
    fn cells<'a>(&self, record: &'a Record) -> Result<Vec<&'a str>, QuarantineReason> {
        if let Some(fault) = record.fault() {
            return Err(fault.clone());
        }
        let marked = record.cell(0).starts_with('`');
        let mut cells: Vec<(usize, usize)> = Vec::with_capacity(self.header.len());
        for index in 0..record.len() {
            match cells.last_mut() {
                Some((_, last)) if marked && !record.cell(index).starts_with('`') => *last = index,
                Some(_) | None => cells.push((index, index)),
            }
        }
        if cells.len() != self.header.len() {
            return Err(QuarantineReason::Shape { expected: self.header.len(), seen: cells.len() });
        }
        let text = |(from, to): (usize, usize)| {
            let text = record.joined(from, to).trim();
            text.strip_prefix('`').unwrap_or(text).trim()
        };
        Ok(cells.into_iter().map(text).collect())
    }

    /// Holds the trailer against what was read.
    fn check(&mut self, trailer: &Header, record: &Record, tally: &mut Tally<'_>) -> Result<(), BillError> {
        let rest = "the last line is shorter than the one above it";
        if record.fault().is_some() || record.len() < trailer.len() {
            return Err(BillError::Truncated { what: rest });
        }
        let number = |column: &Column| {
            let text = record.cell(column.index).trim_start_matches('`');
            let number = Decimal::parse(text, Notation::PLAIN).ok();
            number.ok_or_else(|| BillError::Corrupt {
                what: format!("`{}` of the trailer is no number", column.name),
            })
        };
        let count = number(&trailer.need(&[COUNT])?)?.to_minor(0).ok();
        let count = count.and_then(|count| u64::try_from(count).ok());
        let count = count
            .ok_or_else(|| BillError::Corrupt { what: format!("`{COUNT}` of the trailer is no count") })?;
        same_count(COUNT, count, tally.summary.rows)?;
        let mut checked = 0;
        for (names, summed) in &self.sums {
            let Some(column) = trailer.find(names)? else { continue };
            checked += 1;
            let wrong =
                || BillError::Corrupt { what: format!("`{}` of the trailer is out of range", column.name) };
            let expected = Sum::of(number(&column)?).ok_or_else(wrong)?;
            summed.check(&column.name, expected, tally)?;
        }
        // Other names than any that are known: nothing would have been held against the rows but their number.
        if checked == 0 {
            return Err(BillError::HeaderMissing { name: "订单总金额".to_owned() });
        }
        Ok(())
    }
}

impl Columns {
    fn payment(&self, cells: &[&str], rules: &BillRules) -> Result<Outcome, QuarantineReason> {
        let kind = EntryKind::Payment;
        let (currency, exponent) = cell(&self.currency, cells).currency(&rules.exponents)?;
        let paid = cell(&self.paid, cells);
        Ok(Outcome::Entry(Draft {
            kind,
            order_no: cell(&self.trade_order_no, cells).identifier()?,
            trade_order_no: None,
            amount_minor: paid.amount(
                paid.minor(Notation::PLAIN, &currency, exponent)?,
                kind,
                SignOf::Positive,
            )?,
            user: self.user(cells)?,
            channel_ref: cell(&self.trade_ref, cells).optional_identifier()?,
            at: cell(&self.at, cells).local_time(rules.zone)?,
            proof: Proof::Settled,
            currency,
        }))
    }

    fn refund(&self, cells: &[&str], rules: &BillRules) -> Result<Outcome, QuarantineReason> {
        let kind = EntryKind::Refund;
        let Some(columns) = &self.refund else { return Err(cell(&self.status, cells).unknown_status()) };
        let status = cell(&columns.status, cells);
        let proof = match status.text {
            "SUCCESS" => Proof::Settled,
            // CHANGE: the bank refused it, the merchant must act. Taken, and not paid.
            "PROCESSING" | "CHANGE" | "ABNORMAL" => Proof::Accepted,
            "FAIL" | "FAILED" | "CLOSED" => return Ok(Outcome::Ignored),
            _ => return Err(status.unknown_status()),
        };
        let paid_at = columns.refunded_at.as_ref().map(|column| cell(column, cells));
        let at = paid_at.filter(|cell| !cell.text.is_empty()).unwrap_or_else(|| cell(&self.at, cells));
        let (currency, exponent) = cell(&self.currency, cells).currency(&rules.exponents)?;
        let refunded = cell(&columns.refunded, cells);
        Ok(Outcome::Entry(Draft {
            kind,
            order_no: cell(&columns.refund_order_no, cells).identifier()?,
            trade_order_no: cell(&self.trade_order_no, cells).optional_identifier()?,
            amount_minor: refunded.amount(
                refunded.minor(Notation::PLAIN, &currency, exponent)?,
                kind,
                SignOf::Positive,
            )?,
            user: self.user(cells)?,
            channel_ref: cell(&columns.refund_ref, cells).optional_identifier()?,
            at: at.local_time(rules.zone)?,
            proof,
            currency,
        }))
    }

    fn user(&self, cells: &[&str]) -> Result<Option<String>, QuarantineReason> {
        match &self.user {
            Some(column) => cell(column, cells).optional_identifier(),
            None => Ok(None),
        }
    }
}

fn cell<'a>(column: &'a Column, cells: &[&'a str]) -> Cell<'a> {
    column.cell(cells[column.index])
}
