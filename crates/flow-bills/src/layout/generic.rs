//! `generic-csv`: a table of text as configuration describes it.

use chrono::{DateTime, NaiveDateTime};
use encoding_rs::Encoding;

use crate::cells::{Cell, SignOf};
use crate::decimal::{Decimal, Notation, Sum};
use crate::entry::{EntryKind, Proof, QuarantineReason};
use crate::error::BillError;
use crate::header::{Column, Header};
use crate::layout::{End, Layout, Part, SummedColumn, same_count};
use crate::records::{Dialect, Record};
use crate::rules::BillRules;
use crate::rules::generic::{GenericCsv, KindRule, RefundSign, Sign, Trailer};
use crate::tally::{Draft, Outcome, Tally};
use crate::times::{self, Instant, NotATime};

/// The reader of the layout.
pub(crate) struct Generic {
    rules: GenericCsv,
    encoding: &'static Encoding,
    delimiter: u8,
    rows: Option<Rows>,
    trailer_seen: bool,
}

struct Rows {
    header: Header,
    order_no: Column,
    refund_order_no: Option<Column>,
    refund_amount: Option<Column>,
    at: Column,
    at_time: Option<Column>,
    currency: Option<Column>,
    user: Option<Column>,
    channel_ref: Option<Column>,
    kind: Option<Column>,
    proof: Option<Column>,
    /// One for each filter.
    filters: Vec<Column>,
    amounts: SummedColumn,
}

impl Generic {
    /// # Errors
    /// When the rules contradict themselves.
    pub(crate) fn new(rules: &GenericCsv) -> Result<Self, BillError> {
        let wrong = |what: &str| BillError::Rules { what: what.to_owned() };
        let encoding = Encoding::for_label(rules.encoding.as_bytes()).ok_or_else(|| wrong("encoding"))?;
        let delimiter = u8::try_from(rules.delimiter).map_err(|_| wrong("delimiter"))?;
        Ok(Self { rules: rules.clone(), encoding, delimiter, rows: None, trailer_seen: false })
    }

    fn is_remark(&self, record: &Record) -> bool {
        self.rules.comment.as_ref().is_some_and(|mark| record.raw().starts_with(mark.as_bytes()))
    }

    fn check_trailer(
        &self,
        trailer: &Trailer,
        record: &Record,
        tally: &mut Tally<'_>,
    ) -> Result<(), BillError> {
        let Some(rows) = &self.rows else {
            return Err(BillError::Truncated { what: "the header is missing" });
        };
        let number = |cell: usize| {
            let cut = BillError::Truncated { what: "the trailer has too few cells" };
            if cell > record.len() {
                return Err(cut);
            }
            let text = self.stripped(record.cell(cell - 1));
            let number = Decimal::parse(text, self.notation()).ok();
            number.ok_or_else(|| BillError::Corrupt {
                what: format!("cell {cell} of the trailer is no number"),
            })
        };
        if let Some(cell) = trailer.rows_cell {
            let count = number(cell)?.to_minor(0).ok().and_then(|count| u64::try_from(count).ok());
            let wrong = || BillError::Corrupt { what: format!("cell {cell} of the trailer is no count") };
            same_count("rows", count.ok_or_else(wrong)?, tally.summary.rows)?;
        }
        if let Some(cell) = trailer.amount_cell {
            let wrong = || BillError::Corrupt { what: format!("cell {cell} of the trailer is out of range") };
            let sum = Sum::of(number(cell)?).ok_or_else(wrong)?;
            rows.amounts.check(&rows.amounts.column.name, sum, tally)?;
        }
        Ok(())
    }

    fn notation(&self) -> Notation {
        Notation { point: self.rules.amounts.decimal_point, grouping: self.rules.amounts.grouping }
    }

    fn stripped<'a>(&self, text: &'a str) -> &'a str {
        text.trim_matches(|c: char| c.is_whitespace() || self.rules.strip.contains(c))
    }

    fn bind(&self, header: Header) -> Result<Rows, BillError> {
        let columns = &self.rules.columns;
        let need = |names: &str| header.need(&names.split('|').collect::<Vec<_>>());
        let optional = |names: &Option<String>| names.as_deref().map(need).transpose();
        let kind = match &self.rules.kind {
            KindRule::Column { name, .. } => Some(need(name)?),
            KindRule::Only(_) | KindRule::Sign(_) => None,
        };
        Ok(Rows {
            order_no: need(&columns.order_no)?,
            refund_order_no: optional(&columns.refund_order_no)?,
            refund_amount: optional(&columns.refund_amount)?,
            at: need(&columns.at)?,
            at_time: optional(&columns.at_time)?,
            currency: optional(&columns.currency)?,
            user: optional(&columns.user)?,
            channel_ref: optional(&columns.channel_ref)?,
            kind,
            proof: self.rules.proof.as_ref().map(|proof| need(&proof.column)).transpose()?,
            filters: self
                .rules
                .filters
                .iter()
                .map(|filter| need(&filter.column))
                .collect::<Result<_, _>>()?,
            amounts: SummedColumn::new(need(&columns.amount)?),
            header,
        })
    }
}

impl Layout for Generic {
    fn encoding(&self) -> &'static Encoding {
        self.encoding
    }

    fn dialect(&self) -> Dialect {
        Dialect { delimiter: self.delimiter, quoting: self.rules.quoting, digest: false }
    }

    fn record(&mut self, _part: Part, record: &Record, tally: &mut Tally<'_>) -> Result<(), BillError> {
        if record.line <= self.rules.skip_lines || self.is_remark(record) {
            return Ok(());
        }
        if self.trailer_seen {
            return Err(BillError::AfterEnd { line: record.line });
        }
        if self.rows.is_none() {
            self.rows = Some(self.bind(Header::of(record, &tally.rules.limits)?)?);
            return Ok(());
        }
        let trailer = self.rules.trailer.as_ref();
        if let Some(trailer) = trailer.filter(|t| record.raw().starts_with(t.starts_with.as_bytes())) {
            self.check_trailer(trailer, record, tally)?;
            self.trailer_seen = true;
            return Ok(());
        }
        let mut outcome = self.row(record, tally.rules);
        let is_summed = trailer.is_some_and(|trailer| trailer.amount_cell.is_some());
        if let Some(rows) = self.rows.as_mut().filter(|_| is_summed)
            && !rows.sum(record, &self.rules)
            && outcome.is_ok()
        {
            // A sum that can't be checked must never go with a bill that is clean.
            outcome = Err(rows.amounts.column.no_amount());
        }
        tally.row(record, outcome)
    }

    fn end(&mut self, _part: Part, end: End, _tally: &mut Tally<'_>) -> Result<(), BillError> {
        if self.rows.is_none() {
            return Err(BillError::Truncated { what: "the header is missing" });
        }
        match (&self.rules.trailer, self.trailer_seen) {
            (Some(_), true) => Ok(()),
            (Some(_), false) => Err(BillError::Truncated { what: "the trailer is missing" }),
            (None, _) if end.terminated || end.proven || !self.rules.ends_with_line_end => Ok(()),
            (None, _) => Err(BillError::Truncated { what: "the last row has no line end" }),
        }
    }
}

impl Rows {
    /// Adds the amount up, signs as they stand; false if it is not legible.
    fn sum(&mut self, record: &Record, rules: &GenericCsv) -> bool {
        let notation = Notation { point: rules.amounts.decimal_point, grouping: rules.amounts.grouping };
        let text = record.cell(self.amounts.column.index);
        let text = text.trim_matches(|c: char| c.is_whitespace() || rules.strip.contains(c));
        let legible = self.header.check(record).is_ok()
            && Decimal::parse(text, notation).is_ok_and(|number| self.amounts.sum.add(number));
        self.amounts.illegible |= !legible;
        legible
    }
}

impl Generic {
    fn row(&self, record: &Record, rules: &BillRules) -> Result<Outcome, QuarantineReason> {
        let Some(rows) = &self.rows else { return Ok(Outcome::Ignored) };
        rows.header.check(record)?;
        let cell = |column: &'_ Column| column.index;
        let of = |index: usize| self.stripped(record.cell(index));
        for (filter, column) in self.rules.filters.iter().zip(&rows.filters) {
            let value = of(cell(column));
            let kept = filter.keep.is_empty() || filter.keep.iter().any(|keep| keep == value);
            if !kept || filter.ignore.iter().any(|ignored| ignored == value) {
                return Ok(Outcome::Ignored);
            }
        }
        let Some((kind, sign)) = self.kind(rows, record)? else { return Ok(Outcome::Ignored) };
        let order_no = rows.order_no.cell(of(cell(&rows.order_no)));
        let (order_no, trade_order_no) = match (kind, &rows.refund_order_no) {
            (EntryKind::Payment, _) => (order_no.identifier()?, None),
            (EntryKind::Refund, Some(column)) => {
                (column.cell(of(cell(column))).identifier()?, order_no.optional_identifier()?)
            }
            (EntryKind::Refund, None) => return Err(order_no.unknown_status()),
        };
        let (currency, exponent) = self.currency(rows, record, rules)?;
        let optional = |column: &Option<Column>| {
            column.as_ref().map_or(Ok(None), |column| column.cell(of(cell(column))).optional_identifier())
        };
        Ok(Outcome::Entry(Draft {
            kind,
            order_no,
            trade_order_no,
            amount_minor: self.amount(rows, record, kind, sign, (&currency, exponent))?,
            currency,
            user: optional(&rows.user)?,
            channel_ref: optional(&rows.channel_ref)?,
            at: self.at(rows, record, rules)?,
            proof: self.proof(rows, record)?,
        }))
    }

    /// What the row is and which sign its amount must have; `None` for a row that may be ignored.
    fn kind(&self, rows: &Rows, record: &Record) -> Result<Option<(EntryKind, SignOf)>, QuarantineReason> {
        let refund_sign = match self.rules.amounts.refund_sign {
            RefundSign::Positive => SignOf::Positive,
            RefundSign::Negative => SignOf::Negative,
            RefundSign::Any => SignOf::Either,
        };
        let of_kind = |kind| match kind {
            EntryKind::Payment => (kind, SignOf::Positive),
            EntryKind::Refund => (kind, refund_sign),
        };
        match (&self.rules.kind, &rows.kind) {
            (KindRule::Only(only), _) => Ok(Some(of_kind((*only).into()))),
            (KindRule::Sign(sign), _) => {
                let amount = rows.amounts.column.cell(self.stripped(record.cell(rows.amounts.column.index)));
                let negative = amount.decimal(self.notation())?.is_negative();
                Ok(Some(match (sign, negative) {
                    (Sign::NegativeIsRefund, true) => (EntryKind::Refund, SignOf::Negative),
                    (Sign::NegativeIsRefund, false) => (EntryKind::Payment, SignOf::Positive),
                    (Sign::NegativeIsPayment, true) => (EntryKind::Payment, SignOf::Negative),
                    (Sign::NegativeIsPayment, false) => (EntryKind::Refund, SignOf::Positive),
                }))
            }
            (KindRule::Column { payment, refund, ignore, .. }, Some(column)) => {
                let cell = column.cell(self.stripped(record.cell(column.index)));
                let is = |values: &[String]| values.iter().any(|value| value == cell.text);
                match (is(payment), is(refund), is(ignore)) {
                    (true, _, _) => Ok(Some(of_kind(EntryKind::Payment))),
                    (false, true, _) => Ok(Some(of_kind(EntryKind::Refund))),
                    (false, false, true) => Ok(None),
                    (false, false, false) => Err(cell.unknown_status()),
                }
            }
            (KindRule::Column { name, .. }, None) => Err(QuarantineReason::Status { column: name.clone() }),
        }
    }

    fn currency(
        &self,
        rows: &Rows,
        record: &Record,
        rules: &BillRules,
    ) -> Result<(String, u32), QuarantineReason> {
        match (&rows.currency, &self.rules.currency) {
            (Some(column), _) => {
                column.cell(self.stripped(record.cell(column.index))).currency(&rules.exponents)
            }
            (None, given) => {
                let text = given.as_deref().unwrap_or_default();
                Cell { column: "currency", text }.currency(&rules.exponents)
            }
        }
    }

    fn amount(
        &self,
        rows: &Rows,
        record: &Record,
        kind: EntryKind,
        sign: SignOf,
        (currency, exponent): (&str, u32),
    ) -> Result<u64, QuarantineReason> {
        let column = match (kind, &rows.refund_amount) {
            (EntryKind::Refund, Some(column)) => column,
            (EntryKind::Refund, None) | (EntryKind::Payment, _) => &rows.amounts.column,
        };
        let cell = column.cell(self.stripped(record.cell(column.index)));
        let exponent = if self.rules.amounts.minor { 0 } else { exponent };
        cell.amount(cell.minor(self.notation(), currency, exponent)?, kind, sign)
    }

    fn at(&self, rows: &Rows, record: &Record, rules: &BillRules) -> Result<Instant, QuarantineReason> {
        let cell = rows.at.cell(self.stripped(record.cell(rows.at.index)));
        if cell.text.is_empty() {
            return Err(cell.unknown_status());
        }
        let joined = rows
            .at_time
            .as_ref()
            .map(|column| format!("{} {}", cell.text, self.stripped(record.cell(column.index))));
        let text = joined.as_deref().unwrap_or(cell.text);
        let format = &self.rules.time_format;
        if format == times::PLAIN_FORMAT
            && let Some(local) = times::parse_plain(text)
        {
            return times::resolve(local, rules.zone).map_err(|why| cell.no_time(why));
        }
        let text = text.replace('：', ":");
        if let Ok(at) = DateTime::parse_from_str(&text, format) {
            return Ok(Instant { at: at.to_utc(), ambiguous: false });
        }
        let local = NaiveDateTime::parse_from_str(&text, format).map_err(|_| cell.no_time(NotATime::Form))?;
        times::resolve(local, rules.zone).map_err(|why| cell.no_time(why))
    }

    fn proof(&self, rows: &Rows, record: &Record) -> Result<Proof, QuarantineReason> {
        let (Some(rule), Some(column)) = (&self.rules.proof, &rows.proof) else { return Ok(Proof::Settled) };
        let cell = column.cell(self.stripped(record.cell(column.index)));
        if rule.settled.iter().any(|value| value == cell.text) {
            Ok(Proof::Settled)
        } else if rule.accepted.iter().any(|value| value == cell.text) {
            Ok(Proof::Accepted)
        } else {
            Err(cell.unknown_status())
        }
    }
}
