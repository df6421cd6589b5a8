//! The bodies of the two contracts, as they go over the wire.
//!
//! Received bodies are lenient to members they do not know, strict on what decides (status, numbers, owner, user,
//! target, money), and indifferent to what is evidence only (transaction, reason, time): an odd one is dropped.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use chrono::{DateTime, SecondsFormat, Utc};
use flow_core::answer::{ErrorCode, Receipt};
use flow_core::ids::{BizKey, DownstreamRef, RefundOrderNo, Scene, Target, TradeOrderNo, UserId};
use flow_core::money::{Currency, Money};
use serde::de::value::MapAccessDeserializer;
use serde::de::{IgnoredAny, IntoDeserializer as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// A time as both contracts write it: RFC 3339, UTC, milliseconds.
pub(crate) fn time_text(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// A received body, all of it: serde alone would let bytes that are no text pass in members it skips.
pub(crate) fn from_json<'b, T: Deserialize<'b>>(body: &'b [u8]) -> Option<T> {
    let Object(told) = serde_json::from_str(std::str::from_utf8(body).ok()?).ok()?;
    Some(told)
}

/// What must be written as an object: serde's derived readers take a list of the members' values as well, and the
/// contracts do not.
#[derive(Debug)]
struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Object<T>, D::Error> {
        deserializer.deserialize_map(ObjectVisitor(PhantomData))
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<Object<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(members)).map(Object)
    }
}

/// A word of an enumeration, which must be written as a string: serde's derived readers take `{"SUCCESS": null}` too.
fn word<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    T::deserialize(String::deserialize(deserializer)?.into_deserializer())
}

/// A request's body.
pub(crate) fn to_json(body: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(body).expect("texts and numbers under fixed keys always serialise")
}

#[derive(Debug, Serialize)]
pub(crate) struct DebitRequest<'a> {
    pub(crate) trade_order_no: &'a TradeOrderNo,
    pub(crate) user_id: UserId,
    pub(crate) money: &'a Money,
    pub(crate) not_after: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct RefundRequest<'a> {
    pub(crate) refund_order_no: &'a RefundOrderNo,
    pub(crate) trade_order_no: &'a TradeOrderNo,
    pub(crate) user_id: UserId,
    pub(crate) money: &'a Money,
    pub(crate) reason: &'static str,
}

#[derive(Debug, Serialize)]
pub(crate) struct ExecutionRequest<'a> {
    pub(crate) trade_order_no: &'a TradeOrderNo,
    pub(crate) user_id: UserId,
    pub(crate) scene: &'a Scene,
    pub(crate) biz_key: &'a BizKey,
    pub(crate) not_after: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) context: Option<&'a str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(crate) enum ChargeStatus {
    Success,
    Failed,
    Processing,
    Closed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(crate) enum RefundStatus {
    Success,
    Failed,
    Processing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(crate) enum BusinessStatus {
    Done,
    NotDone,
}

/// Money as received. Its own type: what the core's may hold is checked by [`Money::new`] alone.
#[derive(Debug, Deserialize)]
struct MoneyReply {
    amount: i64,
    currency: Currency,
}

/// What debits and refunds say about the movement of money.
#[derive(Debug)]
pub(crate) struct Movement {
    user_id: Option<UserId>,
    money: Option<Object<MoneyReply>>,
    transaction_id: Option<Value>,
    failure_code: Option<Value>,
    finished_at: Option<Value>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct DebitReply<'a> {
    #[serde(borrow)]
    pub(crate) trade_order_no: Cow<'a, str>,
    /// A refund names its charge too: its failure must not be read as the charge's.
    pub(crate) refund_order_no: Option<IgnoredAny>,
    #[serde(deserialize_with = "word")]
    pub(crate) status: ChargeStatus,
    user_id: Option<UserId>,
    money: Option<Object<MoneyReply>>,
    transaction_id: Option<Value>,
    failure_code: Option<Value>,
    finished_at: Option<Value>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct RefundReply<'a> {
    #[serde(borrow)]
    pub(crate) refund_order_no: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) trade_order_no: Cow<'a, str>,
    #[serde(deserialize_with = "word")]
    pub(crate) status: RefundStatus,
    user_id: Option<UserId>,
    money: Option<Object<MoneyReply>>,
    transaction_id: Option<Value>,
    failure_code: Option<Value>,
    finished_at: Option<Value>,
}

impl DebitReply<'_> {
    pub(crate) fn into_movement(self) -> Movement {
        let DebitReply { user_id, money, transaction_id, failure_code, finished_at, .. } = self;
        Movement { user_id, money, transaction_id, failure_code, finished_at }
    }
}

impl RefundReply<'_> {
    pub(crate) fn into_movement(self) -> Movement {
        let RefundReply { user_id, money, transaction_id, failure_code, finished_at, .. } = self;
        Movement { user_id, money, transaction_id, failure_code, finished_at }
    }
}

impl Movement {
    /// The receipt of a success; `None` if it does not say whose money moved and how much.
    pub(crate) fn receipt(self) -> Option<Receipt> {
        let Object(MoneyReply { amount, currency }) = self.money?;
        let text = |value: Option<Value>| value.as_ref().and_then(Value::as_str).map(str::to_owned);
        Some(Receipt {
            user_id: self.user_id?,
            money: Money::new(amount, currency).ok()?,
            transaction: text(self.transaction_id).and_then(|id| DownstreamRef::new(id).ok()),
            at: text(self.finished_at)
                .and_then(|at| DateTime::parse_from_rfc3339(&at).ok())
                .map(|at| at.with_timezone(&Utc)),
        })
    }

    /// The reason of a failure, made fit for its column.
    pub(crate) fn failure(&self) -> ErrorCode {
        ErrorCode::clean(self.failure_code.as_ref().and_then(Value::as_str).unwrap_or_default())
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct ExecutionReply {
    #[serde(deserialize_with = "word")]
    pub(crate) status: BusinessStatus,
    pub(crate) owner_order_no: Option<String>,
    refusal_code: Option<Value>,
}

impl ExecutionReply {
    pub(crate) fn refusal(&self) -> Option<ErrorCode> {
        self.refusal_code.as_ref().and_then(Value::as_str).map(ErrorCode::clean)
    }
}

/// A fact repeats its target: after the deadline a "not done" is answered with a refund, so one that was misrouted or
/// cached must not pass for ours. Texts here, not ids: another spelling of the user is another answer.
#[derive(Debug, Deserialize)]
pub(crate) struct FactReply<'a> {
    #[serde(deserialize_with = "word")]
    pub(crate) status: BusinessStatus,
    pub(crate) owner_order_no: Option<String>,
    #[serde(borrow)]
    user_id: Cow<'a, str>,
    #[serde(borrow)]
    scene: Cow<'a, str>,
    #[serde(borrow)]
    biz_key: Cow<'a, str>,
}

impl FactReply<'_> {
    pub(crate) fn is_about(&self, asked: &Target) -> bool {
        self.user_id == asked.user_id.to_string()
            && self.scene == asked.scene.as_str()
            && self.biz_key == asked.biz_key.as_str()
    }
}

/// An error's stable code; everything else in it is for people.
#[derive(Debug, Deserialize)]
pub(crate) struct ErrorReply<'a> {
    #[serde(borrow)]
    pub(crate) code: Cow<'a, str>,
}
