//! The wallet's bill for a day, in the layouts that real channels publish, and wrong on request.
//!
//! It is made by code of its own: the product's readers are held against it, so they must not share a line.

mod alipay;
mod faults;
mod generic;
mod ledger;
mod pack;
mod rows;
mod stripe;
mod wechat;

use chrono::{DateTime, NaiveDate, Utc};
use chrono_tz::Tz;
use serde::Deserialize;

pub use faults::{BillFault, BillFaults, TooManyFaults};
pub use rows::{Row, Rows, Window};

/// The layouts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// The product's own.
    #[default]
    LedgerCsv,
    /// A bank's table.
    GenericCsv,
    /// WeChat Pay's trade bill of the kind ALL.
    WechatTrade,
    /// Alipay's detail bill; as an archive with its summary.
    AlipayDetail,
    /// Stripe's itemised balance report.
    StripeItemised,
}

/// How the bill is packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pack {
    /// Not at all.
    #[default]
    None,
    /// With gzip.
    Gz,
    /// As a zip archive.
    Zip,
}

/// Which bill is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The business day.
    pub day: NaiveDate,
    /// The zone that it is a day in.
    pub zone: Tz,
    /// The layout.
    pub format: Format,
    /// How it is packed.
    pub pack: Pack,
    /// Its first total is one too high.
    pub wrong_total: bool,
}

/// A bill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bill {
    /// As it is sent.
    pub bytes: Vec<u8>,
    /// The rows before it was packed: what a channel vouches for.
    pub unpacked: Vec<u8>,
    /// How a browser should take it.
    pub content_type: &'static str,
}

/// Why there is no such bill.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoBill {
    /// The layout knows one currency alone.
    #[error("{format:?} bills are in CNY alone, the day has {currency}; ask for another format")]
    Currency {
        /// The layout.
        format: Format,
        /// The currency that it can't tell.
        currency: String,
    },
    /// More than a simulator makes in memory.
    #[error("the day has more than {limit_rows} rows, more than a simulated bill may have")]
    TooManyRows {
        /// The limit.
        limit_rows: usize,
    },
    /// Text that the layout's encoding can't hold, or an archive that could not be made.
    #[error("the bill could not be written: {what}")]
    Unwritable {
        /// What went wrong.
        what: String,
    },
}

/// Writes the bill with these rows.
///
/// # Errors
/// When the layout can't hold them.
pub fn write(rows: &[Row], ask: &Ask) -> Result<Bill, NoBill> {
    let files = match ask.format {
        Format::LedgerCsv => vec![("bill.csv".to_owned(), ledger::write(rows, ask).into_bytes())],
        Format::GenericCsv => vec![("bill.csv".to_owned(), generic::write(rows, ask).into_bytes())],
        Format::WechatTrade => vec![("bill.csv".to_owned(), wechat::write(rows, ask)?.into_bytes())],
        Format::StripeItemised => vec![("report.csv".to_owned(), stripe::write(rows, ask).into_bytes())],
        Format::AlipayDetail => alipay::write(rows, ask)?,
    };
    pack::pack(files, ask.pack)
}

/// How many decimals this wallet's currencies have.
fn exponent(currency: &str) -> u32 {
    match currency {
        "JPY" | "KRW" | "VND" => 0,
        "KWD" | "BHD" | "TND" => 3,
        _ => 2,
    }
}

/// Minor units as a decimal number.
fn decimal(minor: i128, exponent: u32) -> String {
    let scale = 10u128.pow(exponent);
    let (units, sign) = (minor.unsigned_abs(), if minor < 0 { "-" } else { "" });
    if exponent == 0 {
        return format!("{sign}{units}");
    }
    format!("{sign}{}.{:0width$}", units / scale, units % scale, width = exponent as usize)
}

/// An instant as the channel's clock showed it.
fn local(at_ms: i64, zone: Tz) -> String {
    let at = DateTime::<Utc>::from_timestamp_millis(at_ms).unwrap_or_default();
    at.with_timezone(&zone).format("%Y-%m-%d %H:%M:%S").to_string()
}

/// A cell by RFC 4180.
fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

/// # Errors
/// When a row is of another currency.
fn only_yuan(rows: &[Row], format: Format) -> Result<(), NoBill> {
    match rows.iter().find(|row| row.money.currency != "CNY") {
        Some(row) => Err(NoBill::Currency { format, currency: row.money.currency.clone() }),
        None => Ok(()),
    }
}
