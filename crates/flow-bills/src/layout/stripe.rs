//! Stripe itemised balance report.
//!
//! UTF-8, RFC 4180, a header, rows, nothing that counts or sums up: a file that was cut off between two rows can only be told by a
//! digest or length from outside. Amounts are decimals in major units. Our numbers are metadata; their columns come from configuration.

use std::collections::BTreeMap;

use chrono_tz::Tz;

use crate::cells::SignOf;
use crate::decimal::Notation;
use crate::entry::{EntryKind, Proof, QuarantineReason};
use crate::error::BillError;
use crate::header::{Column, Header};
use crate::layout::{End, Layout, Part};
use crate::records::{Dialect, Record};
use crate::rules::{BillRules, StripeItemised};
use crate::tally::{Draft, Outcome, Tally};

/// Decimals in which `gross`, `fee` and `net` are compared.
const PRECISE_DECIMALS: u32 = 8;

/// Categories that are neither a charge nor a refund of ours, and change none.
const IGNORED: [&str; 27] = [
    "advance",
    "advance_funding",
    "anticipation_repayment",
    "climate_order_purchase",
    "climate_order_refund",
    "connect_collection_transfer",
    "connect_reserved_funds",
    "contribution",
    "dispute",
    "dispute_reversal",
    "fee",
    "financing_paydown",
    "financing_paydown_reversal",
    "financing_payout",
    "financing_payout_reversal",
    "network_cost",
    "other_adjustment",
    "payout",
    "payout_reversal",
    "platform_earning",
    "platform_earning_refund",
    "risk_reserved_funds",
    "tax",
    "topup",
    "topup_reversal",
    "transfer",
    "transfer_reversal",
];

/// The reader of the layout.
pub(crate) struct Stripe {
    rules: StripeItemised,
    rows: Option<Rows>,
}

struct Rows {
    header: Header,
    id: Column,
    category: Column,
    created: Column,
    created_is_utc: bool,
    currency: Column,
    gross: Column,
    fee: Column,
    net: Column,
    /// What the customer paid, where it was another currency than the account's.
    facing: Option<(Column, Column)>,
    trade_order_no: Column,
    refund_order_no: Option<Column>,
    user: Option<Column>,
}

impl Stripe {
    pub(crate) fn new(rules: &StripeItemised) -> Self {
        Self { rules: rules.clone(), rows: None }
    }
}

impl Layout for Stripe {
    fn dialect(&self) -> Dialect {
        Dialect { delimiter: b',', quoting: true, digest: false }
    }

    fn record(&mut self, _part: Part, record: &Record, tally: &mut Tally<'_>) -> Result<(), BillError> {
        match &self.rows {
            Some(rows) => tally.row(record, rows.row(record, tally.rules)),
            None => {
                let header = Header::of(record, &tally.rules.limits)?;
                self.rows = Some(Rows::of(header, &self.rules)?);
                Ok(())
            }
        }
    }

    fn end(&mut self, _part: Part, end: End, _tally: &mut Tally<'_>) -> Result<(), BillError> {
        if self.rows.is_none() {
            return Err(BillError::Truncated { what: "the header is missing" });
        }
        if end.terminated || end.proven {
            return Ok(());
        }
        Err(BillError::Truncated { what: "the last row has no line end" })
    }
}

impl Rows {
    fn of(header: Header, rules: &StripeItemised) -> Result<Self, BillError> {
        let utc = header.find(&["created_utc"])?;
        let created_is_utc = utc.is_some();
        let created = utc.map_or_else(|| header.need(&["created"]), Ok)?;
        let configured = |name: &Option<String>| name.as_deref().map(|name| header.need(&[name])).transpose();
        let facing =
            header.find(&["customer_facing_amount"])?.zip(header.find(&["customer_facing_currency"])?);
        Ok(Self {
            id: header.need(&["balance_transaction_id"])?,
            category: header.need(&["reporting_category"])?,
            created,
            created_is_utc,
            currency: header.need(&["currency"])?,
            gross: header.need(&["gross"])?,
            fee: header.need(&["fee"])?,
            net: header.need(&["net"])?,
            facing,
            trade_order_no: header.need(&[&rules.trade_order_column])?,
            refund_order_no: configured(&rules.refund_order_column)?,
            user: configured(&rules.user_column)?,
            header,
        })
    }

    fn row(&self, record: &Record, rules: &BillRules) -> Result<Outcome, QuarantineReason> {
        self.header.check(record)?;
        let category = self.category.of(record);
        let kind = match category.text {
            "charge" => EntryKind::Payment,
            "refund" => EntryKind::Refund,
            text if IGNORED.contains(&text) => return Ok(Outcome::Ignored),
            // `charge_failure`, `refund_failure` and `partial_capture_reversal` take back an earlier row: people look at it.
            _ => return Err(category.unknown_status()),
        };
        self.check_sum(record)?;
        let trade_order_no = self.trade_order_no.of(record);
        let (order_no, trade_order_no) = match (kind, &self.refund_order_no) {
            (EntryKind::Payment, _) => (trade_order_no.identifier()?, None),
            (EntryKind::Refund, Some(column)) => {
                (column.of(record).identifier()?, trade_order_no.optional_identifier()?)
            }
            (EntryKind::Refund, None) => {
                return Err(QuarantineReason::Empty { column: "refund_order_column".to_owned() });
            }
        };
        let (amount_minor, currency) = self.amount(record, kind, &rules.exponents)?;
        let zone = if self.created_is_utc { Tz::UTC } else { rules.zone };
        Ok(Outcome::Entry(Draft {
            kind,
            order_no,
            trade_order_no,
            amount_minor,
            currency,
            user: self.user.as_ref().map_or(Ok(None), |column| column.of(record).optional_identifier())?,
            channel_ref: self.id.of(record).optional_identifier()?,
            at: self.created.of(record).local_time(zone)?,
            proof: Proof::Settled,
        }))
    }

    /// What the customer paid or got back: that is what we asked for.
    fn amount(
        &self,
        record: &Record,
        kind: EntryKind,
        exponents: &BTreeMap<String, u32>,
    ) -> Result<(u64, String), QuarantineReason> {
        let facing = self.facing.as_ref().filter(|(_, currency)| !currency.of(record).text.is_empty());
        let (amount, currency) = match facing {
            Some((amount, currency)) => (amount.of(record), currency.of(record)),
            None => (self.gross.of(record), self.currency.of(record)),
        };
        let (currency, exponent) = currency.currency(exponents)?;
        let sign = match kind {
            EntryKind::Payment => SignOf::Positive,
            EntryKind::Refund => SignOf::Negative,
        };
        let minor = amount.minor(Notation::PLAIN, &currency, exponent)?;
        Ok((amount.amount(minor, kind, sign)?, currency))
    }

    fn check_sum(&self, record: &Record) -> Result<(), QuarantineReason> {
        let precise = |column: &Column| {
            let cell = column.of(record);
            cell.minor(Notation::PLAIN, cell.column, PRECISE_DECIMALS)
        };
        if precise(&self.gross)? == precise(&self.fee)? + precise(&self.net)? {
            return Ok(());
        }
        Err(QuarantineReason::Arithmetic { what: "gross, fee and net" })
    }
}
