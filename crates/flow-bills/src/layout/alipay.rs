//! Alipay detail bill, and the summary that comes in the same archive.
//!
//! GBK, remarks that begin with `#`, a header, rows whose cells end with tabs, then remarks that count and sum up. The summary file
//! has a line `合计`; it is held against the same rows.

use encoding_rs::{Encoding, GBK};

use crate::error::BillError;
use crate::header::Header;
use crate::layout::alipay_rows::{Kinds, Rows, SummaryColumns};
use crate::layout::answers;
use crate::layout::{End, Layout, Part};
use crate::records::{Dialect, Record};
use crate::tally::Tally;

const DAY: &str = "起始日期：[";
const ROWS_END: &str = "业务明细列表结束";
const PAYMENTS: &str = "交易合计：";
const REFUNDS: &str = "退款合计：";
const TOTAL: &str = "合计";

/// The reader of the layout.
#[derive(Default)]
pub(crate) struct Alipay {
    rows: Option<Rows>,
    rows_ended: bool,
    summed: Kinds<bool>,
    summary: Option<SummaryColumns>,
    summary_checked: bool,
}

impl Layout for Alipay {
    fn encoding(&self) -> &'static Encoding {
        GBK
    }

    fn dialect(&self) -> Dialect {
        Dialect { delimiter: b',', quoting: false, digest: false }
    }

    fn answer(&self, document: &[u8]) -> Option<BillError> {
        answers::alipay(document)
    }

    fn part(&self, head: &str) -> Option<Part> {
        let first = head.lines().next().unwrap_or_default();
        let is_summary = first.contains("汇总") || head.contains("业务汇总列表");
        Some(if is_summary { Part::Summary } else { Part::Bill })
    }

    fn record(&mut self, part: Part, record: &Record, tally: &mut Tally<'_>) -> Result<(), BillError> {
        match (part, record.raw().first()) {
            (Part::Bill, Some(b'#')) => self.remark(record, tally),
            (Part::Bill, _) => self.row(record, tally),
            (Part::Summary, Some(b'#')) => check_day(&text(record), tally),
            (Part::Summary, _) => self.summary_line(record, tally),
        }
    }

    fn end(&mut self, part: Part, _end: End, tally: &mut Tally<'_>) -> Result<(), BillError> {
        match part {
            Part::Bill if self.rows.is_none() => Err(BillError::Truncated { what: "the header is missing" }),
            Part::Bill if !self.rows_ended => {
                Err(BillError::Truncated { what: "the end of the list is missing" })
            }
            Part::Bill if !(self.summed.payments && self.summed.refunds) => {
                Err(BillError::Truncated { what: "the lines that sum up are missing" })
            }
            Part::Summary if !self.summary_checked => {
                Err(BillError::Truncated { what: "the summary's last line is missing" })
            }
            Part::Bill | Part::Summary => {
                tally.summary.unverified_sums.sort();
                tally.summary.unverified_sums.dedup();
                Ok(())
            }
        }
    }
}

impl Alipay {
    fn remark(&mut self, record: &Record, tally: &mut Tally<'_>) -> Result<(), BillError> {
        let text = text(record);
        check_day(&text, tally)?;
        if text.contains(ROWS_END) {
            self.rows_ended = true;
        }
        let Some(rows) = &self.rows else { return Ok(()) };
        if let Some((_, sums)) = text.split_once(PAYMENTS) {
            rows.check_payments(sums, tally)?;
            self.summed.payments = true;
        }
        if let Some((_, sums)) = text.split_once(REFUNDS) {
            rows.check_refunds(sums, tally)?;
            self.summed.refunds = true;
        }
        Ok(())
    }

    fn row(&mut self, record: &Record, tally: &mut Tally<'_>) -> Result<(), BillError> {
        if self.rows_ended {
            return Err(BillError::AfterEnd { line: record.line });
        }
        match &mut self.rows {
            Some(rows) => {
                let outcome = rows.row(record, tally.rules);
                tally.row(record, outcome)
            }
            None => {
                self.rows = Some(Rows::of(Header::of(record, &tally.rules.limits)?)?);
                Ok(())
            }
        }
    }

    fn summary_line(&mut self, record: &Record, tally: &mut Tally<'_>) -> Result<(), BillError> {
        match (&self.summary, &self.rows) {
            (None, _) => {
                self.summary = Some(SummaryColumns::of(Header::of(record, &tally.rules.limits)?)?);
            }
            (Some(columns), Some(rows)) if record.cell(0) == TOTAL => {
                columns.check(record, rows, tally)?;
                self.summary_checked = true;
            }
            // A line per shop.
            (Some(_), _) => {}
        }
        Ok(())
    }
}

/// A remark's text; whatever is no text in it is of no use.
fn text(record: &Record) -> String {
    record.shown(usize::MAX)
}

/// The day that the bill is for, if it says so and one was asked for.
fn check_day(text: &str, tally: &Tally<'_>) -> Result<(), BillError> {
    let (Some((_, rest)), Some(asked)) = (text.split_once(DAY), tally.rules.day) else { return Ok(()) };
    let expected = asked.format("%Y年%m月%d日").to_string();
    let seen: String = rest.chars().take_while(|c| *c != ' ' && *c != ']').take(32).collect();
    if seen == expected {
        return Ok(());
    }
    Err(BillError::AnotherBill { what: "day", expected, seen })
}
