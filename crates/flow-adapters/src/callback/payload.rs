//! What an event says: `contracts/callbacks.yaml`, as JSON or as the parameters of a form.

use flow_core::callback::{Claim, EventType};
use flow_core::ids::{EventId, RefundOrderNo, TradeOrderNo};
use flow_core::money::{Currency, Money};
use serde::Deserialize;

use super::Told;
use super::rsa_sha256::Form;

/// A signed body that is no event of the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the body is signed, and is no event of the contract: {field} is missing or is not of its form; nothing was kept"
)]
pub struct NotAnEvent {
    /// The offending member.
    pub field: &'static str,
}

const fn no(field: &'static str) -> NotAnEvent {
    NotAnEvent { field }
}

/// Members that are not known are ignored.
#[derive(Deserialize)]
struct EventBody {
    id: Option<String>,
    #[serde(rename = "type")]
    event_type: String,
    data: DataBody,
}

#[derive(Deserialize)]
struct DataBody {
    trade_order_no: String,
    refund_order_no: Option<String>,
    status: String,
    money: Option<MoneyBody>,
}

#[derive(Deserialize)]
struct MoneyBody {
    amount: i64,
    currency: String,
}

/// Reads JSON. `signed_id` is the event's id where the signature carries it; otherwise the body must.
pub(super) fn of_json(body: &[u8], signed_id: Option<EventId>) -> Result<Told, NotAnEvent> {
    let body: EventBody = serde_json::from_slice(body).map_err(|_| no("the body"))?;
    let event_id = match signed_id {
        Some(id) => id,
        None => id(body.id.as_deref())?,
    };
    let money = body.data.money.map(|money| (money.amount, money.currency));
    told(
        event_id,
        &body.event_type,
        body.data.trade_order_no,
        body.data.refund_order_no,
        &body.data.status,
        money,
    )
}

/// Reads the parameters of a form: the members of the JSON event and of its `data`, all on one level.
pub(super) fn of_form(form: &Form) -> Result<Told, NotAnEvent> {
    let text = |name: &'static str| form.get(name).map(String::as_str);
    let need = |name: &'static str| text(name).ok_or(no(name));
    let money = match (text("amount"), text("currency")) {
        (Some(amount), Some(currency)) => {
            let is_plain = amount.bytes().all(|b| b.is_ascii_digit());
            let amount = amount.parse::<i64>().ok().filter(|_| is_plain).ok_or(no("amount"))?;
            Some((amount, currency.to_owned()))
        }
        (None, None) => None,
        (Some(_), None) => return Err(no("currency")),
        (None, Some(_)) => return Err(no("amount")),
    };
    told(
        id(text("id"))?,
        need("type")?,
        need("trade_order_no")?.to_owned(),
        text("refund_order_no").map(ToOwned::to_owned),
        need("status")?,
        money,
    )
}

fn id(text: Option<&str>) -> Result<EventId, NotAnEvent> {
    text.and_then(|text| EventId::new(text).ok()).ok_or(no("id"))
}

fn told(
    event_id: EventId,
    event_type: &str,
    trade_order_no: String,
    refund_order_no: Option<String>,
    status: &str,
    money: Option<(i64, String)>,
) -> Result<Told, NotAnEvent> {
    let event_type = match event_type {
        "payment" => EventType::Payment,
        "refund" => EventType::Refund,
        _ => return Err(no("type")),
    };
    let claim = match (event_type, status) {
        (EventType::Payment | EventType::Refund, "SUCCESS") => Claim::Success,
        (EventType::Payment | EventType::Refund, "PROCESSING") => Claim::Processing,
        (EventType::Payment | EventType::Refund, "FAILED") | (EventType::Payment, "CLOSED") => Claim::Failed,
        (EventType::Payment | EventType::Refund, _) => return Err(no("data.status")),
    };
    let order_no = TradeOrderNo::try_from(trade_order_no).map_err(|_| no("data.trade_order_no"))?;
    let refund_is_its = match (event_type, refund_order_no) {
        (EventType::Payment, None) => true,
        (EventType::Refund, Some(number)) => number == RefundOrderNo::derive(&order_no).as_str(),
        (EventType::Payment, Some(_)) | (EventType::Refund, None) => false,
    };
    if !refund_is_its {
        return Err(no("data.refund_order_no"));
    }
    let money = match money {
        Some((amount, currency)) => {
            let currency = Currency::new(currency).map_err(|_| no("data.money.currency"))?;
            Some(Money::new(amount, currency).map_err(|_| no("data.money.amount"))?)
        }
        None => None,
    };
    Ok(Told { event_id, order_no, event_type, claim, money })
}
