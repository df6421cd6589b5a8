//! Stripe.

use chrono::{TimeZone as _, Utc};
use flow_bills::{BillError, BillFormat, Proof, StripeItemised};
use sha2::Digest as _;

use crate::fixtures::{payment, read, refund, refused, rules, with};

pub(crate) fn format() -> BillFormat {
    BillFormat::StripeItemised(StripeItemised {
        trade_order_column: "payment_metadata[trade_order_no]".to_owned(),
        refund_order_column: Some("refund_metadata[refund_order_no]".to_owned()),
        user_column: Some("payment_metadata[user_id]".to_owned()),
    })
}

pub(crate) fn report() -> String {
    [
        "balance_transaction_id,created_utc,created,currency,gross,fee,net,reporting_category,description,customer_facing_amount,customer_facing_currency,payment_metadata[trade_order_no],refund_metadata[refund_order_no],payment_metadata[user_id]",
        "txn_1,2026-11-29 08:35:41,2026-11-29 16:35:41,usd,19.90,0.88,19.02,charge,\"Renewal, \"\"gold\"\"\",19.90,usd,h2r_1_a,,42",
        "txn_2,2026-11-29 09:00:00,2026-11-29 17:00:00,usd,3.21,0.10,3.11,charge,,500,jpy,h2r_1_b,,43",
        "txn_3,2026-11-29 10:00:00,2026-11-29 18:00:00,usd,-19.90,0.00,-19.90,refund,\"two\nlines\",-19.90,usd,h2r_1_a,r_h2r_1_a,42",
        "txn_4,2026-11-29 11:00:00,2026-11-29 19:00:00,usd,-0.50,0.00,-0.50,fee,Radar,,,,,",
        "txn_5,2026-11-29 12:00:00,2026-11-29 20:00:00,usd,-2.23,0.00,-2.23,payout,,,,,,",
        "",
    ]
    .join("\n")
}

#[test]
fn a_report_is_read_whole() {
    let (summary, kept) = read(&format(), &rules(), report());
    assert_eq!(kept.told(), [payment("h2r_1_a", 1990), payment("h2r_1_b", 500), refund("r_h2r_1_a", 1990)]);
    assert_eq!((summary.rows, summary.ignored, summary.quarantined), (5, 2, 0));
    assert_eq!((summary.payment_sum_minor["USD"], summary.payment_sum_minor["JPY"]), (1990, 500));
    let back = &kept.entries[2];
    assert_eq!(back.at, Utc.with_ymd_and_hms(2026, 11, 29, 10, 0, 0).unwrap());
    assert_eq!((back.line, back.proof), (4, Proof::Settled));
    assert_eq!((back.user.as_deref(), back.channel_ref.as_deref()), (Some("42"), Some("txn_3")));
    assert_eq!(back.trade_order_no.as_deref(), Some("h2r_1_a"));
}

#[test]
fn without_utc_times_are_the_channels() {
    let report = report().replace("created_utc", "created_somewhere");
    let (_, kept) = read(&format(), &rules(), report);
    assert_eq!(kept.entries[0].at, Utc.with_ymd_and_hms(2026, 11, 29, 8, 35, 41).unwrap());
}

#[test]
fn categories_that_take_something_back_are_for_people() {
    for (category, code) in
        [("charge_failure", "STATUS"), ("refund_failure", "STATUS"), ("novelty", "STATUS"), ("", "EMPTY")]
    {
        let (_, kept) = read(&format(), &rules(), with(&report(), ",charge,", &format!(",{category},")));
        assert_eq!(kept.set_aside(), [(2, code)], "{category}");
    }
}

#[test]
fn rows_that_nobody_can_read_are_set_aside() {
    for (from, to, line, code) in [
        ("h2r_1_a,,42", ",,42", 2, "EMPTY"),
        ("h2r_1_a,,42", "4.11735E+19,,42", 2, "SPREADSHEET_NUMBER"),
        ("r_h2r_1_a,", ",", 4, "EMPTY"),
        ("19.90,0.88,19.02", "19.90,0.88,19.03", 2, "ARITHMETIC"),
        ("-19.90,usd", "19.90,usd", 4, "SIGN"),
        ("500,jpy", "500.5,jpy", 3, "TOO_MANY_DECIMALS"),
        ("500,jpy", "500,xts", 3, "CURRENCY"),
        ("2026-11-29 08:35:41", "11/29/26 8:35", 2, "TIME"),
        ("\"Renewal, \"\"gold\"\"\"", "Renewal, gold", 2, "SHAPE"),
        ("\"Renewal, \"\"gold\"\"\"", "5\" and 6\" pipe", 2, "QUOTES"),
    ] {
        let (summary, kept) = read(&format(), &rules(), with(&report(), from, to));
        assert_eq!(kept.set_aside(), [(line, code)], "{to}");
        assert_eq!(summary.rows, 5, "{to}");
    }
}

#[test]
fn a_stray_mark_refuses_the_report() {
    let error = refused(&format(), &rules(), with(&report(), ",Radar,", ",\"Radar,"));
    assert_eq!(error.code(), "TRUNCATED", "{error}");
}

#[test]
fn the_end_must_be_there_or_vouched_for() {
    let unended = report().trim_end().to_owned();
    assert!(matches!(refused(&format(), &rules(), &unended), BillError::Truncated { .. }));
    let mut vouched = rules();
    vouched.expected.bytes = Some(unended.len() as u64);
    assert_eq!(read(&format(), &vouched, &unended).0.rows, 5);
    let mut vouched = rules();
    vouched.expected.sha256 = Some(sha2::Sha256::digest(report()).into());
    assert_eq!(read(&format(), &vouched, report()).0.rows, 5);
    assert_eq!(refused(&format(), &vouched, unended).code(), "DIGEST_MISMATCH");
}

#[test]
fn an_empty_day_is_a_header() {
    let header = format!("{}\n", report().lines().next().unwrap());
    assert_eq!(read(&format(), &rules(), header).0.rows, 0);
    let error = refused(&format(), &rules(), with(&report(), "[trade_order_no]", "[order]"));
    assert!(matches!(error, BillError::HeaderMissing { name } if name.contains("trade_order_no")));
}
