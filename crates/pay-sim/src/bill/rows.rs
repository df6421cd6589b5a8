//! Which charges and refunds a day's bill has, after the faults had their way.

use chrono::{Days, NaiveDate, NaiveTime, TimeDelta, TimeZone as _};
use chrono_tz::Tz;
use serde::{Deserialize, Serialize};

use super::NoBill;
use super::faults::BillFault;
use crate::ledger::{Effect, Money, Moved};

/// Most rows of a bill: it is made in memory.
const MAX_ROWS: usize = 1_000_000;
const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// A row of the bill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// The order that was charged, or whose charge was given back.
    pub trade_order_no: String,
    /// Of a refund, its number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refund_order_no: Option<String>,
    /// Whose balance; 0 if the wallet never heard.
    pub user_id: u64,
    /// How much, without a sign.
    pub money: Money,
    /// The wallet's own number.
    pub transaction_id: String,
    /// When, in Unix milliseconds.
    pub at_ms: i64,
}

impl Row {
    /// The number that the row is matched by.
    #[must_use]
    pub fn order_no(&self) -> &str {
        self.refund_order_no.as_deref().unwrap_or(&self.trade_order_no)
    }

    /// The amount with a minus for refunds.
    pub(super) fn signed(&self) -> i128 {
        let amount = i128::from(self.money.amount);
        if self.refund_order_no.is_some() { -amount } else { amount }
    }

    fn of(moved: Moved) -> Option<Self> {
        let Moved { trade_order_no, user_id, entry } = moved;
        let (refund_order_no, money, transaction_id) = match entry.effect {
            Effect::Charge { money, transaction_id } => (None, money, transaction_id),
            Effect::Refund { refund_order_no, money, transaction_id } => {
                (Some(refund_order_no), money, transaction_id)
            }
            Effect::Grant { .. } => return None,
        };
        let user_id = user_id.unwrap_or_default();
        Some(Self { trade_order_no, refund_order_no, user_id, money, transaction_id, at_ms: entry.at_ms })
    }
}

/// A day in a zone: from its first instant to the next day's, in Unix milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    from_ms: i64,
    to_ms: i64,
}

impl Window {
    /// The day's window; none beyond the calendar.
    #[must_use]
    pub fn of(day: NaiveDate, zone: Tz) -> Option<Self> {
        let next = day.checked_add_days(Days::new(1))?;
        Some(Self { from_ms: first_ms(day, zone)?, to_ms: first_ms(next, zone)? })
    }

    fn holds(&self, at_ms: i64) -> bool {
        (self.from_ms..self.to_ms).contains(&at_ms)
    }
}

/// The first instant of a day: midnight, or what came after it where clocks were set forward then.
fn first_ms(day: NaiveDate, zone: Tz) -> Option<i64> {
    let midnight = day.and_time(NaiveTime::MIN);
    let candidates =
        (0..=4).filter_map(|halves| midnight.checked_add_signed(TimeDelta::minutes(30 * halves)));
    candidates
        .filter_map(|local| zone.from_local_datetime(&local).earliest())
        .map(|at| at.timestamp_millis())
        .next()
}

/// The rows of a bill that is being collected.
#[derive(Clone, Debug)]
pub struct Rows {
    window: Window,
    faults: Vec<BillFault>,
    rows: Vec<Row>,
}

impl Rows {
    /// None yet.
    #[must_use]
    pub fn new(window: Window, faults: Vec<BillFault>) -> Self {
        Self { window, faults, rows: Vec::new() }
    }

    /// Takes what belongs to the day, and what a fault puts there.
    ///
    /// # Errors
    /// When there are too many.
    pub fn add(&mut self, moved: Vec<Moved>) -> Result<(), NoBill> {
        for mut row in moved.into_iter().filter_map(Row::of) {
            let number = row.order_no().to_owned();
            let mut billed_ms = row.at_ms;
            let mut copies = 1;
            for fault in self.faults.iter().filter(|fault| fault.order_no() == Some(&number)) {
                match fault {
                    BillFault::Missing { .. } => copies = 0,
                    BillFault::Doubled { .. } => copies *= 2,
                    BillFault::WrongAmount { by, .. } => {
                        row.money.amount = row.money.amount.saturating_add(*by).max(1);
                    }
                    BillFault::Shifted { .. } => {
                        row.at_ms += DAY_MS;
                        billed_ms += DAY_MS;
                    }
                    BillFault::Late { .. } => billed_ms += DAY_MS,
                    BillFault::Altered { currency, user_id, transaction_id, later_ms, .. } => {
                        row.money.currency = currency.clone().unwrap_or(row.money.currency);
                        row.user_id = user_id.unwrap_or(row.user_id);
                        row.transaction_id = transaction_id.clone().unwrap_or(row.transaction_id);
                        row.at_ms = row.at_ms.saturating_add(*later_ms);
                    }
                    BillFault::Added { .. } | BillFault::Truncated | BillFault::WrongTotal => {}
                }
            }
            if self.window.holds(billed_ms) {
                self.rows.extend(std::iter::repeat_n(row, copies));
            }
            if self.rows.len() > MAX_ROWS {
                return Err(NoBill::TooManyRows { limit_rows: MAX_ROWS });
            }
        }
        Ok(())
    }

    /// The rows by time, with those that a fault adds.
    #[must_use]
    pub fn sorted(mut self) -> Vec<Row> {
        for fault in &self.faults {
            if let BillFault::Added { row } = fault
                && self.window.holds(row.at_ms)
            {
                self.rows.push(row.clone());
            }
        }
        self.rows.sort_by(|a, b| (a.at_ms, a.order_no()).cmp(&(b.at_ms, b.order_no())));
        self.rows
    }
}
