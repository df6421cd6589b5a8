//! What the wallet tells of, in the contract's words.

use serde_json::{Value, json};

use crate::ledger::{DebitStatus, DebitView, Money, RefundStatus, RefundView};
use crate::request::Answer;

/// One event. Repetitions of it are equal.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The wallet's own id of it.
    pub id: String,
    body: Value,
}

impl Event {
    /// What an answer is worth telling of; none for reads, refusals and orders that were never accepted.
    #[must_use]
    pub fn of(answer: &Answer) -> Option<Event> {
        match answer {
            Answer::Debit(Ok(view)) | Answer::Close(Ok(view)) => Event::of_debit(view),
            Answer::Refund(Ok(view)) => Event::of_refund(view),
            Answer::Debit(Err(_)) | Answer::Close(Err(_)) | Answer::Refund(Err(_)) => None,
            Answer::Query(_) | Answer::QueryRefund(_) | Answer::Execute(_) | Answer::Fact { .. } => None,
        }
    }

    /// How a charge stands.
    #[must_use]
    pub fn of_debit(view: &DebitView) -> Option<Event> {
        let status = match view.status {
            DebitStatus::Success => "SUCCESS",
            DebitStatus::Failed => "FAILED",
            DebitStatus::Closed => "CLOSED",
            DebitStatus::Processing => "PROCESSING",
        };
        let money = view.money.as_ref()?;
        let mut data = json!({ "trade_order_no": view.trade_order_no, "status": status });
        data["money"] = money_of(money);
        Some(Event::new("payment", &view.trade_order_no, status, data))
    }

    /// How a refund stands.
    #[must_use]
    pub fn of_refund(view: &RefundView) -> Option<Event> {
        let status = match view.status {
            RefundStatus::Success => "SUCCESS",
            RefundStatus::Failed => "FAILED",
            RefundStatus::Processing => "PROCESSING",
        };
        let data = json!({
            "trade_order_no": view.trade_order_no,
            "refund_order_no": view.refund_order_no,
            "status": status,
            "money": money_of(&view.money),
        });
        Some(Event::new("refund", &view.trade_order_no, status, data))
    }

    fn new(event_type: &str, order_no: &str, status: &str, data: Value) -> Event {
        let timestamp = chrono::DateTime::from_timestamp_millis(crate::sim::now_ms()).unwrap_or_default();
        let timestamp = timestamp.to_rfc3339_opts(chrono::SecondsFormat::Millis, true);
        let id = format!("{event_type}.{order_no}.{status}");
        let body = json!({ "id": id, "type": event_type, "timestamp": timestamp, "data": data });
        Event { id, body }
    }

    /// The same with a lie in it.
    #[must_use]
    pub(super) fn forged(mut self) -> Event {
        self.id.push_str(".forged");
        self.body["data"]["money"]["amount"] = json!(1);
        self
    }

    /// The bytes that are signed and sent.
    #[must_use]
    pub(super) fn body(&self) -> String {
        self.body.to_string()
    }
}

fn money_of(money: &Money) -> Value {
    json!({ "amount": money.amount, "currency": money.currency })
}
