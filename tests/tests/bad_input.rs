//! Whatever a client sends, it gets the right status and a problem document that says why, and nothing is written.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::{Database, Flavor, Site, Socket, request_head};
use reqwest::Method;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use xtask::stack::{ApiClient, Keys, Payment, Tuning};

e2e::on_both_servers! {
    is_refused_and_writes_nothing within 90 s;
}

/// A request and what must come back.
struct Case {
    what: &'static str,
    method: Method,
    path: String,
    headers: HeaderMap,
    body: Vec<u8>,
    status: u16,
    code: &'static str,
}

async fn is_refused_and_writes_nothing(flavor: Flavor) -> anyhow::Result<()> {
    let site = Site::open(Database::shared(flavor, "bad").await?, Tuning::default(), 1, 0).await?;
    let api = site.client();
    let own = api.pay("good-1", &Payment::new(1, "good").body(), Some(10)).await?;
    ensure!(own.status == 201 && own.status_word() == "BIZ_SUCCESS", "{} {}", own.status, own.body);
    let before = site.database.row_counts().await?;
    let mut cases = bodies();
    cases.extend(raw_bodies());
    cases.extend(headers_and_keys());
    cases.extend(places(own.flow_id()));
    let count = cases.len();
    for case in cases {
        let what = case.what;
        check(&api, case).await.with_context(|| what.to_owned())?;
    }
    not_even_http(&api).await?;
    let after = site.database.row_counts().await?;
    ensure!(before == after, "something was written: {before:?} became {after:?}");
    let still = api.pay("good-2", &Payment::new(1, "good:2").body(), Some(10)).await?;
    ensure!(still.status == 201, "{} {}", still.status, still.body);
    eprintln!("{count} bad requests on {flavor}");
    site.settle(Duration::from_secs(10)).await?;
    site.close().await
}

async fn check(api: &ApiClient, case: Case) -> anyhow::Result<()> {
    let reply = api.raw(case.method, &case.path, case.headers, case.body).await?;
    let kind = reply.header("content-type").unwrap_or_default();
    ensure!(reply.status == case.status, "HTTP {} instead of {}: {}", reply.status, case.status, reply.body);
    ensure!(kind.starts_with("application/problem+json"), "{kind} instead of a problem");
    ensure!(
        reply.text("code") == case.code,
        "{} instead of {}: {}",
        reply.text("code"),
        case.code,
        reply.body
    );
    ensure!(reply.body["status"] == case.status && reply.body["retryable"] == false, "{}", reply.body);
    ensure!(!reply.text("detail").is_empty() && !reply.text("title").is_empty(), "{}", reply.body);
    // Where the body was not read to its end, the connection can't be used again, and the client must know.
    let closes = reply.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
    ensure!(closes || case.status != 413, "a 413 that does not announce the end of its connection");
    let request_id = reply.header("x-request-id").context("no X-Request-Id")?;
    ensure!(reply.text("request_id") == request_id, "{} is not {request_id}", reply.body);
    Ok(())
}

fn good() -> Value {
    Payment::new(77, "never:written").body()
}

fn header_map(pairs: &[(&'static str, &[u8])]) -> HeaderMap {
    let pair = |(name, value): &(&'static str, &[u8])| {
        (HeaderName::from_static(name), HeaderValue::from_bytes(value).expect("a value that may be sent"))
    };
    pairs.iter().map(pair).collect()
}

fn usual_headers() -> HeaderMap {
    let bearer = format!("Bearer {}", Keys::CLIENT);
    header_map(&[
        ("authorization", bearer.as_bytes()),
        ("idempotency-key", b"never-1"),
        ("content-type", b"application/json"),
    ])
}

fn post(what: &'static str, body: impl Into<Vec<u8>>, status: u16, code: &'static str) -> Case {
    let (method, path, headers) = (Method::POST, "/payments".to_owned(), usual_headers());
    Case { what, method, path, headers, body: body.into(), status, code }
}

/// The good body with one member changed (`null`: taken out); `path` is `a` or `a.b`.
fn changed(what: &'static str, path: &str, value: Value, status: u16, code: &'static str) -> Case {
    let mut body = good();
    let (parent, name) = match path.split_once('.') {
        Some((parent, name)) => (&mut body[parent], name),
        None => (&mut body, path),
    };
    parent[name] = value;
    if parent[name].is_null() {
        parent.as_object_mut().expect("bodies are objects").remove(name);
    }
    post(what, body.to_string(), status, code)
}

fn bodies() -> Vec<Case> {
    let in_ms = |ms: i64| {
        let payment = Payment { deadline_in_ms: ms, ..Payment::new(1, "x") };
        payment.body()["deadline"].clone()
    };
    let invalid = |what, path, value| changed(what, path, value, 400, "invalid_body");
    vec![
        invalid("user_id as a number", "user_id", json!(77)),
        invalid("user_id missing", "user_id", Value::Null),
        invalid("user_id zero", "user_id", json!("0")),
        invalid("user_id negative", "user_id", json!("-5")),
        invalid("user_id beyond 2^63", "user_id", json!("9223372036854775808")),
        invalid("user_id far beyond", "user_id", json!("9".repeat(400))),
        invalid("user_id with a blank", "user_id", json!("77 ")),
        invalid("user_id with a leading zero", "user_id", json!("077")),
        invalid("user_id in hexadecimal", "user_id", json!("0x4d")),
        invalid("user_id in other digits", "user_id", json!("٧٧")),
        invalid("amount as a string", "money.amount", json!("100")),
        invalid("amount as a float", "money.amount", json!(19.9)),
        invalid("amount as a whole float", "money.amount", json!(100.0)),
        invalid("amount as a boolean", "money.amount", json!(true)),
        invalid("amount as a list", "money.amount", json!([1])),
        invalid("amount missing", "money.amount", Value::Null),
        invalid("amount beyond 2^63", "money.amount", json!(9_223_372_036_854_775_808_u64)),
        changed("amount zero", "money.amount", json!(0), 422, "amount_out_of_range"),
        changed("amount negative", "money.amount", json!(-100), 422, "amount_out_of_range"),
        changed("amount huge", "money.amount", json!(i64::MAX), 422, "amount_out_of_range"),
        changed("amount least", "money.amount", json!(i64::MIN), 422, "amount_out_of_range"),
        changed(
            "amount above the scene's limit",
            "money.amount",
            json!(5_000_001),
            422,
            "amount_out_of_range",
        ),
        changed("currency unknown", "money.currency", json!("XXX"), 422, "currency_not_allowed"),
        changed("currency in lower case", "money.currency", json!("cny"), 422, "currency_not_allowed"),
        invalid("currency as a number", "money.currency", json!(156)),
        invalid("money as a list", "money", json!([100, "CNY"])),
        invalid("money missing", "money", Value::Null),
        invalid("unknown member of money", "money.exponent", json!(2)),
        changed("scene unknown", "scene", json!("nowhere"), 422, "scene_unknown"),
        invalid("scene with SQL", "scene", json!("'; DROP TABLE internal_pay_flow; --")),
        invalid("scene of 300 characters", "scene", json!("s".repeat(300))),
        invalid("biz_key with SQL and blanks", "biz_key", json!("x'; DROP TABLE internal_pay_flow; --")),
        invalid("biz_key empty", "biz_key", json!("")),
        invalid("biz_key of 300 characters", "biz_key", json!("k".repeat(300))),
        invalid("biz_key with a null character", "biz_key", json!("a\u{0}b")),
        invalid("biz_key beyond ASCII", "biz_key", json!("续费")),
        invalid("biz_key as an object", "biz_key", json!({ "a": 1 })),
        changed("deadline passed", "deadline", in_ms(-1_000), 422, "deadline_passed"),
        changed("deadline too far", "deadline", in_ms(86_400_000 * 2), 422, "deadline_too_far"),
        changed("deadline long ago", "deadline", json!("1970-01-01T00:00:00Z"), 422, "deadline_passed"),
        changed(
            "deadline in the year 9999",
            "deadline",
            json!("9999-12-31T23:59:59Z"),
            422,
            "deadline_too_far",
        ),
        invalid("deadline without a zone", "deadline", json!("2030-01-01T00:00:00")),
        invalid("deadline as a number", "deadline", json!(1_893_456_000)),
        invalid("deadline on no day", "deadline", json!("2030-02-30T00:00:00Z")),
        invalid("deadline missing", "deadline", Value::Null),
        changed("context of 5000 characters", "context", json!("c".repeat(5_000)), 422, "context_too_long"),
        invalid("context as an object", "context", json!({ "a": 1 })),
        invalid("unknown member", "colour", json!("red")),
        invalid("member in another case", "User_ID", json!("77")),
    ]
}

fn raw_bodies() -> Vec<Case> {
    let text = good().to_string();
    let twice = text.replacen('{', "{\"user_id\":\"77\",", 1);
    let twice_inside = text.replace("\"amount\":1990", "\"amount\":1990,\"amount\":1990");
    let mut bad_utf8 = text.clone().into_bytes();
    let at = text.find("never:written").expect("the biz_key stands there");
    bad_utf8[at] = 0xff;
    let deep = format!("{}{}", "[".repeat(30_000), "]".repeat(30_000));
    let deep_inside = text.replacen('{', &format!("{{\"x\":{}{},", "[".repeat(5_000), "]".repeat(5_000)), 1);
    let exponent = text.replace("\"amount\":1990", "\"amount\":2e3");
    let endless = text.replace("\"amount\":1990", "\"amount\":1e999999");
    vec![
        post("a member twice", twice, 400, "invalid_body"),
        post("a member of money twice", twice_inside, 400, "invalid_body"),
        post("an amount with an exponent", exponent, 400, "invalid_body"),
        post("an amount beyond any number", endless, 400, "malformed_json"),
        post("no UTF-8", bad_utf8, 400, "malformed_json"),
        post("a lone surrogate", text.replace("never:written", "\\ud800"), 400, "malformed_json"),
        post("nothing", "", 400, "malformed_json"),
        post("half of it", &text.as_bytes()[..text.len() / 2], 400, "malformed_json"),
        post("something behind it", format!("{text} {text}"), 400, "malformed_json"),
        post("no JSON", "user_id=77&amount=1990", 400, "malformed_json"),
        post("a list", "[]", 400, "invalid_body"),
        post("null", "null", 400, "invalid_body"),
        post("a string", "\"'; DROP TABLE internal_pay_flow; --\"", 400, "invalid_body"),
        post("a million bytes", vec![b' '; 1_000_000], 413, "body_too_large"),
        post(
            "one byte too many",
            format!("{text}{}", " ".repeat(65_537 - text.len())),
            413,
            "body_too_large",
        ),
        post("very deep", deep, 400, "malformed_json"),
        post("very deep inside", deep_inside, 400, "malformed_json"),
    ]
}

fn with(what: &'static str, pairs: &[(&'static str, &[u8])], status: u16, code: &'static str) -> Case {
    let mut case = post(what, good().to_string(), status, code);
    for (name, value) in header_map(pairs) {
        case.headers.insert(name.expect("each name once"), value);
    }
    case
}

fn without(what: &'static str, name: &str, status: u16, code: &'static str) -> Case {
    let mut case = post(what, good().to_string(), status, code);
    case.headers.remove(name);
    case
}

fn headers_and_keys() -> Vec<Case> {
    let bearer = |key: &str| format!("Bearer {key}").into_bytes();
    let long_key = "k".repeat(300);
    let mut two_keys = post("two idempotency keys", good().to_string(), 400, "idempotency_key_invalid");
    two_keys.headers.append("idempotency-key", HeaderValue::from_static("never-2"));
    vec![
        without("no idempotency key", "idempotency-key", 400, "idempotency_key_missing"),
        with("an empty idempotency key", &[("idempotency-key", b"")], 400, "idempotency_key_invalid"),
        with(
            "a key of 300 characters",
            &[("idempotency-key", long_key.as_bytes())],
            400,
            "idempotency_key_invalid",
        ),
        with(
            "a key with SQL",
            &[("idempotency-key", b"'; DROP TABLE pay_request_key; --")],
            400,
            "idempotency_key_invalid",
        ),
        with(
            "a key beyond ASCII",
            &[("idempotency-key", "schlüssel".as_bytes())],
            400,
            "idempotency_key_invalid",
        ),
        two_keys,
        without("no content type", "content-type", 415, "unsupported_media_type"),
        with(
            "a form",
            &[("content-type", b"application/x-www-form-urlencoded")],
            415,
            "unsupported_media_type",
        ),
        with("plain text", &[("content-type", b"text/plain")], 415, "unsupported_media_type"),
        without("no API key", "authorization", 401, "unauthenticated"),
        with("an unknown API key", &[("authorization", &bearer("nobodys-key"))], 401, "unauthenticated"),
        with(
            "an API key without its scheme",
            &[("authorization", Keys::CLIENT.as_bytes())],
            401,
            "unauthenticated",
        ),
        with("an API key of bytes", &[("authorization", b"Bearer \xff\xfe")], 401, "unauthenticated"),
        with("an on-call key that pays", &[("authorization", &bearer(Keys::ON_CALL))], 403, "forbidden"),
        with("an operator's key that pays", &[("authorization", &bearer(Keys::OPERATOR))], 403, "forbidden"),
    ]
}

fn at(
    what: &'static str,
    method: Method,
    path: impl Into<String>,
    key: &str,
    status: u16,
    code: &'static str,
) -> Case {
    let bearer = format!("Bearer {key}");
    let headers = header_map(&[("authorization", bearer.as_bytes())]);
    Case { what, method, path: path.into(), headers, body: Vec::new(), status, code }
}

/// Paths, methods and parameters; `own` is a flow of the client `shop`.
fn places(own: &str) -> Vec<Case> {
    let shop = Keys::CLIENT;
    let get = |what, path: &str, status, code| at(what, Method::GET, path, shop, status, code);
    let flow = |id: &str| format!("/payment-flows/{id}");
    vec![
        get("no such flow", &flow("999999999"), 404, "flow_not_found"),
        get("an id beyond 2^53", &flow("9007199254740993"), 404, "flow_not_found"),
        get("the greatest id", &flow("9223372036854775807"), 404, "flow_not_found"),
        get("an id of 2^63", &flow("9223372036854775808"), 400, "invalid_parameter"),
        get("an id of 40 digits", &flow(&"9".repeat(40)), 400, "invalid_parameter"),
        get("an id with letters", &flow("12abc"), 400, "invalid_parameter"),
        get("an id with SQL", &flow("1%27%20OR%201%3D1%20--"), 400, "invalid_parameter"),
        get("an id below zero", &flow("-1"), 400, "invalid_parameter"),
        get("an id of bad UTF-8", &flow("%ff%fe"), 400, "invalid_parameter"),
        get("a wait that is no number", &format!("{}?wait=soon", flow(own)), 400, "invalid_parameter"),
        get("a parameter twice", &format!("{}?wait=0&wait=0", flow(own)), 400, "invalid_parameter"),
        get("an unknown parameter", &format!("{}?verbose=1", flow(own)), 400, "invalid_parameter"),
        get("a user beyond 2^63", "/payment-flows?user_id=9223372036854775808", 400, "invalid_parameter"),
        get("a state that is none", "/payment-flows?state=payed", 400, "invalid_parameter"),
        get("a limit of zero", "/payment-flows?limit=0", 400, "invalid_parameter"),
        get("a cursor of one's own", "/payment-flows?cursor=%27%3B--", 400, "invalid_parameter"),
        at("another application's flow", Method::GET, flow(own), Keys::OTHER_CLIENT, 404, "flow_not_found"),
        at(
            "another application's events",
            Method::GET,
            format!("{}/events", flow(own)),
            Keys::OTHER_CLIENT,
            404,
            "flow_not_found",
        ),
        at(
            "another application's cancel",
            Method::POST,
            format!("{}/cancel", flow(own)),
            Keys::OTHER_CLIENT,
            404,
            "flow_not_found",
        ),
        at("a client that holds", Method::POST, format!("{}/hold", flow(own)), shop, 403, "forbidden"),
        at("a client that releases", Method::POST, format!("{}/release", flow(own)), shop, 403, "forbidden"),
        at(
            "people on call who hold",
            Method::POST,
            format!("{}/hold", flow(own)),
            Keys::ON_CALL,
            403,
            "forbidden",
        ),
        at(
            "a cancel of what has ended",
            Method::POST,
            format!("{}/cancel", flow(own)),
            shop,
            409,
            "too_late",
        ),
        at(
            "a hold of what has ended",
            Method::POST,
            format!("{}/hold", flow(own)),
            Keys::OPERATOR,
            409,
            "flow_ended",
        ),
        at("nobody's read", Method::GET, flow(own), "nobodys-key", 401, "unauthenticated"),
        get("no such place", "/payment", 404, "route_not_found"),
        get("a way out", "/payment-flows/../../etc/passwd", 404, "route_not_found"),
        get("reading where one posts", "/payments", 405, "method_not_allowed"),
        at("deleting a flow", Method::DELETE, flow(own), shop, 405, "method_not_allowed"),
        at("writing a flow", Method::PUT, flow(own), shop, 405, "method_not_allowed"),
    ]
}

/// What is not even HTTP ends the connection or gets a 400, and the next client is served.
async fn not_even_http(api: &ApiClient) -> anyhow::Result<()> {
    const CLOSE: Duration = Duration::from_secs(10);
    let two_lengths = request_head(api, "POST", "/payments", "Content-Length: 5\r\nContent-Length: 6\r\n");
    let smuggled =
        request_head(api, "POST", "/payments", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n");
    let many = request_head(api, "GET", "/healthz", &"X-A: b\r\n".repeat(5_000));
    for bytes in [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(),
        b"HELLO\r\n\r\n".to_vec(),
        b"GET / HTTP/9.9\r\n\r\n".to_vec(),
        format!("GET /{} HTTP/1.1\r\nHost: api\r\n\r\n", "a".repeat(500_000)).into_bytes(),
        two_lengths.into_bytes(),
        [smuggled.as_bytes(), b"0\r\n\r\nGET /healthz HTTP/1.1\r\n\r\n"].concat(),
        many.into_bytes(),
    ] {
        let mut socket = Socket::open(api).await?;
        // The server may end it before all is sent.
        let _ = socket.send(&bytes).await;
        let answer = socket.read_to_close(CLOSE).await?;
        let text = String::from_utf8_lossy(&answer);
        let refused = text.is_empty() || text.starts_with("HTTP/1.1 4") || text.starts_with("HTTP/1.0 4");
        ensure!(refused, "{:?} was answered {text}", String::from_utf8_lossy(&bytes[..bytes.len().min(60)]));
    }
    Ok(())
}
