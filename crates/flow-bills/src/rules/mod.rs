//! How a channel's bills are read: the format, and what belongs to the channel rather than to the format.
//!
//! Shapes that configuration may fill in derive `Deserialize`; what they may not say is refused by [`BillFormat::check`].

pub(crate) mod generic;

use std::collections::BTreeMap;

use chrono::NaiveDate;
use chrono_tz::Tz;
use serde::Deserialize;

use self::generic::GenericCsv;

/// Most decimals a minor unit may have: `u64` amounts end before.
pub const MAX_EXPONENT: u32 = 18;

/// The layout of a bill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BillFormat {
    /// Our own: header, rows, counts, sums, digest.
    LedgerCsv,
    /// Any table of text; its columns come from configuration.
    GenericCsv(Box<GenericCsv>),
    /// WeChat Pay trade bill: ALL, SUCCESS or REFUND, of any of its layouts.
    WechatTrade(WechatTrade),
    /// Alipay detail bill, with or without its summary file.
    AlipayDetail,
    /// Stripe itemised balance report.
    StripeItemised(StripeItemised),
}

/// What the WeChat layout leaves open.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WechatTrade {
    /// Column that carries our own user id, where payments are made so (`商户数据包`). Without it entries name no user:
    /// an open id is not one.
    #[serde(default)]
    pub user_column: Option<String>,
}

/// What the Stripe layout leaves open: under which metadata keys our numbers were stored.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StripeItemised {
    /// Column of the payment's number, `payment_metadata[trade_order_no]`.
    pub trade_order_column: String,
    /// Column of the refund's number, `refund_metadata[refund_order_no]`. Without it every refund is quarantined.
    #[serde(default)]
    pub refund_order_column: Option<String>,
    /// Column of our own user id.
    #[serde(default)]
    pub user_column: Option<String>,
}

/// What belongs to the channel, whatever the format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BillRules {
    /// The zone of the bill's local times.
    pub zone: Tz,
    /// Decimals of the smallest unit by currency, as this channel counts. A currency that is not in it is quarantined.
    pub exponents: BTreeMap<String, u32>,
    /// The business day asked for. Checked where the bill names its day.
    pub day: Option<NaiveDate>,
    /// What the sender vouched for.
    pub expected: Expected,
    /// Bounds.
    pub limits: Limits,
}

/// What the sender of the bill vouched for outside of the file. All of it is optional, whatever is given must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// SHA-1 of the uncompressed bytes (WeChat's `hash_value`).
    pub sha1_uncompressed: Option<[u8; 20]>,
    /// SHA-256 of the bytes as they came.
    pub sha256: Option<[u8; 32]>,
    /// Length of the bytes as they came.
    pub bytes: Option<u64>,
}

impl Expected {
    /// Whether anything vouches for the end of the file.
    #[must_use]
    pub fn proves_the_end(&self) -> bool {
        self.sha1_uncompressed.is_some() || self.sha256.is_some() || self.bytes.is_some()
    }
}

/// Bounds of reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest record, in bytes.
    pub record_bytes: usize,
    /// How much of a record is kept as `raw`, in bytes.
    pub raw_bytes: usize,
    /// Most columns of a record.
    pub columns: usize,
    /// Largest bill once decompressed, in bytes.
    pub uncompressed_bytes: u64,
    /// Rows that may be illegible before the file as a whole is refused.
    pub quarantined_rows: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            record_bytes: 64 * 1024,
            raw_bytes: 4 * 1024,
            columns: 256,
            uncompressed_bytes: 16 * 1024 * 1024 * 1024,
            quarantined_rows: 10_000,
        }
    }
}

impl BillRules {
    /// Rules with the default limits, for any day, with nothing vouched for.
    #[must_use]
    pub fn new(zone: Tz, exponents: impl IntoIterator<Item = (String, u32)>) -> Self {
        Self {
            zone,
            exponents: exponents.into_iter().collect(),
            day: None,
            expected: Expected::default(),
            limits: Limits::default(),
        }
    }
}

impl BillFormat {
    /// The format's name in configuration.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::LedgerCsv => "ledger-csv",
            Self::GenericCsv(_) => "generic-csv",
            Self::WechatTrade(_) => "wechat-trade",
            Self::AlipayDetail => "alipay-detail",
            Self::StripeItemised(_) => "stripe-itemised",
        }
    }

    /// Everything that is wrong with the format's own settings, as field and complaint.
    #[must_use]
    pub fn check(&self) -> Vec<(String, String)> {
        match self {
            Self::LedgerCsv | Self::AlipayDetail => Vec::new(),
            Self::GenericCsv(generic) => generic.check(),
            Self::WechatTrade(wechat) => blank_columns(&[("user_column", wechat.user_column.as_deref())]),
            Self::StripeItemised(stripe) => blank_columns(&[
                ("trade_order_column", Some(&stripe.trade_order_column)),
                ("refund_order_column", stripe.refund_order_column.as_deref()),
                ("user_column", stripe.user_column.as_deref()),
            ]),
        }
    }
}

/// Columns that are named by nothing.
pub(crate) fn blank_columns(columns: &[(&str, Option<&str>)]) -> Vec<(String, String)> {
    let blank = columns.iter().filter(|(_, name)| name.is_some_and(|name| name.trim().is_empty()));
    blank.map(|(field, _)| ((*field).to_owned(), "must name a column".to_owned())).collect()
}
