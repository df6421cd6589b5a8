//! The whole table: what every kind of reply means to every call.

#![allow(clippy::unwrap_used, reason = "test code")]

use std::fmt::Write as _;

use expect_test::expect_file;
use flow_adapters::classify::{self, ChargeCall, RefundCall, Reply};
use flow_core::answer::{
    ChargeAnswer, Classified as _, ErrorCode, ExecuteAnswer, FactAnswer, NoAnswer, RefundAnswer,
};
use flow_core::ids::{BizKey, RefundOrderNo, Scene, Target, TradeOrderNo, UserId};

const OK_CHARGE: &str = r#"{"trade_order_no":"h2r_1_a","status":"SUCCESS","user_id":"1",
    "money":{"amount":1990,"currency":"CNY"},"transaction_id":"wtx-1","finished_at":"2026-01-31T11:59:01.123Z"}"#;
const OK_REFUND: &str = r#"{"refund_order_no":"r_h2r_1_a","trade_order_no":"h2r_1_a","status":"SUCCESS","user_id":"1",
    "money":{"amount":1990,"currency":"CNY"},"transaction_id":"wtx-2"}"#;

fn trade() -> TradeOrderNo {
    TradeOrderNo::try_from("h2r_1_a".to_owned()).unwrap()
}

fn target() -> Target {
    Target {
        user_id: UserId::new(1).unwrap(),
        scene: Scene::new("renew").unwrap(),
        biz_key: BizKey::new("card-77").unwrap(),
    }
}

fn reply(status: u16, body: &[u8]) -> Reply<'_> {
    Reply { status, retry_after_ms: Some(7000), body }
}

fn charge(call: ChargeCall, status: u16, body: &[u8]) -> ChargeAnswer {
    classify::charge(call, &trade(), reply(status, body))
}

fn refund(call: RefundCall, status: u16, body: &[u8]) -> RefundAnswer {
    classify::refund(call, &RefundOrderNo::derive(&trade()), reply(status, body))
}

fn labels(status: u16, body: &[u8]) -> [&'static str; 7] {
    [
        charge(ChargeCall::Debit, status, body).label(),
        charge(ChargeCall::Query, status, body).label(),
        charge(ChargeCall::Close, status, body).label(),
        refund(RefundCall::Refund, status, body).label(),
        refund(RefundCall::Query, status, body).label(),
        classify::execution(&trade(), reply(status, body)).label(),
        classify::fact(&target(), reply(status, body)).label(),
    ]
}

/// What most calls make of it last, the exceptions before it.
fn line(labels: [&'static str; 7]) -> String {
    let calls = ["debit", "query", "close", "refund", "query_refund", "execute", "fact"];
    let count = |label: &str| labels.iter().filter(|other| **other == label).count();
    let most = labels.into_iter().max_by_key(|label| count(label)).unwrap();
    let exceptions = calls.iter().zip(labels).filter(|(_, label)| *label != most);
    let mut line: String = exceptions.map(|(call, label)| format!("{call} {label}, ")).collect();
    line += if line.is_empty() { "" } else { "else " };
    line + most
}

fn code(code: &str) -> Vec<u8> {
    format!(r#"{{"code":"{code}","message":"for people"}}"#).into_bytes()
}

/// Name, status, body.
fn refusals() -> Vec<(String, u16, Vec<u8>)> {
    let codes = [
        "ORDER_NOT_FOUND",
        "REFUND_NOT_FOUND",
        "ORDER_CONFLICT",
        "REFUND_CONFLICT",
        "ORDER_NOT_CHARGED",
        "REFUND_EXCEEDS_CHARGE",
        "CLOSE_UNSUPPORTED",
        "DEADLINE_PASSED",
        "OWNED_BY_OTHER",
        "EXECUTION_CONFLICT",
        "NOT_EXECUTED",
    ];
    let statuses = [404, 409, 422, 501, 503];
    let mut all = Vec::new();
    for status in statuses {
        all.extend(codes.iter().map(|c| (format!("{status} {c}"), status, code(c))));
    }
    let html = b"<html>not here</html>".to_vec();
    for status in
        [100, 201, 202, 204, 206, 301, 302, 304, 400, 401, 403, 404, 405, 408, 409, 410, 413, 422, 429]
    {
        all.push((format!("{status} without a code"), status, html.clone()));
    }
    for status in [500, 501, 502, 503, 504, 599, 600, 999] {
        all.push((format!("{status} without a code"), status, Vec::new()));
    }
    all.push(("400 INVALID_REQUEST".into(), 400, code("INVALID_REQUEST")));
    all.push(("413 BODY_TOO_LARGE".into(), 413, code("BODY_TOO_LARGE")));
    all.push(("404 with the code in another case".into(), 404, code("order_not_found")));
    all.push(("404 with the code as a number".into(), 404, br#"{"code":404}"#.to_vec()));
    all.push(("404 with the code twice".into(), 404, br#"{"code":"X","code":"ORDER_NOT_FOUND"}"#.to_vec()));
    all.push(("404 with the code escaped".into(), 404, br#"{"code":"\u004fRDER_NOT_FOUND"}"#.to_vec()));
    all.push(("200 ORDER_NOT_FOUND".into(), 200, code("ORDER_NOT_FOUND")));
    all.push(("202 with a success".into(), 202, OK_CHARGE.as_bytes().to_vec()));
    all.push(("500 with a success".into(), 500, OK_CHARGE.as_bytes().to_vec()));
    all.push(("404 with a success".into(), 404, OK_CHARGE.as_bytes().to_vec()));
    all
}

fn charges() -> Vec<(String, u16, Vec<u8>)> {
    let changed = |name: &str, from: &str, to: &str| {
        assert!(OK_CHARGE.contains(from), "{from}");
        (format!("charge: {name}"), 200, OK_CHARGE.replace(from, to).into_bytes())
    };
    vec![
        ("charge: SUCCESS".into(), 200, OK_CHARGE.as_bytes().to_vec()),
        changed("FAILED", "SUCCESS", "FAILED"),
        changed("PROCESSING", "SUCCESS", "PROCESSING"),
        changed("CLOSED", "SUCCESS", "CLOSED"),
        changed("an unknown status", "SUCCESS", "REVERSED"),
        changed("status in another case", "SUCCESS", "success"),
        changed("status null", "\"SUCCESS\"", "null"),
        changed("status twice", "\"status\"", "\"status\":\"FAILED\",\"status\""),
        changed("another number", "h2r_1_a", "h2r_1_b"),
        changed("number in another case", "h2r_1_a", "H2R_1_A"),
        changed("number with a space", "h2r_1_a", "h2r_1_a "),
        changed("an empty number", "h2r_1_a", ""),
        changed("no number", "trade_order_no", "order_no"),
        changed("user as a number", "\"user_id\":\"1\"", "\"user_id\":1"),
        changed("user beyond ours", "\"user_id\":\"1\"", "\"user_id\":\"9223372036854775808\""),
        changed("another user (the decisions hold it)", "\"user_id\":\"1\"", "\"user_id\":\"2\""),
        changed("no user", "user_id", "uid"),
        changed("no money", "money", "cash"),
        changed("amount as a text", "1990", "\"1990\""),
        changed("amount as a float", "1990", "1990.0"),
        changed("amount zero", "1990", "0"),
        changed("amount negative", "1990", "-1990"),
        changed("amount beyond 64 bits", "1990", "9223372036854775808"),
        changed("a currency that is none", "CNY", "cny"),
        changed("no transaction", "transaction_id", "tx"),
        changed("an odd transaction", "\"wtx-1\"", "{\"a\":[1]}"),
        changed("an odd time", "2026-01-31T11:59:01.123Z", "yesterday"),
        changed("members nobody knows", "{\"trade", "{\"new\":[{}],\"trade"),
        changed(
            "deep members nobody knows",
            "{\"trade",
            &format!("{{\"new\":{}1{},\"trade", "[".repeat(5000), "]".repeat(5000)),
        ),
        changed("a refund's number", "{\"trade", "{\"refund_order_no\":\"r_h2r_1_a\",\"trade"),
        changed("cut off", "\"finished_at\":\"2026-01-31T11:59:01.123Z\"}", "\"finished_at\""),
        changed("something behind it", ".123Z\"}", ".123Z\"}x"),
        ("charge: a tombstone".into(), 200, br#"{"trade_order_no":"h2r_1_a","status":"CLOSED"}"#.to_vec()),
        ("charge: FAILED alone".into(), 200, br#"{"trade_order_no":"h2r_1_a","status":"FAILED"}"#.to_vec()),
        ("charge: SUCCESS alone".into(), 200, br#"{"trade_order_no":"h2r_1_a","status":"SUCCESS"}"#.to_vec()),
        ("charge: in a list".into(), 200, format!("[{OK_CHARGE}]").into_bytes()),
    ]
}

fn refunds() -> Vec<(String, u16, Vec<u8>)> {
    let changed = |name: &str, from: &str, to: &str| {
        assert!(OK_REFUND.contains(from), "{from}");
        (format!("refund: {name}"), 200, OK_REFUND.replace(from, to).into_bytes())
    };
    vec![
        ("refund: SUCCESS".into(), 200, OK_REFUND.as_bytes().to_vec()),
        changed("FAILED", "SUCCESS", "FAILED"),
        changed("PROCESSING", "SUCCESS", "PROCESSING"),
        changed("CLOSED", "SUCCESS", "CLOSED"),
        changed("another refund", "r_h2r_1_a", "r_h2r_1_b"),
        changed("of another charge", "\"h2r_1_a\"", "\"h2r_1_b\""),
        changed("no money", "money", "cash"),
        changed("amount zero", "1990", "0"),
    ]
}

fn business() -> Vec<(String, u16, Vec<u8>)> {
    let answers = [
        r#""status":"DONE","owner_order_no":"h2r_1_a""#,
        r#""status":"DONE","owner_order_no":"h2r_9_z""#,
        r#""status":"DONE""#,
        r#""status":"DONE","owner_order_no":null"#,
        r#""status":"DONE","owner_order_no":"""#,
        r#""status":"DONE","owner_order_no":"a b""#,
        r#""status":"DONE","owner_order_no":7"#,
        r#""status":"NOT_DONE""#,
        r#""status":"NOT_DONE","owner_order_no":"h2r_1_a""#,
        r#""status":"NOT_DONE","refusal_code":"SOLD_OUT""#,
        r#""status":"MAYBE""#,
    ];
    let bare =
        answers.iter().map(|answer| (format!("{{{answer}}}"), 200, format!("{{{answer}}}").into_bytes()));
    let ours = answers.iter().map(|answer| (format!("of our target: {{{answer}}}"), 200, of_ours(answer)));
    bare.chain(ours).chain(targets()).collect()
}

const OUR_TARGET: &str = r#""user_id":"1","scene":"renew","biz_key":"card-77""#;

fn of_ours(answer: &str) -> Vec<u8> {
    format!("{{{OUR_TARGET},{answer}}}").into_bytes()
}

/// A fact about what is not quite our target.
fn targets() -> Vec<(String, u16, Vec<u8>)> {
    let changes = [
        ("another user", r#""1""#, r#""2""#),
        ("user spelt otherwise", r#""1""#, r#""01""#),
        ("user as a number", r#""1""#, "1"),
        ("user null", r#""1""#, "null"),
        ("no user", "user_id", "uid"),
        ("another scene", "renew", "upgrade"),
        ("scene in another case", "renew", "Renew"),
        ("scene escaped", "renew", r"\u0072enew"),
        ("no scene", "scene", "area"),
        ("another key", "card-77", "card-78"),
        ("key with a space", "card-77", "card-77 "),
        ("an empty key", "card-77", ""),
        ("key null", r#""card-77""#, "null"),
        ("no key", "biz_key", "key"),
        ("key twice", r#""biz_key""#, r#""biz_key":"card-78","biz_key""#),
    ];
    let mut all = Vec::new();
    for (status, answer) in
        [("NOT_DONE", r#""status":"NOT_DONE""#), ("DONE", r#""status":"DONE","owner_order_no":"h2r_1_a""#)]
    {
        for (name, from, to) in changes {
            assert!(OUR_TARGET.contains(from), "{from}");
            let target = OUR_TARGET.replace(from, to);
            all.push((format!("fact {status}: {name}"), 200, format!("{{{target},{answer}}}").into_bytes()));
        }
    }
    all
}

fn garbage() -> Vec<(String, u16, Vec<u8>)> {
    vec![
        ("200 nothing".into(), 200, Vec::new()),
        ("200 null".into(), 200, b"null".to_vec()),
        ("200 {}".into(), 200, b"{}".to_vec()),
        ("200 a text".into(), 200, b"\"SUCCESS\"".to_vec()),
        ("200 html".into(), 200, b"<html><body>Welcome to our free wifi</body></html>".to_vec()),
        (
            "200 not UTF-8".into(),
            200,
            OK_CHARGE
                .replace("wtx-1", "\u{1}")
                .into_bytes()
                .iter()
                .map(|b| if *b == 1 { 0xff } else { *b })
                .collect(),
        ),
        (
            "200 not UTF-8 where nobody looks".into(),
            200,
            [&OK_CHARGE.as_bytes()[..1], b"\"x\":\"\xff\",", &OK_CHARGE.as_bytes()[1..]].concat(),
        ),
        ("200 NUL bytes".into(), 200, vec![0; 64]),
        ("200 deep".into(), 200, vec![b'['; 60_000]),
        ("200 long".into(), 200, vec![b' '; 65_536]),
        ("200 a BOM before it".into(), 200, ["\u{feff}", OK_CHARGE].concat().into_bytes()),
    ]
}

#[test]
fn every_reply_means_to_every_call_what_the_table_says() {
    let mut table = String::new();
    let cases = [refusals(), charges(), refunds(), business(), garbage()].concat();
    for (name, status, body) in cases {
        writeln!(table, "{name}: {}", line(labels(status, &body))).unwrap();
    }
    expect_file!["classification_table.txt"].assert_eq(&table);
}

#[test]
fn a_receipt_has_everything_that_was_said() {
    let ChargeAnswer::Success(receipt) = charge(ChargeCall::Debit, 200, OK_CHARGE.as_bytes()) else {
        panic!("a success")
    };
    assert_eq!(receipt.user_id.get(), 1);
    assert_eq!(receipt.money.to_string(), "1990 CNY");
    assert_eq!(receipt.transaction.unwrap().as_str(), "wtx-1");
    assert_eq!(receipt.at.unwrap().to_rfc3339(), "2026-01-31T11:59:01.123+00:00");
}

#[test]
fn reasons_are_kept_and_made_fit_for_their_column() {
    let failed = r#"{"trade_order_no":"h2r_1_a","status":"FAILED","failure_code":"CARD LOST!"}"#;
    assert_eq!(
        charge(ChargeCall::Query, 200, failed.as_bytes()),
        ChargeAnswer::Rejected(ErrorCode::clean("CARD_LOST_"))
    );
    let odd = r#"{"trade_order_no":"h2r_1_a","status":"FAILED","failure_code":17}"#;
    assert_eq!(charge(ChargeCall::Query, 200, odd.as_bytes()), ChargeAnswer::Rejected(ErrorCode::clean("")));
    let exceeds = refund(RefundCall::Refund, 422, &code("REFUND_EXCEEDS_CHARGE"));
    assert_eq!(exceeds, RefundAnswer::Rejected(ErrorCode::clean("REFUND_EXCEEDS_CHARGE")));
    let sold_out =
        classify::execution(&trade(), reply(200, br#"{"status":"NOT_DONE","refusal_code":"SOLD_OUT"}"#));
    assert_eq!(sold_out, ExecuteAnswer::Rejected(ErrorCode::clean("SOLD_OUT")));
}

#[test]
fn a_fact_names_its_owner_whoever_it_is() {
    let body = of_ours(r#""status":"DONE","owner_order_no":"theirs-7""#);
    let fact = classify::fact(&target(), reply(200, &body));
    let FactAnswer::Done { owner } = fact else { panic!("done") };
    assert_eq!(owner.as_str(), "theirs-7");
}

#[test]
fn throttling_carries_the_wait_that_was_asked_for() {
    for (status, body) in [(429, Vec::new()), (503, code("NOT_EXECUTED"))] {
        let ChargeAnswer::None(NoAnswer::Unavailable { retry_after_ms, .. }) =
            charge(ChargeCall::Debit, status, &body)
        else {
            panic!("throttled")
        };
        assert_eq!(retry_after_ms, Some(7000));
    }
}
