//! Whatever arrives: no panic, and nothing definite unless it is well-formed and about what was asked for.

#![allow(clippy::unwrap_used, reason = "test code")]

use flow_adapters::classify::{self, ChargeCall, RefundCall, Reply};
use flow_core::answer::{Classified as _, NoAnswer, UnknownCause};
use flow_core::ids::{BizKey, RefundOrderNo, Scene, Target, TradeOrderNo, UserId};
use proptest::prelude::*;
use serde_json::Value;

const TRADE: &str = "h2r_1_a";
const REFUND: &str = "r_h2r_1_a";

const USER: &str = "1";
const SCENE: &str = "renew";
const KEY: &str = "card-77";

const BODIES: [&str; 9] = [
    r#"{"trade_order_no":"h2r_1_a","status":"SUCCESS","user_id":"1","money":{"amount":1990,"currency":"CNY"},"transaction_id":"w"}"#,
    r#"{"trade_order_no":"h2r_1_a","status":"FAILED","failure_code":"INSUFFICIENT_FUNDS"}"#,
    r#"{"refund_order_no":"r_h2r_1_a","trade_order_no":"h2r_1_a","status":"SUCCESS","user_id":"1","money":{"amount":1,"currency":"A"}}"#,
    r#"{"status":"DONE","owner_order_no":"h2r_1_a"}"#,
    r#"{"status":"NOT_DONE"}"#,
    r#"{"status":"DONE","owner_order_no":"h2r_1_a","user_id":"1","scene":"renew","biz_key":"card-77"}"#,
    r#"{"status":"NOT_DONE","user_id":"1","scene":"renew","biz_key":"card-77"}"#,
    r#"{"biz_key":"card-78","scene":"renew","user_id":"1","status":"NOT_DONE"}"#,
    r#"{"code":"ORDER_NOT_FOUND","message":"m"}"#,
];

/// The contract's refusals, told here once more and independently.
const REFUSALS: [(u16, &str); 11] = [
    (404, "ORDER_NOT_FOUND"),
    (404, "REFUND_NOT_FOUND"),
    (409, "ORDER_CONFLICT"),
    (409, "REFUND_CONFLICT"),
    (422, "ORDER_NOT_CHARGED"),
    (422, "REFUND_EXCEEDS_CHARGE"),
    (501, "CLOSE_UNSUPPORTED"),
    (409, "DEADLINE_PASSED"),
    (409, "OWNED_BY_OTHER"),
    (409, "EXECUTION_CONFLICT"),
    (503, "NOT_EXECUTED"),
];

fn body() -> impl Strategy<Value = Vec<u8>> {
    let valid = prop::sample::select(BODIES.to_vec());
    let refusal =
        prop::sample::select(REFUSALS.to_vec()).prop_map(|(_, code)| format!(r#"{{"code":"{code}"}}"#));
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..200),
        refusal.prop_map(String::into_bytes),
        valid.clone().prop_map(|text| text.as_bytes().to_vec()),
        (valid.clone(), any::<prop::sample::Index>(), any::<u8>()).prop_map(|(text, at, byte)| {
            let mut bytes = text.as_bytes().to_vec();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            bytes
        }),
        (valid.clone(), any::<prop::sample::Index>())
            .prop_map(|(text, at)| text.as_bytes()[..at.index(text.len())].to_vec()),
        (valid.clone(), valid).prop_map(|(one, other)| [one, other].concat().into_bytes()),
    ]
}

fn status() -> impl Strategy<Value = u16> {
    let documented: Vec<u16> = REFUSALS.iter().map(|(status, _)| *status).collect();
    prop_oneof![3 => Just(200u16), 3 => prop::sample::select(documented), 1 => any::<u16>()]
}

/// Whether the reply is a refusal of the contract, or an object whose members say about what it is.
fn is_about(status: u16, body: &[u8], members: &[(&str, &str)]) -> bool {
    let Ok(Value::Object(object)) = serde_json::from_slice::<Value>(body) else { return false };
    let text = |member: &str| object.get(member).and_then(Value::as_str);
    if status == 200 {
        return text("status").is_some() && members.iter().all(|(member, ours)| text(member) == Some(ours));
    }
    REFUSALS.contains(&(status, text("code").unwrap_or_default()))
}

fn check(
    name: &str,
    is_definite: bool,
    status: u16,
    body: &[u8],
    members: &[(&str, &str)],
) -> Result<(), TestCaseError> {
    prop_assert!(
        !is_definite || is_about(status, body, members),
        "{name} took {status} {:?} for definite",
        String::from_utf8_lossy(body)
    );
    Ok(())
}

fn target(user: &str, scene: &str, key: &str) -> Target {
    Target {
        user_id: UserId::new(user.parse().unwrap()).unwrap(),
        scene: Scene::new(scene).unwrap(),
        biz_key: BizKey::new(key).unwrap(),
    }
}

/// A member of a fact: ours, another's, or missing.
fn member(
    name: &'static str,
    ours: &'static str,
    other: &'static str,
) -> impl Strategy<Value = Option<String>> {
    let told = move |value: &str| format!(r#""{name}":"{value}","#);
    prop_oneof![3 => Just(Some(told(ours))), 1 => Just(Some(told(other))), 1 => Just(None)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]
    #[test]
    fn nothing_is_definite_unless_it_is_about_what_was_asked_for(status in status(), body in body()) {
        let trade = TradeOrderNo::try_from(TRADE.to_owned()).unwrap();
        let refund = RefundOrderNo::derive(&trade);
        let target = target(USER, SCENE, KEY);
        let reply = Reply { status, retry_after_ms: None, body: &body };
        for call in [ChargeCall::Debit, ChargeCall::Query, ChargeCall::Close] {
            let answer = classify::charge(call, &trade, reply);
            check("charge", answer.no_answer().is_none(), status, &body, &[("trade_order_no", TRADE)])?;
        }
        for call in [RefundCall::Refund, RefundCall::Query] {
            let answer = classify::refund(call, &refund, reply);
            let members = [("refund_order_no", REFUND), ("trade_order_no", TRADE)];
            check("refund", answer.no_answer().is_none(), status, &body, &members)?;
        }
        let answer = classify::execution(&trade, reply);
        check("execution", answer.no_answer().is_none(), status, &body, &[])?;
        let answer = classify::fact(&target, reply);
        let members = [("user_id", USER), ("scene", SCENE), ("biz_key", KEY)];
        check("fact", answer.no_answer().is_none(), status, &body, &members)?;
    }

    #[test]
    fn a_fact_is_definite_exactly_when_all_of_the_target_is_ours(
        user in member("user_id", USER, "2"),
        scene in member("scene", SCENE, "upgrade"),
        key in member("biz_key", KEY, "card-78"),
        is_done in any::<bool>(),
    ) {
        let told = [&user, &scene, &key].map(|member| member.clone().unwrap_or_default()).concat();
        let answer = if is_done { r#""status":"DONE","owner_order_no":"o""# } else { r#""status":"NOT_DONE""# };
        let body = format!("{{{told}{answer}}}");
        let reply = Reply { status: 200, retry_after_ms: None, body: body.as_bytes() };
        let fact = classify::fact(&target(USER, SCENE, KEY), reply);
        let has_all = user.is_some() && scene.is_some() && key.is_some();
        let is_ours = told == r#""user_id":"1","scene":"renew","biz_key":"card-77","#;
        let expected = match (has_all, is_ours) {
            (false, _) => Some(NoAnswer::Unknown(UnknownCause::Unparsable)),
            (true, false) => Some(NoAnswer::Unknown(UnknownCause::WrongOrder)),
            (true, true) => None,
        };
        prop_assert_eq!(fact.no_answer(), expected, "{}", body);
    }

    #[test]
    fn another_orders_answer_is_never_taken_for_ours(user in 1i64.., flow in 1i64.., index in 0usize..3) {
        let trade = TradeOrderNo::derive(UserId::new(user).unwrap(), flow_core::ids::FlowId::new(flow).unwrap());
        prop_assume!(trade.as_str() != TRADE);
        let reply = Reply { status: 200, retry_after_ms: None, body: BODIES[index].as_bytes() };
        for call in [ChargeCall::Debit, ChargeCall::Query, ChargeCall::Close] {
            prop_assert!(classify::charge(call, &trade, reply).no_answer().is_some());
        }
        for call in [RefundCall::Refund, RefundCall::Query] {
            prop_assert!(classify::refund(call, &RefundOrderNo::derive(&trade), reply).no_answer().is_some());
        }
    }
}
