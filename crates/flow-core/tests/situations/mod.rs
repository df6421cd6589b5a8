//! Situations that a decision can be in, and words for what was decided. Shared by the decision suites.

#![allow(dead_code, reason = "each suite uses its own part")]

use chrono::{DateTime, TimeDelta, Utc};
use flow_core::answer::{
    ChargeAnswer, ErrorCode, ExecuteAnswer, FactAnswer, NoAnswer, Receipt, RefundAnswer, UnavailableCause,
    UnknownCause,
};
use flow_core::decide::{Decision, Evidence, Pace, Rules, Transition};
use flow_core::flow::{CancelRequest, Flow, Hold, HoldReason};
use flow_core::ids::OrderRef;
use flow_core::state::State;
use flow_testkit::clock::START_MS;
use flow_testkit::samples;

pub(crate) const SETTLE_MARGIN_MS: i64 = 30_000;
pub(crate) const GRACE_MS: i64 = 90_000;
pub(crate) const UNREADABLE_HOLD_MS: i64 = 300_000;
pub(crate) const TRIES_BEFORE_HOLD: u32 = 5;

/// Moments of a flow's life, in milliseconds after its creation.
pub(crate) const CANCEL_MS: i64 = 60_000;
pub(crate) const DEADLINE_MS: i64 = 600_000;
pub(crate) const LATE_ENTRY_MS: i64 = 700_000;

/// What decisions depend on, besides time and evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Situation {
    pub(crate) state: State,
    pub(crate) cancelled: bool,
    pub(crate) can_close: bool,
    pub(crate) tries_spent: bool,
    pub(crate) held: bool,
    /// The state was entered after the deadline and its settle margin.
    pub(crate) late_entry: bool,
}

impl Situation {
    pub(crate) const fn plain(state: State) -> Situation {
        Situation {
            state,
            cancelled: false,
            can_close: true,
            tries_spent: false,
            held: false,
            late_entry: false,
        }
    }

    pub(crate) fn flow(&self) -> Flow {
        let mut flow = samples::flow(1, self.state, created_at());
        flow.deadline = at(DEADLINE_MS);
        flow.state_entered_at = if self.late_entry { at(LATE_ENTRY_MS) } else { at(30_000) };
        flow.retry_count = if self.tries_spent { TRIES_BEFORE_HOLD } else { TRIES_BEFORE_HOLD - 1 };
        if self.cancelled {
            flow.cancel = Some(CancelRequest { at: at(CANCEL_MS), by: samples::actor("shop") });
        }
        if self.held {
            let by = samples::actor("alice");
            flow.hold = Some(Hold { reason: HoldReason::Operator, since: at(40_000), by });
        }
        flow
    }

    pub(crate) fn rules(&self) -> Rules {
        let ms = |ms: i64| u64::try_from(ms).expect("not negative");
        Rules {
            wallet_can_close: self.can_close,
            wallet_in_flight_grace_ms: ms(GRACE_MS),
            settle_margin_ms: ms(SETTLE_MARGIN_MS),
            business_unreadable_hold_ms: ms(UNREADABLE_HOLD_MS),
            refund_tries_before_hold: TRIES_BEFORE_HOLD,
        }
    }
}

pub(crate) fn created_at() -> DateTime<Utc> {
    DateTime::from_timestamp_millis(START_MS).expect("within the calendar")
}

pub(crate) fn at(ms: i64) -> DateTime<Utc> {
    created_at() + TimeDelta::milliseconds(ms)
}

pub(crate) fn code(text: &str) -> ErrorCode {
    ErrorCode::clean(text)
}

pub(crate) const UNAVAILABLE: NoAnswer =
    NoAnswer::Unavailable { cause: UnavailableCause::Throttled, retry_after_ms: Some(7_000) };
pub(crate) const UNKNOWN: NoAnswer = NoAnswer::Unknown(UnknownCause::TimedOut);

/// Every way to have no answer.
pub(crate) fn no_answers() -> Vec<NoAnswer> {
    use UnavailableCause::{BreakerOpen, BudgetSpent, NotConnected, Throttled};
    use UnknownCause::{ConnectionLost, ServerError, TimedOut, Unexpected, Unparsable, WrongOrder};
    let unavailable = [NotConnected, BreakerOpen, BudgetSpent, Throttled];
    let unknown = [TimedOut, ConnectionLost, ServerError, Unparsable, WrongOrder, Unexpected];
    let retry_after = [None, Some(0), Some(7_000)];
    let unavailable = unavailable
        .into_iter()
        .flat_map(|cause| retry_after.map(|retry_after_ms| NoAnswer::Unavailable { cause, retry_after_ms }));
    unavailable.chain(unknown.map(NoAnswer::Unknown)).collect()
}

/// The receipt that the sample flow asks for, and the three that it does not.
pub(crate) fn receipt() -> Receipt {
    samples::receipt_for(&samples::flow(1, State::Paying, created_at()))
}

pub(crate) fn wrong_receipts() -> [(&'static str, Receipt); 3] {
    let right = receipt();
    [
        ("wrong user", Receipt { user_id: samples::user(2), ..right.clone() }),
        ("wrong currency", Receipt { money: samples::money(100, "JPY"), ..right.clone() }),
        ("wrong amount", Receipt { money: samples::cny(99), ..right }),
    ]
}

/// Every class of answer about a charge, with its name.
pub(crate) fn charge_answers() -> Vec<(String, ChargeAnswer)> {
    let mut answers = vec![("SUCCESS".to_owned(), ChargeAnswer::Success(receipt()))];
    for (what, receipt) in wrong_receipts() {
        answers.push((format!("SUCCESS, {what}"), ChargeAnswer::Success(receipt)));
    }
    let rest = [
        ("REJECTED", ChargeAnswer::Rejected(code("NO_FUNDS"))),
        ("CLOSED", ChargeAnswer::Closed),
        ("PROCESSING", ChargeAnswer::Processing),
        ("NOT_FOUND", ChargeAnswer::NotFound),
        ("CONFLICT", ChargeAnswer::Conflict),
        ("UNSUPPORTED", ChargeAnswer::Unsupported),
        ("unavailable", ChargeAnswer::None(UNAVAILABLE)),
        ("unknown", ChargeAnswer::None(UNKNOWN)),
    ];
    answers.extend(rest.map(|(name, answer)| (name.to_owned(), answer)));
    answers
}

/// Every class of answer about a refund, with its name.
pub(crate) fn refund_answers() -> Vec<(String, RefundAnswer)> {
    let mut answers = vec![("SUCCESS".to_owned(), RefundAnswer::Success(receipt()))];
    for (what, receipt) in wrong_receipts() {
        answers.push((format!("SUCCESS, {what}"), RefundAnswer::Success(receipt)));
    }
    let rest = [
        ("REJECTED", RefundAnswer::Rejected(code("ACCOUNT_CLOSED"))),
        ("PROCESSING", RefundAnswer::Processing),
        ("NOT_FOUND", RefundAnswer::NotFound),
        ("CONFLICT", RefundAnswer::Conflict),
        ("unavailable", RefundAnswer::None(UNAVAILABLE)),
        ("unknown", RefundAnswer::None(UNKNOWN)),
    ];
    answers.extend(rest.map(|(name, answer)| (name.to_owned(), answer)));
    answers
}

/// Every class of answer to an execution, and none at all.
pub(crate) fn executions() -> [(&'static str, Option<ExecuteAnswer>); 7] {
    [
        ("not sent", None),
        ("DONE", Some(ExecuteAnswer::Done)),
        ("PROCESSING", Some(ExecuteAnswer::Processing)),
        ("REJECTED", Some(ExecuteAnswer::Rejected(code("TASK_CLOSED")))),
        ("CONFLICT", Some(ExecuteAnswer::Conflict)),
        ("unavailable", Some(ExecuteAnswer::None(UNAVAILABLE))),
        ("unknown", Some(ExecuteAnswer::None(UNKNOWN))),
    ]
}

pub(crate) fn owned_by(order: &str) -> FactAnswer {
    FactAnswer::Done { owner: OrderRef::new(order).expect("a valid order number") }
}

/// Owned by the sample flow's own order.
pub(crate) fn owned_by_us() -> FactAnswer {
    owned_by(samples::flow(1, State::Payed, created_at()).trade_order_no.as_str())
}

/// Every class of business fact.
pub(crate) fn facts() -> [(&'static str, FactAnswer); 6] {
    [
        ("DONE by us", owned_by_us()),
        ("DONE by another", owned_by("h2r_1_zz")),
        ("NOT_DONE", FactAnswer::NotDone),
        ("CONTRADICTION", FactAnswer::Contradiction),
        ("unavailable", FactAnswer::None(UNAVAILABLE)),
        ("unknown", FactAnswer::None(UNKNOWN)),
    ]
}

/// Every class of evidence there is, with its name.
pub(crate) fn all_evidence() -> Vec<(String, Evidence)> {
    let mut all = vec![("entering".to_owned(), Evidence::Entering)];
    for (name, answer) in charge_answers() {
        all.push((format!("debit: {name}"), Evidence::Debit(answer.clone())));
        all.push((format!("query: {name}"), Evidence::ChargeQuery(answer.clone())));
        all.push((format!("close: {name}"), Evidence::Close(answer)));
    }
    for (fact_name, fact) in facts() {
        for (executed_name, executed) in executions() {
            let name = format!("fact: {fact_name}; execute: {executed_name}");
            all.push((name, Evidence::Business { executed, fact: fact.clone() }));
        }
    }
    for (name, answer) in refund_answers() {
        all.push((format!("refund: {name}"), Evidence::Refund(answer.clone())));
        all.push((format!("refund query: {name}"), Evidence::RefundQuery(answer)));
    }
    all
}

/// A decision in one line; moments by name.
pub(crate) fn told(decision: &Decision, name_of: impl Fn(DateTime<Utc>) -> String) -> String {
    match decision {
        Decision::Move(transition) => {
            let to = transition.edge().to();
            match transition {
                Transition::EnterPaying | Transition::ConfirmBusiness => format!("MOVE {to}"),
                Transition::ConfirmPayment(_) | Transition::ConfirmRefund(_) => {
                    format!("MOVE {to} with the receipt")
                }
                Transition::FailPayment(code) => format!("MOVE {to} ({code})"),
                Transition::DecideRefund(reason) => format!("MOVE {to} ({})", reason.as_str()),
            }
        }
        Decision::Stay { pace, code, wake_by } => {
            let pace = match pace {
                Pace::Counted => "counted".to_owned(),
                Pace::Postponed { retry_after_ms: Some(ms) } => format!("postponed {ms} ms"),
                Pace::Postponed { retry_after_ms: None } => "postponed".to_owned(),
            };
            let wake_by = wake_by.map_or_else(String::new, |moment| format!(", wake by {}", name_of(moment)));
            format!("stay {code}, {pace}{wake_by}")
        }
        Decision::Leave { retry_after_ms: Some(ms) } => format!("leave as it is for {ms} ms"),
        Decision::Leave { retry_after_ms: None } => "leave as it is".to_owned(),
        Decision::Follow(action) => format!("at once {}", action.as_str()),
        Decision::Hold(reason) => format!("HOLD {}", reason.as_str()),
        Decision::Reload => "reload".to_owned(),
    }
}
