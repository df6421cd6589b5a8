//! Whatever arrives: no panic, and nothing concluded that the contract does not allow: `properties/answers.rs` says what
//! that is. And what the contract does allow is understood.

#![allow(clippy::unwrap_used, reason = "test code")]

#[path = "properties/answers.rs"]
mod answers;

use flow_adapters::classify::{self, ChargeCall, RefundCall, Reply};
use flow_core::answer::{ChargeAnswer, Classified as _, NoAnswer, Receipt, RefundAnswer, UnknownCause};
use flow_core::ids::{BizKey, RefundOrderNo, Scene, Target, TradeOrderNo, UserId};
use flow_core::money::{Currency, Money};
use proptest::prelude::*;
use serde_json::{Value, json};

use answers::{REFUND, TRADE};

const USER: &str = answers::TARGET.0;
const SCENE: &str = answers::TARGET.1;
const KEY: &str = answers::TARGET.2;

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

/// The same members in a shape that the contract does not have: what derived readers are known to take for it.
fn misshapen() -> impl Strategy<Value = Vec<u8>> {
    let refusals = REFUSALS.map(|(_, code)| json!({ "code": code }));
    let bodies = BODIES.map(|text| serde_json::from_str(text).unwrap());
    let all: Vec<Value> = bodies.into_iter().chain(refusals).collect();
    (prop::sample::select(all), 0..6u8, any::<prop::sample::Index>()).prop_map(|(mut body, how, which)| {
        let members = body.as_object_mut().unwrap();
        let name = members.keys().nth(which.index(members.len())).unwrap().clone();
        let value = members[&name].clone();
        match how {
            // A list of the values in place of the object, in every position that it can start from.
            0 => body = list_of(&body, which.index(8)),
            1 => members[&name] = list_of(&value, 0),
            2 => members[&name] = json!({ value.as_str().unwrap_or("SUCCESS"): null }),
            3 => members[&name] = json!([value]),
            4 => members[&name] = json!(value.to_string()),
            _ => return body.to_string().replacen('{', &format!("{{\"{name}\":{value},"), 1).into_bytes(),
        }
        body.to_string().into_bytes()
    })
}

fn list_of(value: &Value, nulls: usize) -> Value {
    let values = value.as_object().into_iter().flatten().map(|(_, value)| value.clone());
    std::iter::repeat_n(Value::Null, nulls).chain(values).collect()
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
    fn nothing_is_concluded_that_the_contract_does_not_allow(
        status in status(), body in prop_oneof![2 => body(), 1 => misshapen()],
    ) {
        answers::check_wallet(status, &body);
        answers::check_business(status, &body);
    }

    #[test]
    fn what_the_contract_allows_is_understood(
        user in 1i64.., amount in 1i64.., currency in "[A-Z][A-Z0-9_]{0,15}", pad in "[ \t\r\n]{0,3}", unknown in "[!#-\\[\\]-~]{1,12}",
    ) {
        prop_assume!(!["money", "status", "user_id"].contains(&unknown.as_str()));
        let money = Money::new(amount, Currency::new(currency.clone()).unwrap()).unwrap();
        let receipt = Receipt { user_id: UserId::new(user).unwrap(), money, transaction: None, at: None };
        let told = format!(
            r#"{pad}"user_id":"{user}",{pad}"x{unknown}":[{{"y":null}}],"money":{{{pad}"currency":"{currency}","amount":{amount},"z":1.5}}"#,
        );
        let charge = format!(r#"{{{told},"status":"SUCCESS","trade_order_no":"{TRADE}"}}{pad}"#);
        let refund = format!(r#"{{"refund_order_no":"{REFUND}",{told},"trade_order_no":"{TRADE}","status":"SUCCESS"}}"#);
        let trade = TradeOrderNo::try_from(TRADE.to_owned()).unwrap();
        for call in [ChargeCall::Debit, ChargeCall::Query, ChargeCall::Close] {
            let reply = Reply { status: 200, retry_after_ms: None, body: charge.as_bytes() };
            prop_assert_eq!(classify::charge(call, &trade, reply), ChargeAnswer::Success(receipt.clone()), "{}", charge);
        }
        for call in [RefundCall::Refund, RefundCall::Query] {
            let reply = Reply { status: 200, retry_after_ms: None, body: refund.as_bytes() };
            let answer = classify::refund(call, &RefundOrderNo::derive(&trade), reply);
            prop_assert_eq!(answer, RefundAnswer::Success(receipt.clone()), "{}", refund);
        }
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

#[test]
fn the_seeds_of_the_fuzz_targets_hold() {
    for (target, check) in [
        ("wallet_answers", answers::check_wallet as fn(u16, &[u8])),
        ("business_answers", answers::check_business),
    ] {
        flow_testkit::seeds::each(target, |input| {
            let (status, body) = answers::reply_in(input);
            check(status, body);
        });
    }
}

/// serde's derived readers take a list of a structure's values, and a table with one entry for a word. The contracts do
/// not: an answer of that shape is nobody's answer, and a "FAILED" in it must not end a payment.
#[test]
fn lists_and_tables_in_place_of_objects_and_words_are_no_answers() {
    let trade = TradeOrderNo::try_from(TRADE.to_owned()).unwrap();
    for (status, body) in [
        (200, r#"["h2r_1_a",null,"FAILED",null,null,null,null,null]"#),
        (200, r#"["h2r_1_a",null,"SUCCESS","1",{"amount":1990,"currency":"CNY"},null,null,null]"#),
        (200, r#"{"trade_order_no":"h2r_1_a","status":{"FAILED":null}}"#),
        (200, r#"{"trade_order_no":"h2r_1_a","status":"SUCCESS","user_id":"1","money":[1990,"CNY"]}"#),
        (404, r#"["ORDER_NOT_FOUND"]"#),
        (503, r#"["NOT_EXECUTED"]"#),
    ] {
        let reply = Reply { status, retry_after_ms: None, body: body.as_bytes() };
        let answer = classify::charge(ChargeCall::Query, &trade, reply);
        assert!(matches!(answer.no_answer(), Some(NoAnswer::Unknown(_))), "{body}: {answer:?}");
    }
    let fact =
        Reply { status: 200, retry_after_ms: None, body: br#"["NOT_DONE",null,"1","renew","card-77"]"# };
    let answer = classify::fact(&target(USER, SCENE, KEY), fact);
    assert_eq!(answer.no_answer(), Some(NoAnswer::Unknown(UnknownCause::Unparsable)));
}
