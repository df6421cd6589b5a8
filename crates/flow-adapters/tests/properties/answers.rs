//! What may be concluded from a downstream's answer, told once more and independently of the product: a second reader of
//! the contracts. One statement for the property tests here and for the fuzz targets `wallet_answers` and
//! `business_answers`.

#![allow(clippy::unwrap_used, reason = "test code")]

use std::collections::BTreeMap;
use std::fmt;

use flow_adapters::classify::{self, ChargeCall, RefundCall, Reply};
use flow_core::answer::{
    ChargeAnswer, ErrorCode, ExecuteAnswer, FactAnswer, NoAnswer, Receipt, RefundAnswer,
};
use flow_core::ids::{BizKey, RefundOrderNo, Scene, Target, TradeOrderNo, UserId};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

/// The charge that is asked about.
pub(crate) const TRADE: &str = "h2r_1_a";
/// Its refund.
pub(crate) const REFUND: &str = "r_h2r_1_a";
/// The target that is asked about: user, scene, business key.
pub(crate) const TARGET: (&str, &str, &str) = ("1", "renew", "card-77");

/// A status on the first line, a body behind it: how the fuzz targets' inputs are written.
pub(crate) fn reply_in(input: &[u8]) -> (u16, &[u8]) {
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    let status =
        std::str::from_utf8(&input[..end]).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(200);
    (status, input.get(end + 1..).unwrap_or_default())
}

/// Checks every call to a wallet.
///
/// # Panics
/// More was concluded than the contract allows.
pub(crate) fn check_wallet(status: u16, body: &[u8]) {
    let trade = TradeOrderNo::try_from(TRADE.to_owned()).unwrap();
    let refund = RefundOrderNo::try_from(REFUND.to_owned()).unwrap();
    let reply = Reply { status, retry_after_ms: None, body };
    for call in [ChargeCall::Debit, ChargeCall::Query, ChargeCall::Close] {
        let answer = classify::charge(call, &trade, reply);
        let holds = charge_holds(call, &answer, status, body);
        assert!(holds, "{call:?} {}: {answer:?}", shown(status, body));
    }
    for call in [RefundCall::Refund, RefundCall::Query] {
        let answer = classify::refund(call, &refund, reply);
        let holds = refund_holds(call, &answer, status, body);
        assert!(holds, "{call:?} {}: {answer:?}", shown(status, body));
    }
}

/// Checks every call to a business system.
///
/// # Panics
/// More was concluded than the contract allows.
pub(crate) fn check_business(status: u16, body: &[u8]) {
    let trade = TradeOrderNo::try_from(TRADE.to_owned()).unwrap();
    let target = Target {
        user_id: UserId::try_from(TARGET.0.to_owned()).unwrap(),
        scene: Scene::new(TARGET.1).unwrap(),
        biz_key: BizKey::new(TARGET.2).unwrap(),
    };
    let reply = Reply { status, retry_after_ms: None, body };
    let executed = classify::execution(&trade, reply);
    assert!(execution_holds(&executed, status, body), "{}: {executed:?}", shown(status, body));
    let fact = classify::fact(&target, reply);
    assert!(fact_holds(&fact, status, body), "{}: {fact:?}", shown(status, body));
}

fn shown(status: u16, body: &[u8]) -> String {
    format!("{status} {:?}", String::from_utf8_lossy(body))
}

fn charge_holds(call: ChargeCall, answer: &ChargeAnswer, status: u16, body: &[u8]) -> bool {
    let refused = |wanted: ChargeCall, as_: (u16, &str)| call == wanted && refusal(status, body).is(as_);
    let said = |word: &str| {
        let told = Told::of(status, body, &["trade_order_no", "status"]);
        told.is("trade_order_no", TRADE) && told.is("status", word) && !told.has("refund_order_no")
    };
    match answer {
        ChargeAnswer::Success(receipt) => said("SUCCESS") && receipt_holds(receipt, status, body),
        ChargeAnswer::Rejected(code) => said("FAILED") && failure_holds(code, status, body),
        ChargeAnswer::Closed => said("CLOSED"),
        ChargeAnswer::Processing => said("PROCESSING"),
        ChargeAnswer::NotFound => refused(ChargeCall::Query, (404, "ORDER_NOT_FOUND")),
        ChargeAnswer::Conflict => refused(ChargeCall::Debit, (409, "ORDER_CONFLICT")),
        ChargeAnswer::Unsupported => refused(ChargeCall::Close, (501, "CLOSE_UNSUPPORTED")),
        ChargeAnswer::None(none) => none_holds(*none, status, body),
    }
}

fn refund_holds(call: RefundCall, answer: &RefundAnswer, status: u16, body: &[u8]) -> bool {
    let refused = |wanted: RefundCall, as_: (u16, &str)| call == wanted && refusal(status, body).is(as_);
    let said = |word: &str| {
        let told = Told::of(status, body, &["trade_order_no", "refund_order_no", "status"]);
        told.is("refund_order_no", REFUND) && told.is("trade_order_no", TRADE) && told.is("status", word)
    };
    match answer {
        RefundAnswer::Success(receipt) => said("SUCCESS") && receipt_holds(receipt, status, body),
        RefundAnswer::Rejected(code) => {
            let at_once = [(422, "ORDER_NOT_CHARGED"), (422, "REFUND_EXCEEDS_CHARGE")];
            at_once.into_iter().any(|as_| refused(RefundCall::Refund, as_) && code.as_str() == as_.1)
                || said("FAILED") && failure_holds(code, status, body)
        }
        RefundAnswer::Processing => said("PROCESSING"),
        RefundAnswer::NotFound => refused(RefundCall::Query, (404, "REFUND_NOT_FOUND")),
        RefundAnswer::Conflict => refused(RefundCall::Refund, (409, "REFUND_CONFLICT")),
        RefundAnswer::None(none) => none_holds(*none, status, body),
    }
}

fn execution_holds(answer: &ExecuteAnswer, status: u16, body: &[u8]) -> bool {
    let refused = |as_: (u16, &str)| refusal(status, body).is(as_);
    let told = Told::of(status, body, &["status", "owner_order_no", "refusal_code"]);
    match answer {
        ExecuteAnswer::Done => told.is("status", "DONE") && told.is("owner_order_no", TRADE),
        ExecuteAnswer::Processing => told.is("status", "NOT_DONE") && told.text("refusal_code").is_none(),
        ExecuteAnswer::Rejected(code) => {
            let at_once = [(409, "DEADLINE_PASSED"), (409, "OWNED_BY_OTHER")];
            let in_words = told.text("refusal_code").is_some_and(|text| ErrorCode::clean(text) == *code);
            at_once.into_iter().any(|as_| refused(as_) && code.as_str() == as_.1)
                || told.is("status", "NOT_DONE") && in_words
        }
        ExecuteAnswer::Conflict => refused((409, "EXECUTION_CONFLICT")),
        ExecuteAnswer::None(none) => none_holds(*none, status, body),
    }
}

fn fact_holds(answer: &FactAnswer, status: u16, body: &[u8]) -> bool {
    let told = Told::of(status, body, &["status", "owner_order_no", "user_id", "scene", "biz_key"]);
    let ours = told.is("user_id", TARGET.0) && told.is("scene", TARGET.1) && told.is("biz_key", TARGET.2);
    let (done, owner) = (told.is("status", "DONE"), told.text("owner_order_no"));
    let either = done || told.is("status", "NOT_DONE");
    match answer {
        FactAnswer::Done { owner: named } => ours && done && owner == Some(named.as_str()),
        FactAnswer::NotDone => ours && either && !done && owner.is_none(),
        FactAnswer::Contradiction => ours && either && done == owner.is_none(),
        FactAnswer::None(none) => none_holds(*none, status, body),
    }
}

fn receipt_holds(receipt: &Receipt, status: u16, body: &[u8]) -> bool {
    let told = Told::of(status, body, &["user_id", "transaction_id", "finished_at"]);
    let money = told.money.as_ref();
    let amount = money.and_then(|money| money.members.get("amount")?.as_i64());
    let transaction = receipt.transaction.as_ref().map(|id| id.as_str());
    told.is("user_id", &receipt.user_id.to_string())
        && amount == Some(receipt.money.amount())
        && money.is_some_and(|money| money.is("currency", receipt.money.currency().as_str()))
        && (transaction.is_none() || transaction == told.text("transaction_id"))
        && (receipt.at.is_none() || told.text("finished_at").is_some())
}

fn failure_holds(code: &ErrorCode, status: u16, body: &[u8]) -> bool {
    let told = Told::of(status, body, &["failure_code"]);
    *code == ErrorCode::clean(told.text("failure_code").unwrap_or_default())
}

/// "Surely not executed" is a strong word, too.
fn none_holds(none: NoAnswer, status: u16, body: &[u8]) -> bool {
    match none {
        NoAnswer::Unavailable { .. } => status == 429 || refusal(status, body).is((503, "NOT_EXECUTED")),
        NoAnswer::Unknown(_) => true,
    }
}

/// What an answer that is no 200 says.
struct Refused(Option<(u16, String)>);

impl Refused {
    fn is(&self, as_: (u16, &str)) -> bool {
        self.0.as_ref().is_some_and(|(status, code)| (*status, code.as_str()) == as_)
    }
}

fn refusal(status: u16, body: &[u8]) -> Refused {
    let read = (status != 200).then(|| read(body, &["code"])).flatten();
    Refused(read.and_then(|told| Some((status, told.text("code")?.to_owned()))))
}

/// Some members of an object.
#[derive(Default)]
struct Told {
    members: BTreeMap<String, Value>,
    money: Option<Box<Told>>,
    names: Vec<String>,
}

impl Told {
    /// What a 200 tells of these members; nothing if it is no JSON object in UTF-8, or tells one of them twice.
    fn of(status: u16, body: &[u8], members: &'static [&'static str]) -> Told {
        if status == 200 { read(body, members).unwrap_or_default() } else { Told::default() }
    }

    fn text(&self, member: &str) -> Option<&str> {
        self.members.get(member)?.as_str()
    }

    fn is(&self, member: &str, text: &str) -> bool {
        self.text(member) == Some(text)
    }

    fn has(&self, member: &str) -> bool {
        self.names.iter().any(|name| name == member)
    }
}

/// Reads these members, and the money; the others need to be JSON and nothing more.
fn read(body: &[u8], members: &'static [&'static str]) -> Option<Told> {
    struct Members(&'static [&'static str]);

    impl<'de> serde::de::DeserializeSeed<'de> for Members {
        type Value = Told;
        fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Told, D::Error> {
            deserializer.deserialize_map(self)
        }
    }

    impl<'de> Visitor<'de> for Members {
        type Value = Told;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Told, A::Error> {
            let mut told = Told::default();
            while let Some(name) = entries.next_key::<String>()? {
                let twice = told.names.contains(&name);
                if self.0.contains(&name.as_str()) {
                    let value = entries.next_value()?;
                    // Told twice is told ambiguously.
                    told.members.insert(name.clone(), if twice { Value::Null } else { value });
                } else if name == "money" {
                    told.money = entries.next_value::<Option<Money>>()?.map(|Money(money)| Box::new(money));
                } else if !entries.next_value::<Option<IgnoredAny>>().map(|value| value.is_some())? {
                    // `null` is as good as absent.
                    continue;
                }
                told.names.push(name);
            }
            Ok(told)
        }
    }

    struct Money(Told);

    impl<'de> Deserialize<'de> for Money {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Money, D::Error> {
            deserializer.deserialize_map(Members(&["amount", "currency"])).map(Money)
        }
    }

    let text = std::str::from_utf8(body).ok()?;
    let mut json = serde_json::Deserializer::from_str(text);
    let told = serde::de::DeserializeSeed::deserialize(Members(members), &mut json).ok()?;
    json.end().ok()?;
    Some(told)
}
