//! What holds of every `Idempotency-Key`, every `Prefer` and every query string of `GET /payment-flows`. One statement for
//! the property tests here and for the fuzz target `request_head`.

#![allow(clippy::unwrap_used, reason = "test code")]

use axum::http::{HeaderMap, HeaderValue};
use flow_core::ids::CallerId;
use pay_api::auth::{Caller, Role};
use pay_api::problem::{Code, Problem};
use pay_api::{ListQuery, Settings, idempotency_key, preferred_wait_ms};

/// Three lines: the key, the preference, the query string. How the fuzz target's inputs are written.
///
/// # Panics
/// A property does not hold.
pub(crate) fn check_lines(input: &[u8]) {
    let mut lines = input.splitn(3, |byte| *byte == b'\n');
    let mut next = || lines.next().unwrap_or_default();
    check_key(next());
    check_preference(next());
    check_query(&String::from_utf8_lossy(next()));
}

fn header(name: &'static str, values: &[&[u8]]) -> Option<HeaderMap> {
    let mut headers = HeaderMap::new();
    for value in values {
        headers.append(name, HeaderValue::from_bytes(value).ok()?);
    }
    Some(headers)
}

fn key_of(values: &[&[u8]]) -> Option<Result<String, Problem>> {
    Some(idempotency_key(&header("idempotency-key", values)?).map(String::from))
}

/// # Panics
/// A property does not hold.
pub(crate) fn check_key(value: &[u8]) {
    // What cannot be a header's value never arrives.
    let Some(read) = key_of(&[value]) else { return };
    match read {
        Ok(key) => {
            assert!(
                (1..=255).contains(&key.len()) && key.bytes().all(|b| (b'!'..=b'~').contains(&b)),
                "{key:?}"
            );
            let quoted = format!("\"{}\"", key.replace('\\', r"\\").replace('"', "\\\""));
            let again = key_of(&[quoted.as_bytes()]);
            assert_eq!(again, Some(Ok(key.clone())), "quoted, a key is the same key");
            if !key.starts_with('"') {
                assert_eq!(key_of(&[key.as_bytes()]), Some(Ok(key)), "bare, a key is the same key");
            }
        }
        Err(problem) => {
            assert_eq!(problem.code(), Code::IdempotencyKeyInvalid);
            // Bare text of the right form is always a key.
            let fits = (1..=255).contains(&value.len()) && value.iter().all(|b| (b'!'..=b'~').contains(b));
            assert!(!fits || value.starts_with(b"\""), "{value:?} was refused");
        }
    }
    let twice = key_of(&[value, value]).map(|read| read.map_err(|problem| problem.code()));
    assert_eq!(twice, Some(Err(Code::IdempotencyKeyInvalid)), "two keys are no key");
}

/// # Panics
/// A property does not hold.
pub(crate) fn check_preference(value: &[u8]) {
    let Some(headers) = header("prefer", &[value]) else { return };
    let wait_ms = preferred_wait_ms(&headers);
    assert!(wait_ms.is_none_or(|ms| ms % 1_000 == 0 || ms == u64::MAX), "{wait_ms:?}");
    let says_wait = value.to_ascii_lowercase().windows(4).any(|part| part == b"wait");
    assert!(wait_ms.is_none() || says_wait, "a wait that nobody asked for");
    // The first of several counts.
    let first = [b"wait=7, ".as_slice(), value].concat();
    assert_eq!(preferred_wait_ms(&header("prefer", &[&first]).unwrap()), Some(7_000));
    assert_eq!(preferred_wait_ms(&header("prefer", &[b"wait=7", value]).unwrap()), Some(7_000));
}

/// # Panics
/// A property does not hold.
pub(crate) fn check_query(text: &str) {
    let settings = settings();
    let own = CallerId::new("shop").unwrap();
    let client = Caller { id: own.clone(), role: Role::Client };
    let inside = Caller { id: CallerId::new("alice").unwrap(), role: Role::OnCall };
    let (seen, all) =
        (ListQuery::parse(text, &client, &settings), ListQuery::parse(text, &inside, &settings));
    assert_eq!(seen.is_ok(), all.is_ok(), "what is of its form does not depend on who asks");
    let told: Vec<(String, String)> = url::form_urlencoded::parse(text.as_bytes()).into_owned().collect();
    match (seen, all) {
        (Ok(seen), Ok(all)) => {
            let asked = all.filter.as_ref().unwrap().caller.clone();
            match seen.filter {
                Some(filter) => assert_eq!(filter.caller, Some(own.clone()), "a client sees its own alone"),
                None => assert!(asked.as_ref().is_some_and(|asked| *asked != own)),
            }
            is_what_was_told(&all, &told, &settings);
        }
        (Err(problem), Err(_)) => {
            let document = serde_json::to_value(problem.document(&"r".parse().unwrap())).unwrap();
            assert_eq!(problem.code(), Code::InvalidParameter);
            let field = document["field"].as_str().expect("a complaint names its parameter");
            assert!(
                told.iter().any(|(name, _)| name.starts_with(field)),
                "{document} is about nothing in {told:?}"
            );
            assert!(document.to_string().len() < 1_000, "an answer stays small: {document}");
        }
        (Ok(_), Err(_)) | (Err(_), Ok(_)) => unreachable!("compared above"),
    }
}

/// Every parameter that was given is in the filter as it was given, and nothing else is.
fn is_what_was_told(query: &ListQuery, told: &[(String, String)], settings: &Settings) {
    let filter = query.filter.as_ref().unwrap();
    let text = |value: Option<&dyn ToString>| value.map(ToString::to_string);
    let read = [
        ("caller", text(filter.caller.as_ref().map(|v| v as _))),
        ("user_id", text(filter.user_id.as_ref().map(|v| v as _))),
        ("scene", text(filter.scene.as_ref().map(|v| v as _))),
        ("biz_key", text(filter.biz_key.as_ref().map(|v| v as _))),
        ("trade_order_no", text(filter.trade_order_no.as_ref().map(|v| v as _))),
        ("refund_order_no", text(filter.refund_order_no.as_ref().map(|v| v as _))),
        ("state", filter.state.map(|state| state.as_str().to_owned())),
        ("open", text(filter.open.as_ref().map(|v| v as _))),
        ("held", text(filter.held.as_ref().map(|v| v as _))),
        ("cursor", text(query.before.as_ref().map(|v| v as _))),
    ];
    for (name, read) in &read {
        let mut given = told.iter().filter(|(other, _)| other == name).map(|(_, value)| value);
        assert_eq!(given.next(), read.as_ref(), "{name}");
        assert_eq!(given.next(), None, "{name} was given twice");
    }
    let numbers = ["min_age_ms", "limit"];
    let known = |name: &str| numbers.contains(&name) || read.iter().any(|(other, _)| *other == name);
    assert!(told.iter().all(|(name, _)| known(name)), "{told:?}");
    let number =
        |name: &str| told.iter().find(|(other, _)| other == name).and_then(|(_, v)| v.parse::<u64>().ok());
    assert_eq!(filter.min_age_ms, number("min_age_ms"));
    let limit = number("limit").unwrap_or(settings.default_page_rows.into());
    assert_eq!(u64::from(query.limit_rows), limit.min(settings.max_page_rows.into()));
    assert!(query.limit_rows >= 1);
}

fn settings() -> Settings {
    Settings {
        default_wait_ms: 1_000,
        max_wait_ms: 30_000,
        max_waiters: 16,
        wait_poll_ms: 250,
        max_body_bytes: 65_536,
        max_in_flight: 32,
        advance_budget_ms: 30_000,
        first_due_in_ms: 5_000,
        max_page_rows: 10,
        default_page_rows: 5,
    }
}
