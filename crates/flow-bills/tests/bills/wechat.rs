//! WeChat Pay.

use chrono::{TimeZone as _, Utc};
use flow_bills::{BillError, BillFormat, NoStatement, Proof, WechatTrade};
use sha1::Digest as _;

use crate::fixtures::{gz, payment, read, refund, refused, rules, with};

const HEADER: &str = "交易时间,公众账号ID,商户号,特约商户号,设备号,微信订单号,商户订单号,用户标识,交易类型,交易状态,付款银行,货币种类,应结订单金额,代金券金额,微信退款单号,商户退款单号,退款金额,充值券退款金额,退款类型,退款状态,商品名称,商户数据包,手续费,费率,订单金额,申请退款金额,费率备注";
const TRAILER: &str =
    "总交易单数,应结订单总金额,退款总金额,充值券退款总金额,手续费总金额,订单总金额,申请退款总金额";

pub(crate) fn format() -> BillFormat {
    BillFormat::WechatTrade(WechatTrade::default())
}

/// Two payments and a refund of the first.
pub(crate) fn all() -> String {
    [
        HEADER,
        "`2026-11-29 08:35:41,`wx77,`1900,`0,`,`420001,`h2r_1_a,`openid1,`JSAPI,`SUCCESS,`OTHERS,`CNY,`19.90,`0.00,`0,`0,`0.00,`0.00,`,`,`renewal,`42,`0.11940,`0.60%,`19.90,`0.00,`",
        "`2026-11-29 23:59:59,`wx77,`1900,`0,`,`420002,`h2r_1_b,`openid2,`JSAPI,`SUCCESS,`OTHERS,`CNY,`4.00,`1.00,`0,`0,`0.00,`0.00,`,`,`renewal,`43,`0.02400,`0.60%,`5.00,`0.00,`",
        "`2026-11-29 09:00:00,`wx77,`1900,`0,`,`420001,`h2r_1_a,`openid1,`JSAPI,`REFUND,`OTHERS,`CNY,`0.00,`0.00,`500001,`r_h2r_1_a,`19.90,`0.00,`ORIGINAL,`SUCCESS,`renewal,`42,`-0.11940,`0.60%,`0.00,`19.90,`",
        TRAILER,
        "`3,`23.90,`19.90,`0.00,`0.02400,`24.90,`19.90",
        "",
    ]
    .join("\n")
}

/// The layout of 2014, with the full-width colons of its documentation.
fn old() -> String {
    [
        "交易时间,公众账号ID,商户号,子商户号,设备号,微信订单号,商户订单号,用户标识,交易类型,交易状态,付款银行,货币种类,总金额,代金券或立减优惠金额,微信退款单号,商户退款单号,退款金额,代金券或立减优惠退款金额,退款类型,退款状态,商品名称,商户数据包,手续费,费率",
        "`2026-11-2916：33：45,`wx77,`1900,`0,`1000,`100001,`h2r_2_a,`openid1,`JSAPI,`SUCCESS,`CFT,`CNY,`0.01,`0.0,`0,`0,`0,`0,`,`,`renewal,`,`0,`0.60%",
        "`2026-11-2916：46：14,`wx77,`1900,`0,`1000,`100001,`h2r_2_a,`openid1,`JSAPI,`REFUND,`CFT,`CNY,`0.00,`0.0,`2001,`r_h2r_2_a,`0.01,`0,`ORIGINAL,`PROCESSING,`renewal,`,`0,`0.60%",
        "总交易单数,总交易额,总退款金额,总代金券或立减优惠退款金额,手续费总金额",
        "`2,`0.01,`0.01,`0.0,`0",
    ]
    .join("\n")
}

#[test]
fn a_bill_is_read_whole() {
    let (summary, kept) = read(&format(), &rules(), all());
    assert_eq!(kept.told(), [payment("h2r_1_a", 1990), payment("h2r_1_b", 500), refund("r_h2r_1_a", 1990)]);
    assert_eq!((summary.rows, summary.payments, summary.refunds, summary.quarantined), (3, 2, 1, 0));
    assert_eq!(summary.payment_sum_minor["CNY"], 2490);
    assert_eq!(summary.refund_sum_minor["CNY"], 1990);
    assert!(summary.is_clean() && summary.unverified_sums.is_empty());
    let [first, second, back] = kept.entries.as_slice() else { panic!("{kept:?}") };
    assert_eq!(first.at, Utc.with_ymd_and_hms(2026, 11, 29, 0, 35, 41).unwrap());
    assert_eq!((first.channel_ref.as_deref(), first.trade_order_no.as_deref()), (Some("420001"), None));
    assert_eq!((first.user.as_deref(), first.line), (None, 2), "an open id is no user of ours");
    assert!(first.raw.starts_with("`2026-11-29 08:35:41,"));
    assert_eq!(second.amount_minor, 500, "what was ordered, coupons included");
    assert_eq!(back.channel_ref.as_deref(), Some("500001"));
    assert_eq!((back.trade_order_no.as_deref(), back.proof), (Some("h2r_1_a"), Proof::Settled));
}

#[test]
fn our_user_comes_from_the_column_that_carries_it() {
    let format = BillFormat::WechatTrade(WechatTrade { user_column: Some("商户数据包".to_owned()) });
    let (_, kept) = read(&format, &rules(), all());
    assert_eq!(kept.entries[1].user.as_deref(), Some("43"));
    let missing = BillFormat::WechatTrade(WechatTrade { user_column: Some("用户".to_owned()) });
    assert!(
        matches!(refused(&missing, &rules(), all()), BillError::HeaderMissing { name } if name == "用户")
    );
}

#[test]
fn the_old_layout_is_read_too() {
    let (_, kept) = read(&format(), &rules(), old());
    assert_eq!(kept.told(), [payment("h2r_2_a", 1), refund("r_h2r_2_a", 1)]);
    assert_eq!(kept.entries[1].proof, Proof::Accepted, "taken, not paid");
    assert_eq!(kept.entries[0].at, Utc.with_ymd_and_hms(2026, 11, 29, 8, 33, 45).unwrap());
}

#[test]
fn a_refund_happened_when_it_was_paid() {
    let bill = with(&all(), "微信退款单号,", "退款申请时间,退款成功时间,微信退款单号,");
    let bill = bill.replace("`0.00,`0,`0,", "`0.00,`,`,`0,`0,");
    let bill = bill.replace("`1.00,`0,`0,", "`1.00,`,`,`0,`0,");
    let bill = with(&bill, "`500001,", "`2026-11-29 09:00:00,`2026-11-29 09:10:00,`500001,");
    let (_, kept) = read(&format(), &rules(), &bill);
    assert_eq!(kept.entries[2].at, Utc.with_ymd_and_hms(2026, 11, 29, 1, 10, 0).unwrap());
    let (_, kept) = read(&format(), &rules(), with(&bill, "`2026-11-29 09:10:00,", "`,"));
    assert_eq!(
        kept.entries[2].at,
        Utc.with_ymd_and_hms(2026, 11, 29, 1, 0, 0).unwrap(),
        "else when it was asked for"
    );
}

#[test]
fn what_a_refund_row_proves_is_its_status() {
    for (status, expected) in [
        ("SUCCESS", Some(Proof::Settled)),
        ("PROCESSING", Some(Proof::Accepted)),
        ("CHANGE", Some(Proof::Accepted)),
        ("FAIL", None),
    ] {
        let (summary, kept) =
            read(&format(), &rules(), with(&all(), "`ORIGINAL,`SUCCESS", &format!("`ORIGINAL,`{status}")));
        let proof = kept.entries.get(2).map(|entry| entry.proof);
        assert_eq!((proof, summary.ignored), (expected, u64::from(expected.is_none())), "{status}");
    }
    let (_, kept) = read(&format(), &rules(), with(&all(), "`ORIGINAL,`SUCCESS", "`ORIGINAL,`DONE"));
    assert_eq!(kept.set_aside(), [(4, "STATUS")]);
}

#[test]
fn how_it_was_stored_does_not_matter() {
    let expected = read(&format(), &rules(), all()).1.told();
    let crlf = all().replace('\n', "\r\n");
    let mixed = with(
        &all(),
        "renewal,`42,`0.11940,`0.60%,`19.90,`0.00,`\n",
        "renewal,`42,`0.11940,`0.60%,`19.90,`0.00,`\r\n",
    );
    let marked = format!("\u{feff}{crlf}");
    let cut_end = all().trim_end().to_owned();
    for (what, bill) in [("crlf", crlf), ("mixed", mixed), ("mark", marked), ("no last line end", cut_end)] {
        assert_eq!(read(&format(), &rules(), bill).1.told(), expected, "{what}");
    }
    assert_eq!(read(&format(), &rules(), gz(all())).1.told(), expected);
}

#[test]
fn odd_text_in_a_name_harms_nobody() {
    let told = read(&format(), &rules(), all()).1.told();
    for name in ["tea, 2 cups", "5\" pipe", "\"", "a,,b", "支付，宝", "x`y", "a\tb"] {
        let (summary, kept) = read(&format(), &rules(), with(&all(), "`renewal", &format!("`{name}")));
        assert_eq!((kept.told(), summary.quarantined), (told.clone(), 0), "{name}");
        assert!(kept.entries[0].raw.contains(name));
    }
}

#[test]
fn rows_that_nobody_can_read_are_set_aside() {
    for (from, to, line, code) in [
        ("`h2r_1_a,`openid1,`JSAPI,`SUCCESS", "`1.23E+15,`openid1,`JSAPI,`SUCCESS", 2, "SPREADSHEET_NUMBER"),
        ("`h2r_1_a,`openid1,`JSAPI,`SUCCESS", "`,`openid1,`JSAPI,`SUCCESS", 2, "EMPTY"),
        ("2026-11-29 08:35:41", "2026/11/29 8:35", 2, "TIME"),
        ("`19.90,`0.00,`\n", "`19.901,`0.00,`\n", 2, "TOO_MANY_DECIMALS"),
        ("`CNY", "`XTS", 2, "CURRENCY"),
        ("`JSAPI,`SUCCESS", "`JSAPI,`REVOKED", 2, "STATUS"),
        ("`0.60%,`19.90,`0.00,`\n", "`0.60%,`19.90,`0.00\n", 2, "SHAPE"),
        // A fee is nothing that is compared, but it is summed up.
        ("`0.11940,", "`?,", 2, "AMOUNT"),
        ("`r_h2r_1_a,", "`0 1,", 4, "IDENTIFIER"),
    ] {
        let bill = with(&all(), from, to);
        // Where the sums are touched as well, the gate must not get in the way of what is tested.
        let bill = if code == "TOO_MANY_DECIMALS" { with(&bill, "`24.90,", "`24.901,") } else { bill };
        let (summary, kept) = read(&format(), &rules(), &bill);
        assert_eq!(kept.set_aside(), [(line, code)], "{to}");
        assert_eq!((summary.quarantined, kept.entries.len()), (1, 2), "{to}");
        assert!(!summary.is_clean());
        let unverified = matches!(code, "SHAPE" | "AMOUNT");
        assert_eq!(summary.unverified_sums.is_empty(), !unverified, "{to}: {summary:?}");
    }
    let mut bytes = all().into_bytes();
    let place = bytes.windows(7).position(|window| window == b"renewal").unwrap();
    bytes[place] = 0xff;
    assert_eq!(read(&format(), &rules(), bytes).1.set_aside(), [(2, "ENCODING")]);
}

#[test]
fn a_trailer_that_disagrees_refuses_the_bill() {
    assert!(matches!(
        refused(&format(), &rules(), with(&all(), "`3,`23.90", "`4,`23.90")),
        BillError::CountMismatch { trailer: 4, seen: 3, .. }
    ));
    for (from, to) in [
        ("`3,`23.90", "`3,`23.91"),
        ("`23.90,`19.90,", "`23.90,`19.80,"),
        ("`0.02400,`24.90", "`0.02401,`24.90"),
        ("`24.90,`19.90", "`24.90,`19.91"),
    ] {
        let error = refused(&format(), &rules(), with(&all(), from, to));
        assert!(matches!(error, BillError::SumMismatch { .. }), "{to}: {error}");
    }
    let renamed = all().replace("总金额", "合计").replace("应结订单合计", "x");
    assert_eq!(refused(&format(), &rules(), renamed).code(), "HEADER_MISSING", "no sum of a known name");
    // A doubled and a missing row.
    let rows: Vec<&str> = all().leak().lines().collect();
    let doubled = [&rows[..2], &rows[1..]].concat().join("\n");
    assert_eq!(refused(&format(), &rules(), doubled).code(), "COUNT_MISMATCH");
    let missing = [&rows[..1], &rows[2..]].concat().join("\n");
    assert_eq!(refused(&format(), &rules(), missing).code(), "COUNT_MISMATCH");
    let header_and_trailer = [HEADER, TRAILER, "`3,`1299.02,`0.00,`0.00,`7.79000,`1299.02,`0.00"].join("\n");
    assert_eq!(refused(&format(), &rules(), header_and_trailer).code(), "COUNT_MISMATCH");
}

#[test]
fn an_empty_day_is_a_whole_bill() {
    let bill = [HEADER, TRAILER, "`0,`0.00,`0.00,`0.00,`0.00000,`0.00,`0.00"].join("\n");
    let (summary, kept) = read(&format(), &rules(), bill);
    assert_eq!((summary.rows, kept.entries.len()), (0, 0));
}

#[test]
fn a_bill_that_ends_early_is_refused_wherever_it_ends() {
    let bill = all();
    // Up to the last digit that says something: `19.9` is `19.90`.
    let whole = bill.trim_end().trim_end_matches('0').len();
    for end in 0..whole {
        let cut = &bill.as_bytes()[..end];
        let error = refused(&format(), &rules(), cut);
        assert!(
            matches!(
                error.code(),
                "EMPTY" | "TRUNCATED" | "HEADER_MISSING" | "SUM_MISMATCH" | "CORRUPT" | "COUNT_MISMATCH"
            ),
            "cut at {end}: {error}"
        );
    }
    assert_eq!(refused(&format(), &rules(), format!("{bill}`1,`2\n")).code(), "AFTER_END");
}

#[test]
fn the_digest_is_that_of_the_uncompressed_bytes() {
    let mut vouched = rules();
    vouched.expected.sha1_uncompressed = Some(sha1::Sha1::digest(all()).into());
    read(&format(), &vouched, all());
    read(&format(), &vouched, gz(all()));
    let changed = with(&all(), "renewal", "Renewal");
    assert!(matches!(
        refused(&format(), &vouched, gz(changed)),
        BillError::DigestMismatch { algorithm, .. } if algorithm.starts_with("SHA-1")
    ));
}

#[test]
fn answers_without_a_bill_mean_what_the_channel_means() {
    for (answer, meaning) in [
        (r#"{"code":"NO_STATEMENT_EXIST","message":"账单文件不存在"}"#, NoStatement::NothingHappened),
        (r#"{"code":"STATEMENT_CREATING","message":"账单生成中"}"#, NoStatement::NotReady),
        (
            "<xml><return_code><![CDATA[FAIL]]></return_code><return_msg><![CDATA[No Bill Exist]]></return_msg></xml>",
            NoStatement::NothingHappened,
        ),
        (
            "<xml><return_code>FAIL</return_code><return_msg>Bill Creating</return_msg></xml>",
            NoStatement::NotReady,
        ),
    ] {
        let error = refused(&format(), &rules(), answer);
        assert!(
            matches!(&error, BillError::NoStatement { meaning: seen, .. } if *seen == meaning),
            "{error}"
        );
        assert_eq!(error.retryable(), meaning == NoStatement::NotReady);
    }
    for answer in
        [r#"{"code":"NO_AUTH"}"#, "<xml><return_msg><![CDATA[invalid bill_type]]></return_msg></xml>"]
    {
        assert_eq!(refused(&format(), &rules(), answer).code(), "CHANNEL_REFUSED", "{answer}");
    }
    for other in [r#"{"error":1}"#, "{", "<html>No Bill Exist</html>"] {
        assert_eq!(refused(&format(), &rules(), other).code(), "NOT_THIS_FORMAT", "{other}");
    }
}

#[test]
fn another_layout_is_named_by_its_missing_column() {
    let error = refused(&format(), &rules(), with(&all(), "货币种类", "币种"));
    assert!(matches!(&error, BillError::HeaderMissing { name } if name == "货币种类"), "{error}");
    let error = refused(&format(), &rules(), with(&all(), "设备号", "货币种类"));
    assert_eq!(error.code(), "HEADER_TWICE");
    // Columns of no interest come and go.
    let more = all().replace(",费率备注", ",费率备注,新列").replace(",`\n", ",`,`x\n");
    assert_eq!(read(&format(), &rules(), more).1.entries.len(), 3);
}
