//! What holds of every body of `POST /payments`. One statement for the property tests here and for the fuzz target
//! `payment_body`.

#![allow(clippy::unwrap_used, reason = "test code")]

use chrono::{DateTime, Datelike as _, FixedOffset, TimeDelta, Utc};
use flow_core::ids::{BizKey, Scene, UserId};
use pay_api::PaymentBody;
use pay_api::problem::Code;
use serde_json::Value;

const MEMBERS: [&str; 6] = ["user_id", "scene", "biz_key", "money", "deadline", "context"];

/// # Panics
/// A property does not hold.
pub(crate) fn check(bytes: &[u8]) {
    let value = serde_json::from_slice::<Value>(bytes).ok();
    match PaymentBody::parse(bytes) {
        Ok(body) => {
            let value = value.expect("what is accepted is JSON");
            says_what_was_read(&value, &body);
            assert!(is_documented(&value), "accepted, and not as documented: {value}");
            can_be_repeated(&body);
            is_bound_by_every_member(&body);
        }
        Err(problem) => {
            let document = serde_json::to_value(problem.document(&"r".parse().unwrap())).unwrap();
            let detail = document["detail"].as_str().unwrap();
            let code = problem.code();
            assert!(
                matches!(code, Code::MalformedJson | Code::InvalidBody | Code::ContextTooLong),
                "{document}"
            );
            assert!(
                !detail.is_empty() && document.to_string().len() < 1_000,
                "an answer stays small: {document}"
            );
            // A member that is given twice is the one thing that a second reader does not see.
            let twice = detail.ends_with("is given twice");
            assert!(twice || !value.as_ref().is_some_and(is_documented), "refused: {document}");
        }
    }
}

/// Compares with a second reader of the same bytes.
fn says_what_was_read(value: &Value, body: &PaymentBody) {
    assert_eq!(value["user_id"], body.user_id.to_string());
    assert_eq!(value["scene"], body.scene.as_str());
    assert_eq!(value["biz_key"], body.biz_key.as_str());
    assert_eq!(value["money"]["amount"].as_i64(), Some(body.money.amount));
    assert_eq!(value["money"]["currency"], body.money.currency.as_str());
    assert_eq!(value.get("context").and_then(Value::as_str), body.context.as_deref());
    let deadline = DateTime::parse_from_rfc3339(value["deadline"].as_str().unwrap()).unwrap();
    assert_eq!(deadline.timestamp_millis(), body.deadline.timestamp_millis());
}

/// The documented shape, told independently of the product; rules of a scene are not part of it.
fn is_documented(value: &Value) -> bool {
    let (Some(body), Some(money)) = (value.as_object(), value["money"].as_object()) else { return false };
    let text = |member: &str| value[member].as_str().unwrap_or_default();
    let scene_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    let id = text("user_id");
    body.keys().all(|name| MEMBERS.contains(&name.as_str()))
        && money.len() == 2
        && value["money"]["amount"].is_i64()
        && value["money"]["currency"].is_string()
        && !id.starts_with('0')
        && id.bytes().all(|byte| byte.is_ascii_digit())
        && id.parse::<i64>().is_ok()
        && (1..=32).contains(&text("scene").len())
        && text("scene").bytes().all(scene_byte)
        && (1..=160).contains(&text("biz_key").len())
        && text("biz_key").bytes().all(|byte| (b'!'..=b'~').contains(&byte))
        && DateTime::parse_from_rfc3339(text("deadline")).is_ok_and(can_be_written_in_utc)
        && value.get("context").is_none_or(|context| {
            context.is_null() || context.as_str().is_some_and(|text| text.chars().count() <= 4_096)
        })
}

/// RFC 3339 has years of four digits alone, and the first and last of them reach beyond in another zone.
fn can_be_written_in_utc(moment: DateTime<FixedOffset>) -> bool {
    (0..=9_999).contains(&moment.to_utc().year())
}

/// What was understood, written down and read again, is the same wish with the same fingerprint.
fn can_be_repeated(body: &PaymentBody) {
    let written = serde_json::to_vec(body).unwrap();
    let again = PaymentBody::parse(&written);
    assert_eq!(again.as_ref().ok(), Some(body), "{}", String::from_utf8_lossy(&written));
    assert!(again.is_ok_and(|again| again.fingerprint() == body.fingerprint()));
}

/// Any other wish has another fingerprint.
fn is_bound_by_every_member(body: &PaymentBody) {
    let mut others = vec![body.clone(); 7];
    others[0].user_id = UserId::new(if body.user_id.get() == 1 { 2 } else { 1 }).unwrap();
    others[1].scene = Scene::new(other_than(body.scene.as_str())).unwrap();
    others[2].biz_key = BizKey::new(other_than(body.biz_key.as_str())).unwrap();
    others[3].money.amount = body.money.amount.wrapping_add(1);
    others[4].money.currency.push('X');
    others[5].deadline = a_moment_beside(body.deadline);
    others[6].context = Some(body.context.clone().unwrap_or_default() + "x");
    for other in others {
        assert_ne!(other, *body);
        assert_ne!(other.fingerprint(), body.fingerprint(), "{other:?}");
    }
}

fn other_than(text: &str) -> &'static str {
    if text == "a" { "b" } else { "a" }
}

fn a_moment_beside(moment: DateTime<Utc>) -> DateTime<Utc> {
    let (later, earlier) = (TimeDelta::milliseconds(1), TimeDelta::milliseconds(-1));
    moment.checked_add_signed(later).or_else(|| moment.checked_add_signed(earlier)).unwrap()
}
