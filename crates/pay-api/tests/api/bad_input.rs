//! Everything a client can get wrong: the right status, code and field, and nothing written.

use axum::body::Body;
use axum::http::Request;
use flow_testkit::mem_store::StoreOp;
use pay_runtime::http::BodyError;
use serde_json::{Value, json};

use crate::harness::{Harness, SHOP, request};

struct Case {
    name: &'static str,
    body: Vec<u8>,
    key: Option<String>,
    content_type: Option<&'static str>,
    expect: Expected,
}

fn raw(name: &'static str, body: impl Into<Vec<u8>>, expect: Expected) -> Case {
    let key = Some("key-1".to_owned());
    Case { name, body: body.into(), key, content_type: Some("application/json"), expect }
}

/// A good body with one place changed; `path` is a JSON pointer, and `Value::Null` takes the field out.
fn changed(harness: &Harness, name: &'static str, path: &str, value: Value, expect: Expected) -> Case {
    let mut body = harness.body(1);
    let (parent, field) = path.rsplit_once('/').unwrap();
    let object = body.pointer_mut(parent).unwrap().as_object_mut().unwrap();
    if value.is_null() {
        object.remove(field);
    } else {
        object.insert(field.to_owned(), value);
    }
    raw(name, body.to_string(), expect)
}

/// A good body with some text in place of the amount, which `serde_json` could not build.
fn amount(harness: &Harness, text: &str) -> Vec<u8> {
    harness.body(1).to_string().replace("\"amount\":1200", &format!("\"amount\":{text}")).into_bytes()
}

type Expected = (u16, &'static str, Option<&'static str>);

/// The body is not of the documented shape here.
const fn body(field: &'static str) -> Expected {
    (400, "invalid_body", Some(field))
}

/// The body is of the documented shape, and breaks a rule here.
const fn rule(code: &'static str, field: &'static str) -> Expected {
    (422, code, Some(field))
}

fn target_cases(h: &Harness) -> Vec<Case> {
    vec![
        changed(h, "user_id as number", "/user_id", json!(9_007_199_254_740_993_i64), body("user_id")),
        changed(h, "user_id 2^63", "/user_id", json!("9223372036854775808"), body("user_id")),
        changed(h, "user_id zero", "/user_id", json!("0"), body("user_id")),
        changed(h, "user_id negative", "/user_id", json!("-1"), body("user_id")),
        changed(h, "user_id SQL", "/user_id", json!("1'; DROP TABLE internal_pay_flow; --"), body("user_id")),
        changed(h, "user_id missing", "/user_id", Value::Null, body("user_id")),
        changed(h, "scene unknown", "/scene", json!("gift"), rule("scene_unknown", "scene")),
        changed(h, "scene SQL", "/scene", json!("'; DROP"), body("scene")),
        changed(h, "scene too long", "/scene", json!("s".repeat(33)), body("scene")),
        changed(h, "scene missing", "/scene", Value::Null, body("scene")),
        changed(h, "biz_key empty", "/biz_key", json!(""), body("biz_key")),
        changed(h, "biz_key with spaces", "/biz_key", json!("'; DROP TABLE x"), body("biz_key")),
        changed(h, "biz_key not ASCII", "/biz_key", json!("续签"), body("biz_key")),
        changed(h, "biz_key NUL", "/biz_key", json!("a\u{0}b"), body("biz_key")),
        changed(h, "biz_key 161 characters", "/biz_key", json!("k".repeat(161)), body("biz_key")),
        changed(h, "biz_key array", "/biz_key", json!(["R:1"]), body("biz_key")),
    ]
}

fn money_cases(h: &Harness) -> Vec<Case> {
    vec![
        changed(h, "money missing", "/money", Value::Null, body("money")),
        changed(h, "money a number", "/money", json!(1200), body("money")),
        changed(h, "money an array", "/money", json!([1200, "CNY"]), body("money")),
        changed(h, "money unknown field", "/money/unit", json!("cent"), body("money.unit")),
        changed(h, "amount missing", "/money/amount", Value::Null, body("money.amount")),
        changed(h, "amount a string", "/money/amount", json!("1200"), body("money.amount")),
        changed(h, "amount a boolean", "/money/amount", json!(true), body("money.amount")),
        changed(h, "amount zero", "/money/amount", json!(0), rule("amount_out_of_range", "money.amount")),
        changed(
            h,
            "amount negative",
            "/money/amount",
            json!(-1200),
            rule("amount_out_of_range", "money.amount"),
        ),
        changed(
            h,
            "amount lowest",
            "/money/amount",
            json!(i64::MIN),
            rule("amount_out_of_range", "money.amount"),
        ),
        changed(
            h,
            "amount highest",
            "/money/amount",
            json!(i64::MAX),
            rule("amount_out_of_range", "money.amount"),
        ),
        changed(
            h,
            "amount over scene",
            "/money/amount",
            json!(1_000_001),
            rule("amount_out_of_range", "money.amount"),
        ),
        raw("amount 2^63", amount(h, "9223372036854775808"), body("money.amount")),
        raw("amount huge", amount(h, "123456789012345678901234567890"), body("money.amount")),
        raw("amount float", amount(h, "12.5"), body("money.amount")),
        raw("amount whole float", amount(h, "1200.0"), body("money.amount")),
        raw("amount exponent", amount(h, "12e2"), body("money.amount")),
        raw("amount beyond floats", amount(h, "1e999"), (400, "malformed_json", None)),
        raw("amount NaN", amount(h, "NaN"), (400, "malformed_json", None)),
        raw("amount leading zero", amount(h, "01200"), (400, "malformed_json", None)),
        raw("amount twice", amount(h, "1,\"amount\":2"), body("money.amount")),
        changed(
            h,
            "currency unknown",
            "/money/currency",
            json!("USD"),
            rule("currency_not_allowed", "money.currency"),
        ),
        changed(
            h,
            "currency case",
            "/money/currency",
            json!("cny"),
            rule("currency_not_allowed", "money.currency"),
        ),
        changed(
            h,
            "currency odd",
            "/money/currency",
            json!("CNY "),
            rule("currency_not_allowed", "money.currency"),
        ),
        changed(h, "currency a number", "/money/currency", json!(156), body("money.currency")),
    ]
}

fn other_cases(h: &Harness) -> Vec<Case> {
    vec![
        changed(h, "deadline missing", "/deadline", Value::Null, body("deadline")),
        changed(h, "deadline no time", "/deadline", json!("tomorrow"), body("deadline")),
        changed(h, "deadline without zone", "/deadline", json!("2026-01-01T00:10:00"), body("deadline")),
        changed(h, "deadline a number", "/deadline", json!(1_767_225_600), body("deadline")),
        changed(h, "deadline past", "/deadline", json!(h.in_s(-1)), rule("deadline_passed", "deadline")),
        changed(h, "deadline now", "/deadline", json!(h.in_s(0)), rule("deadline_passed", "deadline")),
        changed(h, "deadline far", "/deadline", json!(h.in_s(86_401)), rule("deadline_too_far", "deadline")),
        changed(
            h,
            "deadline year 9999",
            "/deadline",
            json!("9999-12-31T23:59:59Z"),
            rule("deadline_too_far", "deadline"),
        ),
        changed(
            h,
            "context too long",
            "/context",
            json!("c".repeat(4_097)),
            rule("context_too_long", "context"),
        ),
        changed(h, "context an object", "/context", json!({"a": 1}), body("context")),
        changed(h, "unknown field", "/user", json!("1"), body("user")),
    ]
}

fn body_cases(h: &Harness) -> Vec<Case> {
    let malformed = (400, "malformed_json", None);
    let good = h.body(1).to_string();
    let mut not_utf8 = good.clone().into_bytes();
    let at = good.find("R:1").unwrap();
    not_utf8[at] = 0xff;
    vec![
        raw("empty", "", malformed),
        raw("cut short", &good[..good.len() - 1], malformed),
        raw("two values", format!("{good}{good}"), malformed),
        raw("no JSON", "user_id=1", malformed),
        raw("not UTF-8", not_utf8, malformed),
        raw("byte order mark", format!("\u{feff}{good}"), malformed),
        raw("lone surrogate", good.replace("R:1", "\\ud800"), malformed),
        raw("deep arrays", format!("{}{}", "[".repeat(30_000), "]".repeat(30_000)), malformed),
        raw("deep objects", "{\"a\":".repeat(10_000), malformed),
        raw("null", "null", (400, "invalid_body", None)),
        raw(
            "array for object",
            "[\"1\",\"renew\",\"R:1\",[1,\"CNY\"],\"2026-01-01T00:10:00Z\"]",
            (400, "invalid_body", None),
        ),
        raw(
            "a field twice",
            good.replacen('{', "{\"user_id\":\"2\",", 1),
            (400, "invalid_body", Some("user_id")),
        ),
        raw("many fields", many_fields(), malformed),
        raw("one megabyte", "x".repeat(1 << 20), (413, "body_too_large", None)),
        raw(
            "one byte too many",
            format!("{good}{}", " ".repeat(65_537 - good.len())),
            (413, "body_too_large", None),
        ),
    ]
}

fn many_fields() -> String {
    let fields: Vec<String> = (0..1_000).map(|i| format!("\"f{i}\":1")).collect();
    format!("{{{}}}", fields.join(","))
}

fn header_cases(h: &Harness) -> Vec<Case> {
    let good = h.body(1).to_string();
    let with_key = |name, key: Option<&str>, code| Case {
        key: key.map(ToOwned::to_owned),
        ..raw(name, good.clone(), (400, code, Some("Idempotency-Key")))
    };
    let with_type = |name, content_type| Case {
        content_type,
        ..raw(name, good.clone(), (415, "unsupported_media_type", Some("Content-Type")))
    };
    vec![
        with_key("no key", None, "idempotency_key_missing"),
        with_key("empty key", Some(""), "idempotency_key_invalid"),
        with_key("key of 300 characters", Some(&"k".repeat(300)), "idempotency_key_invalid"),
        with_key("key with a space", Some("'; DROP TABLE"), "idempotency_key_invalid"),
        with_key("key half quoted", Some("\"abc"), "idempotency_key_invalid"),
        with_type("no content type", None),
        with_type("form", Some("application/x-www-form-urlencoded")),
        with_type("text", Some("text/json")),
    ]
}

fn build(case: &Case) -> Request<Body> {
    let mut headers = Vec::new();
    if let Some(key) = &case.key {
        headers.push(("idempotency-key", key.as_str()));
    }
    if let Some(content_type) = case.content_type {
        headers.push(("content-type", content_type));
    }
    request("POST", "/payments", SHOP, &headers, Body::from(case.body.clone()))
}

#[tokio::test]
async fn wrong_payments_are_refused_and_write_nothing() {
    let harness = Harness::new();
    let cases = [
        target_cases(&harness),
        money_cases(&harness),
        other_cases(&harness),
        body_cases(&harness),
        header_cases(&harness),
    ];
    for case in cases.into_iter().flatten() {
        let reply = harness.send(build(&case)).await;
        let (status, code, field) = case.expect;
        let found = (reply.status, reply.text("code"), reply.body["field"].as_str());
        assert_eq!(found, (status, code, field), "{}: {:#}", case.name, reply.body);
        assert_eq!(reply.header("content-type"), Some("application/problem+json"), "{}", case.name);
        assert_eq!(reply.body["status"], status, "{}", case.name);
        assert_eq!(reply.header("x-request-id"), Some(reply.text("request_id")), "{}", case.name);
        assert!(reply.body.to_string().len() < 1_000, "{}: an answer stays small", case.name);
    }
    assert_eq!(harness.store.calls(StoreOp::Create), 0);
    assert_eq!(harness.store.flows(), []);
    assert_eq!(harness.wallet.debits(), 0);
}

#[tokio::test]
async fn what_looks_dangerous_and_is_allowed_goes_through_untouched() {
    let harness = Harness::new();
    let mut body = harness.body(i64::MAX);
    body["biz_key"] = json!("';DROP/**/TABLE`x`--\\\"%00<script>");
    body["context"] = json!("'; DROP TABLE internal_pay_flow; -- \u{0}\u{1f600} 续签");
    let reply = harness.pay("';DROP/**/TABLE--", &body, 1).await;
    assert_eq!(reply.status, 201, "{:#}", reply.body);
    assert_eq!(reply.text("user_id"), "9223372036854775807");
    assert_eq!(reply.body["biz_key"], body["biz_key"]);
    assert_eq!(harness.only_flow().context.as_deref(), body["context"].as_str());
}

#[tokio::test]
async fn a_body_that_does_not_arrive_is_a_timeout() {
    let harness = Harness::new();
    let headers = [("idempotency-key", "k"), ("content-type", "application/json")];
    let slow = FailingBody(Some(BodyError::TimedOut { limit_ms: 4_500 }));
    let reply = harness.send(request("POST", "/payments", SHOP, &headers, Body::new(slow))).await;
    assert_eq!((reply.status, reply.text("code")), (408, "request_timeout"));
    assert_eq!(harness.store.flows(), []);
}

/// A body that fails in this way.
struct FailingBody(Option<BodyError>);

impl hyper::body::Body for FailingBody {
    type Data = axum::body::Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<hyper::body::Frame<Self::Data>, BodyError>>> {
        std::task::Poll::Ready(self.0.take().map(Err))
    }
}

#[tokio::test]
async fn wrong_parameters_are_named() {
    let harness = Harness::new();
    for (path, field) in [
        ("/payment-flows/abc", "flow_id"),
        ("/payment-flows/0", "flow_id"),
        ("/payment-flows/-1", "flow_id"),
        ("/payment-flows/01", "flow_id"),
        ("/payment-flows/1.0", "flow_id"),
        ("/payment-flows/9223372036854775808", "flow_id"),
        ("/payment-flows/1%27%3B%20DROP", "flow_id"),
        ("/payment-flows/%FF", "flow_id"),
        ("/payment-flows/1/events?limit=0", "limit"),
        ("/payment-flows/1/events?cursor=x", "cursor"),
        ("/payment-flows/1/events?cursor=%2B1", "cursor"),
        ("/payment-flows/1/events?cursor=01", "cursor"),
        ("/payment-flows/1?wait=-1", "wait"),
        ("/payment-flows/1?wait=1.5", "wait"),
        ("/payment-flows/1?wait=99999999999999999999", "wait"),
        ("/payment-flows/1?wait=1&wait=2", "wait"),
        ("/payment-flows/1?since_version=x", "since_version"),
        ("/payment-flows/1?waits=1", "waits"),
        ("/payment-flows?user_id=x", "user_id"),
        ("/payment-flows?scene=%20", "scene"),
        ("/payment-flows?biz_key=%FF", "biz_key"),
        ("/payment-flows?trade_order_no=1", "trade_order_no"),
        ("/payment-flows?refund_order_no=h2r_1_1", "refund_order_no"),
        ("/payment-flows?state=paying", "state"),
        ("/payment-flows?open=1", "open"),
        ("/payment-flows?held=yes", "held"),
        ("/payment-flows?min_age_ms=-1", "min_age_ms"),
        ("/payment-flows?limit=x", "limit"),
        ("/payment-flows?cursor=abc", "cursor"),
        ("/payment-flows?sort=id", "sort"),
    ] {
        let reply = harness.get(SHOP, path).await;
        let found = (reply.status, reply.text("code"), reply.text("field"));
        assert_eq!(found, (400, "invalid_parameter", field), "{path}: {:#}", reply.body);
    }
    let beyond_2_53 = harness.get(SHOP, "/payment-flows/9007199254740993").await;
    assert_eq!((beyond_2_53.status, beyond_2_53.text("flow_id")), (404, "9007199254740993"));
}

#[tokio::test]
async fn unknown_routes_and_methods_are_problems_too() {
    let harness = Harness::new();
    let reply = harness.get("", "/payment").await;
    assert_eq!((reply.status, reply.text("code")), (404, "route_not_found"));
    let reply = harness.send(request("DELETE", "/payment-flows/1", SHOP, &[], Body::empty())).await;
    assert_eq!((reply.status, reply.text("code")), (405, "method_not_allowed"));
    assert_eq!(reply.header("allow"), Some("GET,HEAD"));
    let reply = harness.send(request("PUT", "/payments", SHOP, &[], Body::empty())).await;
    assert_eq!((reply.status, reply.header("allow")), (405, Some("POST")));
}
