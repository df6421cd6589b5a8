//! Rows of an Alipay detail bill, and the sums they are held against.

use crate::cells::SignOf;
use crate::decimal::{Decimal, Notation, Sum};
use crate::entry::{EntryKind, Proof, QuarantineReason};
use crate::error::BillError;
use crate::header::{Column, Header};
use crate::layout::{same_count, same_sum};
use crate::records::Record;
use crate::rules::BillRules;
use crate::tally::{Draft, Outcome, Tally};

/// The only currency of the layout: the columns say yuan.
const CURRENCY: &str = "CNY";

/// One of each, for payments and refunds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Kinds<T> {
    pub payments: T,
    pub refunds: T,
}

/// What the rows of a kind add up to.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    rows: u64,
    ordered: Sum,
    received: Sum,
    discount: Sum,
    illegible: bool,
}

/// The columns, and what the rows added up to so far.
pub(crate) struct Rows {
    header: Header,
    channel_ref: Column,
    order_no: Column,
    kind: Column,
    goods: Option<Column>,
    at: Column,
    ordered: Column,
    received: Column,
    discount: Column,
    refund_no: Column,
    sums: Kinds<Sums>,
    /// Rows of which not even the kind is legible.
    unknown_rows: u64,
}

impl Rows {
    pub(crate) fn of(header: Header) -> Result<Self, BillError> {
        Ok(Self {
            channel_ref: header.need(&["支付宝交易号"])?,
            order_no: header.need(&["商户订单号"])?,
            kind: header.need(&["业务类型"])?,
            goods: header.find(&["商品名称"])?,
            at: header.need(&["完成时间"])?,
            ordered: header.need(&["订单金额(元)"])?,
            received: header.need(&["商家实收(元)"])?,
            discount: header.need(&["商家优惠(元)"])?,
            refund_no: header.need(&["退款批次号/请求号"])?,
            sums: Kinds::default(),
            unknown_rows: 0,
            header,
        })
    }

    pub(crate) fn row(&mut self, record: &Record, rules: &BillRules) -> Result<Outcome, QuarantineReason> {
        let cells = self.cells(record);
        let kind = cells.as_ref().ok().map(|cells| cells[self.kind.index]);
        let sums = match kind {
            Some("交易") => Some(&mut self.sums.payments),
            Some("退款") => Some(&mut self.sums.refunds),
            Some(_) => None,
            None => {
                self.unknown_rows += 1;
                None
            }
        };
        let mut illegible = None;
        if let (Some(sums), Ok(cells)) = (sums, &cells) {
            sums.rows += 1;
            for (sum, column) in [
                (&mut sums.ordered, &self.ordered),
                (&mut sums.received, &self.received),
                (&mut sums.discount, &self.discount),
            ] {
                let number = Decimal::parse(cells[column.index], Notation::PLAIN);
                if !number.is_ok_and(|number| sum.add(number)) {
                    sums.illegible = true;
                    illegible.get_or_insert_with(|| column.no_amount());
                }
            }
        }
        let cells = cells?;
        let outcome = match kind {
            Some("交易") => self.entry(EntryKind::Payment, &cells, rules),
            Some("退款") => self.entry(EntryKind::Refund, &cells, rules),
            Some(_) | None => Err(self.kind.cell(cells[self.kind.index]).unknown_status()),
        }?;
        // A sum that can't be checked must never go with a bill that is clean.
        illegible.map_or(Ok(outcome), Err)
    }

    fn entry<'a>(
        &'a self,
        kind: EntryKind,
        cells: &[&'a str],
        rules: &BillRules,
    ) -> Result<Outcome, QuarantineReason> {
        let cell = |column: &'a Column| column.cell(cells[column.index]);
        let (number, refund_no) = (cell(&self.order_no), cell(&self.refund_no));
        let (order_no, trade_order_no, sign) = match kind {
            EntryKind::Payment => (number.identifier()?, None, SignOf::Positive),
            EntryKind::Refund => (refund_no.identifier()?, number.optional_identifier()?, SignOf::Negative),
        };
        let Some(exponent) = rules.exponents.get(CURRENCY) else {
            return Err(QuarantineReason::Currency { column: self.ordered.name.to_string() });
        };
        let ordered = cell(&self.ordered);
        let minor = ordered.minor(Notation::PLAIN, CURRENCY, *exponent)?;
        Ok(Outcome::Entry(Draft {
            kind,
            order_no,
            trade_order_no,
            amount_minor: ordered.amount(minor, kind, sign)?,
            currency: CURRENCY.to_owned(),
            user: None,
            channel_ref: cell(&self.channel_ref).optional_identifier()?,
            at: cell(&self.at).local_time(rules.zone)?,
            proof: Proof::Settled,
        }))
    }

    /// The cells. More than there should be means commas inside of the goods name, which is joined again; a comma anywhere else puts
    /// something into the columns of times and amounts that is none, and the row is set aside.
    fn cells<'a>(&self, record: &'a Record) -> Result<Vec<&'a str>, QuarantineReason> {
        let Err(reason) = self.header.check(record) else {
            return Ok((0..record.len()).map(|index| record.cell(index)).collect());
        };
        let surplus = record.len().saturating_sub(self.header.len());
        let goods = self.goods.as_ref().filter(|_| surplus > 0 && record.fault().is_none());
        let Some(goods) = goods else { return Err(reason) };
        let place = goods.index;
        let text = |index: usize| match index {
            index if index < place => record.cell(index),
            index if index == place => record.joined(place, place + surplus).trim(),
            index => record.cell(index + surplus),
        };
        let cells: Vec<&str> = (0..self.header.len()).map(text).collect();
        let amounts = [&self.ordered, &self.received, &self.discount];
        let sound = crate::times::parse_local(cells[self.at.index]).is_some()
            && amounts.iter().all(|column| Decimal::parse(cells[column.index], Notation::PLAIN).is_ok());
        if sound { Ok(cells) } else { Err(reason) }
    }

    /// `N笔，商家实收共X元，商家优惠共Y元`
    pub(crate) fn check_payments(&self, text: &str, tally: &mut Tally<'_>) -> Result<(), BillError> {
        self.check("交易合计", &self.sums.payments, text, ["商家实收共", "商家优惠共"], tally)
    }

    /// `N笔，商家实收退款共X元，商家优惠退款共Y元`
    pub(crate) fn check_refunds(&self, text: &str, tally: &mut Tally<'_>) -> Result<(), BillError> {
        self.check("退款合计", &self.sums.refunds, text, ["商家实收退款共", "商家优惠退款共"], tally)
    }

    fn check(
        &self,
        what: &str,
        seen: &Sums,
        text: &str,
        names: [&str; 2],
        tally: &mut Tally<'_>,
    ) -> Result<(), BillError> {
        let cut = BillError::Truncated { what: "a line that sums up ends early" };
        let Some((count, _)) = text.split_once('笔') else { return Err(cut) };
        let count = count.trim().parse().map_err(|_| no_number(what))?;
        self.check_count(what, count, seen.rows)?;
        for (name, sum) in names.into_iter().zip([seen.received, seen.discount]) {
            let Some((_, rest)) = text.split_once(name) else { return Err(cut) };
            let Some((number, _)) = rest.split_once('元') else { return Err(cut) };
            let trailer = sum_of(number.trim()).ok_or_else(|| no_number(name))?;
            if self.unverifiable(seen) {
                tally.summary.unverified_sums.push(name.to_owned());
                continue;
            }
            // Refunds are written with a minus in rows, and in some bills without one here.
            same_sum(name, trailer.unsigned(), sum.unsigned())?;
        }
        Ok(())
    }

    /// A row of unknown kind may be of either.
    fn check_count(&self, what: &str, trailer: u64, seen: u64) -> Result<(), BillError> {
        if trailer >= seen && trailer - seen <= self.unknown_rows {
            return Ok(());
        }
        same_count(what, trailer, seen)
    }

    fn unverifiable(&self, sums: &Sums) -> bool {
        sums.illegible || self.unknown_rows > 0
    }
}

/// The columns of the summary file.
pub(crate) struct SummaryColumns {
    payments: Column,
    refunds: Column,
    ordered: Column,
    received: Column,
}

impl SummaryColumns {
    pub(crate) fn of(header: Header) -> Result<Self, BillError> {
        Ok(Self {
            payments: header.need(&["交易订单总笔数"])?,
            refunds: header.need(&["退款订单总笔数"])?,
            ordered: header.need(&["订单金额(元)"])?,
            received: header.need(&["商家实收(元)"])?,
        })
    }

    /// Holds the line of totals against the rows of the bill.
    pub(crate) fn check(&self, record: &Record, rows: &Rows, tally: &mut Tally<'_>) -> Result<(), BillError> {
        let Kinds { payments, refunds } = &rows.sums;
        for (column, seen) in [(&self.payments, payments.rows), (&self.refunds, refunds.rows)] {
            let trailer = column.of(record).text.parse().map_err(|_| no_number(&column.name))?;
            rows.check_count(&column.name, trailer, seen)?;
        }
        for (column, seen) in [
            (&self.ordered, payments.ordered + refunds.ordered),
            (&self.received, payments.received + refunds.received),
        ] {
            let trailer = sum_of(column.of(record).text).ok_or_else(|| no_number(&column.name))?;
            if rows.unverifiable(payments) || rows.unverifiable(refunds) {
                tally.summary.unverified_sums.push(column.name.to_string());
                continue;
            }
            same_sum(&column.name, trailer, seen)?;
        }
        Ok(())
    }
}

fn sum_of(text: &str) -> Option<Sum> {
    Decimal::parse(text, Notation::PLAIN).ok().and_then(Sum::of)
}

fn no_number(what: &str) -> BillError {
    BillError::Corrupt { what: format!("`{what}` is no number") }
}
