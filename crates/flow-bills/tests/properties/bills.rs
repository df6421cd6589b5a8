//! What holds of every file that is read as a bill, whatever its bytes. One statement for the property tests here and for the
//! fuzz target `bills`.

#![allow(clippy::unwrap_used, reason = "test code")]

use chrono_tz::Tz;
use flow_bills::{
    Amounts, BillEntry, BillFormat, BillRules, BillSink, Columns, EntryKind, GenericCsv, KindRule, Limits,
    Only, QuarantinedRow, Sign, SinkError, StripeItemised, WechatTrade, read_bill,
};

/// Bounds that small inputs reach.
const LIMITS: Limits = Limits {
    record_bytes: 2_048,
    raw_bytes: 64,
    columns: 40,
    uncompressed_bytes: 64 * 1024,
    quarantined_rows: 20,
};

/// The formats, by the first byte of a fuzz target's input.
pub(crate) fn format_of(first: u8) -> BillFormat {
    match first % 7 {
        0 => BillFormat::LedgerCsv,
        1 => BillFormat::WechatTrade(WechatTrade { user_column: None }),
        2 => BillFormat::AlipayDetail,
        3 => BillFormat::StripeItemised(StripeItemised {
            trade_order_column: "payment_metadata[trade_order_no]".to_owned(),
            refund_order_column: Some("refund_metadata[refund_order_no]".to_owned()),
            user_column: None,
        }),
        4 => BillFormat::GenericCsv(Box::new(generic("utf-8", true, KindRule::Sign(Sign::NegativeIsRefund)))),
        5 => BillFormat::GenericCsv(Box::new(generic("gbk", false, KindRule::Only(Only::Payment)))),
        _ => BillFormat::GenericCsv(Box::new(generic("iso-2022-jp", false, KindRule::Only(Only::Refund)))),
    }
}

fn generic(encoding: &str, quoting: bool, kind: KindRule) -> GenericCsv {
    GenericCsv {
        encoding: encoding.to_owned(),
        delimiter: ',',
        quoting,
        skip_lines: 0,
        comment: Some("#".to_owned()),
        strip: "'".to_owned(),
        columns: Columns {
            order_no: "order".to_owned(),
            refund_order_no: Some("refund".to_owned()),
            amount: "amount".to_owned(),
            refund_amount: None,
            at: "time".to_owned(),
            at_time: None,
            currency: None,
            user: None,
            channel_ref: None,
        },
        currency: Some("CNY".to_owned()),
        kind,
        amounts: Amounts::default(),
        time_format: "%Y-%m-%d %H:%M:%S".to_owned(),
        filters: Vec::new(),
        proof: None,
        trailer: None,
        ends_with_line_end: false,
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    entries: Vec<BillEntry>,
    quarantined: Vec<QuarantinedRow>,
}

impl BillSink for Seen {
    fn entry(&mut self, entry: BillEntry) -> Result<(), SinkError> {
        self.entries.push(entry);
        Ok(())
    }

    fn quarantined(&mut self, row: QuarantinedRow) -> Result<(), SinkError> {
        self.quarantined.push(row);
        Ok(())
    }
}

/// # Panics
/// A property does not hold.
pub(crate) fn check(format: &BillFormat, bill: &[u8]) {
    let exponents = [("CNY", 2), ("USD", 2), ("JPY", 0)].map(|(name, exponent)| (name.to_owned(), exponent));
    let rules = BillRules { limits: LIMITS, ..BillRules::new(Tz::Europe__Berlin, exponents) };
    let mut seen = Seen::default();
    let verdict = read_bill(format, &rules, bill, &mut seen);
    for entry in &seen.entries {
        assert!(entry.amount_minor > 0 && !entry.order_no.is_empty(), "{entry:?}");
        assert!(!entry.order_no.chars().any(char::is_whitespace), "{entry:?}");
        assert!(entry.raw.len() <= LIMITS.raw_bytes * 3 + 3, "{entry:?}");
        assert!(entry.trade_order_no.is_none() || entry.kind == EntryKind::Refund, "{entry:?}");
    }
    let lines: Vec<u64> = seen.entries.iter().map(|entry| entry.line).collect();
    assert!(lines.is_sorted_by(|a, b| a < b), "{lines:?}");
    assert!(seen.quarantined.len() as u64 <= LIMITS.quarantined_rows);
    match &verdict {
        Ok(summary) => {
            let count = |kind| seen.entries.iter().filter(|entry| entry.kind == kind).count() as u64;
            assert_eq!(summary.payments, count(EntryKind::Payment));
            assert_eq!(summary.refunds, count(EntryKind::Refund));
            assert_eq!(summary.quarantined, seen.quarantined.len() as u64);
            let read = summary.payments + summary.refunds + summary.quarantined + summary.ignored;
            assert_eq!(summary.rows, read);
            assert_eq!(summary.bytes, bill.len() as u64);
            assert!(summary.unverified_sums.is_empty() || summary.quarantined > 0);
            let sum: u128 = seen.entries.iter().map(|entry| u128::from(entry.amount_minor)).sum();
            let told: u128 =
                summary.payment_sum_minor.values().chain(summary.refund_sum_minor.values()).sum();
            assert_eq!(sum, told);
        }
        Err(error) => assert!(!error.to_string().is_empty() && !error.code().is_empty()),
    }
    let mut again = Seen::default();
    let repeated = read_bill(format, &rules, bill, &mut again);
    assert_eq!(again, seen);
    assert_eq!(repeated.is_ok(), verdict.is_ok());
}
