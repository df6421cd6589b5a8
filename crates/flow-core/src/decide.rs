//! The heart: what to do next with a flow, and what an answer means for it.
//!
//! Two total functions, [`next_action`] and [`decide`], without IO, clock or randomness. Each is one `match` over
//! everything there is, so that a new state or a new answer does not compile until somebody has decided about it.
//! The shell (`advance`) performs the actions and writes the outcome by compare-and-swap; it decides nothing.
//!
//! Two rules run through all of it: only a definite answer moves money state, and no refund is decided while an
//! execution of this attempt can still succeed.

use chrono::{DateTime, TimeDelta, Utc};

use crate::answer::{
    ChargeAnswer, Classified as _, ErrorCode, ExecuteAnswer, FactAnswer, NoAnswer, Receipt, RefundAnswer,
};
use crate::flow::{Flow, HoldReason, RefundReason};
use crate::state::{Edge, State};

/// What of a flow's wallet and business system the decisions depend on. Durations in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// Whether the wallet can close an order so that a debit arriving later is refused.
    pub wallet_can_close: bool,
    /// For a wallet that cannot: how long after the last moment a debit may have been sent "no such order" becomes
    /// final. Must cover the longest time that a debit can be under way.
    pub wallet_in_flight_grace_ms: u64,
    /// How long after the deadline a refund waits: covers the clock skew between us and the business system.
    pub settle_margin_ms: u64,
    /// How long after that the business fact may stay unreadable before the flow is held.
    pub business_unreadable_hold_ms: u64,
    /// How many tries in `REFUNDING` a refusing wallet gets before the flow is held.
    pub refund_tries_before_hold: u32,
}

/// How this call came to the state that it finds the flow in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// This very call wrote the transition into the state: nobody can have acted on it before.
    JustEntered,
    /// The row was found so: somebody may have acted and died before writing the outcome.
    Found,
}

/// The one thing to do next. Each is idempotent by the flow's own numbers, or a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Nothing: the state is terminal.
    RestTerminal,
    /// Nothing: people hold the flow.
    RestHeld,
    /// Write `PAYING`, before the wallet hears of the payment.
    EnterPaying,
    /// Charge under `trade_order_no`.
    Debit,
    /// Ask the wallet about `trade_order_no`.
    QueryCharge,
    /// Have the wallet refuse `trade_order_no` from now on.
    CloseCharge,
    /// Hand over the benefit, not after the deadline; then read the fact, whatever the answer was.
    ExecuteThenReadFact,
    /// Read whether the benefit was handed over, and for whom.
    ReadFact,
    /// Pay back under `refund_order_no`.
    Refund,
    /// Ask the wallet about `refund_order_no`.
    QueryRefund,
}

impl Action {
    /// The spelling used in the audit log and in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Action::RestTerminal => "REST_TERMINAL",
            Action::RestHeld => "REST_HELD",
            Action::EnterPaying => "ENTER_PAYING",
            Action::Debit => "DEBIT",
            Action::QueryCharge => "QUERY_CHARGE",
            Action::CloseCharge => "CLOSE_CHARGE",
            Action::ExecuteThenReadFact => "EXECUTE",
            Action::ReadFact => "READ_FACT",
            Action::Refund => "REFUND",
            Action::QueryRefund => "QUERY_REFUND",
        }
    }
}

/// What an action brought to light.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Evidence {
    /// Nothing was called: the flow is about to enter `PAYING`.
    Entering,
    /// Answer to [`Action::Debit`].
    Debit(ChargeAnswer),
    /// Answer to [`Action::QueryCharge`].
    ChargeQuery(ChargeAnswer),
    /// Answer to [`Action::CloseCharge`].
    Close(ChargeAnswer),
    /// Answers to [`Action::ExecuteThenReadFact`] and [`Action::ReadFact`].
    Business {
        /// What the execution answered, if there was one.
        executed: Option<ExecuteAnswer>,
        /// What the business record says, read after that.
        fact: FactAnswer,
    },
    /// Answer to [`Action::Refund`].
    Refund(RefundAnswer),
    /// Answer to [`Action::QueryRefund`].
    RefundQuery(RefundAnswer),
}

impl Evidence {
    /// The class of the answer, as kept in the audit log and in metrics.
    pub fn label(&self) -> &'static str {
        match self {
            Evidence::Entering => "ENTERING",
            Evidence::Debit(answer) | Evidence::ChargeQuery(answer) | Evidence::Close(answer) => {
                answer.label()
            }
            Evidence::Business { executed: _, fact } => fact.label(),
            Evidence::Refund(answer) | Evidence::RefundQuery(answer) => answer.label(),
        }
    }
}

/// A state change with what it records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transition {
    /// `WAIT_PAY -> PAYING`.
    EnterPaying,
    /// `PAYING -> PAY_FAIL`, with the definite reason.
    FailPayment(ErrorCode),
    /// `PAYING -> PAYED`, with the wallet's receipt.
    ConfirmPayment(Receipt),
    /// `PAYED -> BIZ_SUCCESS`.
    ConfirmBusiness,
    /// `PAYED -> REFUNDING`, with the reason that is frozen.
    DecideRefund(RefundReason),
    /// `REFUNDING -> REFUNDED`, with the wallet's receipt.
    ConfirmRefund(Receipt),
}

impl Transition {
    /// The edge it takes.
    pub const fn edge(&self) -> Edge {
        match self {
            Transition::EnterPaying => Edge::EnterPaying,
            Transition::FailPayment(_) => Edge::PaymentFailed,
            Transition::ConfirmPayment(_) => Edge::PaymentConfirmed,
            Transition::ConfirmBusiness => Edge::BusinessConfirmed,
            Transition::DecideRefund(_) => Edge::RefundDecided,
            Transition::ConfirmRefund(_) => Edge::RefundConfirmed,
        }
    }
}

/// How the next try of a flow that stays is scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// By the state's retry schedule; this try counts.
    Counted,
    /// Surely nothing was executed: later, and this try does not count.
    Postponed {
        /// How long the refusing side asks us to wait, in milliseconds.
        retry_after_ms: Option<u64>,
    },
}

/// What an answer means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Change the state.
    Move(Transition),
    /// Leave the state; try again later.
    Stay {
        /// How the next try is scheduled.
        pace: Pace,
        /// Why it stays.
        code: ErrorCode,
        /// The schedule must not sleep through this moment: something changes then.
        wake_by: Option<DateTime<Utc>>,
    },
    /// Our own gate let no call out, so nothing happened: nothing is written, and the row stays as due as it was. The
    /// oldest due flow is then the first to be tried when the gate opens.
    Leave {
        /// When the gate may open, in milliseconds from now.
        retry_after_ms: Option<u64>,
    },
    /// The answer calls for one more action on the same row, at once.
    Follow(Action),
    /// Freeze the flow for people.
    Hold(HoldReason),
    /// The answer belongs to another state than the row is in: start over from a re-read.
    Reload,
}

fn after(moment: DateTime<Utc>, ms: u64) -> DateTime<Utc> {
    // A moment past the calendar's end never comes; configuration bounds every duration far below.
    let delta = i64::try_from(ms).ok().and_then(TimeDelta::try_milliseconds);
    delta.and_then(|delta| moment.checked_add_signed(delta)).unwrap_or(DateTime::<Utc>::MAX_UTC)
}

/// From when on no execution of this flow can succeed any more, so that a refund is safe.
///
/// A cancelled flow was never executed (see [`crate::flow::CancelRequest`]), so it need not wait.
pub fn refundable_from(flow: &Flow, rules: &Rules) -> DateTime<Utc> {
    match &flow.cancel {
        Some(cancel) => cancel.at,
        None => after(flow.deadline, rules.settle_margin_ms),
    }
}

/// The one thing to do next with a flow.
pub fn next_action(flow: &Flow, entry: Entry, now: DateTime<Utc>) -> Action {
    let held = flow.hold.is_some();
    let effects = flow.may_cause_effects(now);
    match (flow.state, held, entry, effects) {
        (
            State::PayFail | State::BizSuccess | State::Refunded,
            true | false,
            Entry::JustEntered | Entry::Found,
            true | false,
        ) => Action::RestTerminal,
        (
            State::WaitPay | State::Paying | State::Payed | State::Refunding,
            true,
            Entry::JustEntered | Entry::Found,
            true | false,
        ) => Action::RestHeld,
        (State::WaitPay, false, Entry::JustEntered | Entry::Found, true | false) => Action::EnterPaying,
        (State::Paying, false, Entry::JustEntered, true) => Action::Debit,
        (State::Paying, false, Entry::JustEntered, false)
        | (State::Paying, false, Entry::Found, true | false) => Action::QueryCharge,
        (State::Payed, false, Entry::JustEntered | Entry::Found, true) => Action::ExecuteThenReadFact,
        (State::Payed, false, Entry::JustEntered | Entry::Found, false) => Action::ReadFact,
        (State::Refunding, false, Entry::JustEntered, true | false) => Action::Refund,
        (State::Refunding, false, Entry::Found, true | false) => Action::QueryRefund,
    }
}

/// What the evidence means for the flow that it was gathered for.
///
/// `now` is the time *before* the question was sent: an answer tells how things were when it was given, not when it
/// was heard, and an answer that took its time must not be read together with a clock that has moved on. For an action
/// that followed a query it is the time before the query, because the query's answer is part of what is concluded.
pub fn decide(flow: &Flow, evidence: &Evidence, rules: &Rules, now: DateTime<Utc>) -> Decision {
    match (flow.state, evidence) {
        (State::WaitPay, Evidence::Entering) => Decision::Move(Transition::EnterPaying),
        (State::Paying, Evidence::Debit(answer)) => decide_charge(flow, answer, Asked::Debit, rules, now),
        (State::Paying, Evidence::ChargeQuery(answer)) => {
            decide_charge(flow, answer, Asked::Query, rules, now)
        }
        (State::Paying, Evidence::Close(answer)) => decide_charge(flow, answer, Asked::Close, rules, now),
        (State::Payed, Evidence::Business { executed, fact }) => {
            decide_business(flow, executed.as_ref(), fact, rules, now)
        }
        (State::Refunding, Evidence::Refund(answer)) => {
            decide_refund(flow, answer, RefundAsked::Refund, rules)
        }
        (State::Refunding, Evidence::RefundQuery(answer)) => {
            decide_refund(flow, answer, RefundAsked::Query, rules)
        }
        (State::PayFail | State::BizSuccess | State::Refunded, Evidence::Entering)
        | (State::Paying | State::Payed | State::Refunding, Evidence::Entering)
        | (
            State::WaitPay
            | State::Payed
            | State::Refunding
            | State::PayFail
            | State::BizSuccess
            | State::Refunded,
            Evidence::Debit(_) | Evidence::ChargeQuery(_) | Evidence::Close(_),
        )
        | (
            State::WaitPay
            | State::Paying
            | State::Refunding
            | State::PayFail
            | State::BizSuccess
            | State::Refunded,
            Evidence::Business { .. },
        )
        | (
            State::WaitPay
            | State::Paying
            | State::Payed
            | State::PayFail
            | State::BizSuccess
            | State::Refunded,
            Evidence::Refund(_) | Evidence::RefundQuery(_),
        ) => Decision::Reload,
    }
}

#[derive(Clone, Copy)]
enum Asked {
    Debit,
    Query,
    Close,
}

fn decide_charge(
    flow: &Flow,
    answer: &ChargeAnswer,
    asked: Asked,
    rules: &Rules,
    now: DateTime<Utc>,
) -> Decision {
    match (answer, asked) {
        (ChargeAnswer::Success(receipt), Asked::Debit | Asked::Query | Asked::Close) => {
            match receipt_mismatch(flow, receipt) {
                None => Decision::Move(Transition::ConfirmPayment(receipt.clone())),
                Some(reason) => Decision::Hold(reason),
            }
        }
        (ChargeAnswer::Rejected(code), Asked::Debit | Asked::Query | Asked::Close) => {
            Decision::Move(Transition::FailPayment(code.clone()))
        }
        (ChargeAnswer::Closed, Asked::Debit | Asked::Query | Asked::Close) => {
            Decision::Move(Transition::FailPayment(closed_code(flow)))
        }
        (ChargeAnswer::Conflict, Asked::Debit | Asked::Query | Asked::Close) => {
            Decision::Hold(HoldReason::WalletConflict)
        }
        (ChargeAnswer::Processing, Asked::Debit | Asked::Query | Asked::Close) => {
            stay(Pace::Counted, "WALLET.PROCESSING", None)
        }
        (ChargeAnswer::NotFound, Asked::Query) => decide_uncharged(flow, rules, now),
        (ChargeAnswer::NotFound | ChargeAnswer::Unsupported, Asked::Close) => {
            // The query of this same step found no order; a wallet that cannot bar it gets the grace instead.
            decide_grace(flow, rules, now)
        }
        (ChargeAnswer::NotFound | ChargeAnswer::Unsupported, Asked::Debit)
        | (ChargeAnswer::Unsupported, Asked::Query) => stay(Pace::Counted, "WALLET.UNEXPECTED", None),
        (ChargeAnswer::None(no_answer), Asked::Debit | Asked::Query | Asked::Close) => {
            stay_without(*no_answer, None)
        }
    }
}

/// The wallet has no such order. That is not a failure: a debit may be on its way, and until the deadline we want one.
fn decide_uncharged(flow: &Flow, rules: &Rules, now: DateTime<Utc>) -> Decision {
    match (flow.may_cause_effects(now), rules.wallet_can_close) {
        (true, true | false) => Decision::Follow(Action::Debit),
        (false, true) => Decision::Follow(Action::CloseCharge),
        (false, false) => decide_grace(flow, rules, now),
    }
}

fn decide_grace(flow: &Flow, rules: &Rules, now: DateTime<Utc>) -> Decision {
    // Counted from the deadline even for a cancelled flow: a caller that stalled before it could see the cancellation
    // may send its debit until then.
    let final_from = after(flow.deadline, rules.wallet_in_flight_grace_ms);
    if now >= final_from {
        Decision::Move(Transition::FailPayment(closed_code(flow)))
    } else {
        stay(Pace::Counted, "WALLET.NOT_FOUND", Some(final_from))
    }
}

fn closed_code(flow: &Flow) -> ErrorCode {
    match flow.cancel {
        Some(_) => ErrorCode::clean("CANCELLED"),
        None => ErrorCode::clean("NOT_CHARGED_IN_TIME"),
    }
}

fn decide_business(
    flow: &Flow,
    executed: Option<&ExecuteAnswer>,
    fact: &FactAnswer,
    rules: &Rules,
    now: DateTime<Utc>,
) -> Decision {
    match fact {
        FactAnswer::Done { owner } if owner.as_str() == flow.trade_order_no.as_str() => {
            Decision::Move(Transition::ConfirmBusiness)
        }
        FactAnswer::Done { owner: _ } => Decision::Move(Transition::DecideRefund(RefundReason::OwnedByOther)),
        FactAnswer::Contradiction => Decision::Hold(HoldReason::BusinessContradiction),
        FactAnswer::NotDone => decide_not_done(flow, executed, rules, now),
        FactAnswer::None(no_answer) => {
            let refundable = refundable_from(flow, rules);
            if now >= after(refundable.max(flow.state_entered_at), rules.business_unreadable_hold_ms) {
                Decision::Hold(HoldReason::BusinessUnreadable)
            } else if executed.is_some_and(ExecuteAnswer::may_have_acted) && no_answer.is_our_gates() {
                // An execution went out and its effect could not be read: that is a try, and it is written down.
                stay(Pace::Counted, no_answer.as_str(), future(refundable, now))
            } else {
                stay_without(*no_answer, future(refundable, now))
            }
        }
    }
}

fn decide_not_done(
    flow: &Flow,
    executed: Option<&ExecuteAnswer>,
    rules: &Rules,
    now: DateTime<Utc>,
) -> Decision {
    let refundable = refundable_from(flow, rules);
    if now >= refundable {
        let reason = match flow.cancel {
            Some(_) => RefundReason::Cancelled,
            None => RefundReason::DeadlinePassed,
        };
        return Decision::Move(Transition::DecideRefund(reason));
    }
    let wake_by = Some(refundable);
    match executed {
        Some(ExecuteAnswer::Conflict) => Decision::Hold(HoldReason::BusinessConflict),
        Some(ExecuteAnswer::Done) => stay(Pace::Counted, "BUSINESS.DONE_NOT_RECORDED", wake_by),
        Some(ExecuteAnswer::Processing) | None => stay(Pace::Counted, "BUSINESS.NOT_DONE", wake_by),
        Some(ExecuteAnswer::Rejected(code)) => {
            Decision::Stay { pace: Pace::Counted, code: code.clone(), wake_by }
        }
        Some(ExecuteAnswer::None(no_answer)) => stay_without(*no_answer, wake_by),
    }
}

#[derive(Clone, Copy)]
enum RefundAsked {
    Refund,
    Query,
}

fn decide_refund(flow: &Flow, answer: &RefundAnswer, asked: RefundAsked, rules: &Rules) -> Decision {
    let tries_left = flow.retry_count < rules.refund_tries_before_hold;
    match (answer, asked) {
        (RefundAnswer::Success(receipt), RefundAsked::Refund | RefundAsked::Query) => {
            match receipt_mismatch(flow, receipt) {
                None => Decision::Move(Transition::ConfirmRefund(receipt.clone())),
                Some(reason) => Decision::Hold(reason),
            }
        }
        (RefundAnswer::Rejected(code), RefundAsked::Refund) if tries_left => {
            Decision::Stay { pace: Pace::Counted, code: code.clone(), wake_by: None }
        }
        (RefundAnswer::Rejected(_), RefundAsked::Query) if tries_left => Decision::Follow(Action::Refund),
        (RefundAnswer::Rejected(_), RefundAsked::Refund | RefundAsked::Query) => {
            Decision::Hold(HoldReason::RefundRefused)
        }
        (RefundAnswer::Conflict, RefundAsked::Refund | RefundAsked::Query) => {
            Decision::Hold(HoldReason::WalletConflict)
        }
        (RefundAnswer::Processing, RefundAsked::Refund | RefundAsked::Query) => {
            stay(Pace::Counted, "WALLET.REFUND_PROCESSING", None)
        }
        (RefundAnswer::NotFound, RefundAsked::Query) => Decision::Follow(Action::Refund),
        (RefundAnswer::NotFound, RefundAsked::Refund) => stay(Pace::Counted, "WALLET.UNEXPECTED", None),
        (RefundAnswer::None(no_answer), RefundAsked::Refund | RefundAsked::Query) => {
            stay_without(*no_answer, None)
        }
    }
}

/// Money that moved otherwise than we asked is never a silent success.
fn receipt_mismatch(flow: &Flow, receipt: &Receipt) -> Option<HoldReason> {
    if receipt.user_id != flow.target.user_id {
        Some(HoldReason::UserMismatch)
    } else if receipt.money.currency() != flow.money.currency() {
        Some(HoldReason::CurrencyMismatch)
    } else if receipt.money.amount() != flow.money.amount() {
        Some(HoldReason::AmountMismatch)
    } else {
        None
    }
}

fn future(moment: DateTime<Utc>, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    (moment > now).then_some(moment)
}

fn stay(pace: Pace, code: &str, wake_by: Option<DateTime<Utc>>) -> Decision {
    Decision::Stay { pace, code: ErrorCode::clean(code), wake_by }
}

fn stay_without(no_answer: NoAnswer, wake_by: Option<DateTime<Utc>>) -> Decision {
    match no_answer {
        NoAnswer::Unavailable { cause, retry_after_ms } if cause.is_our_gates() => {
            Decision::Leave { retry_after_ms }
        }
        NoAnswer::Unavailable { cause: _, retry_after_ms } => {
            stay(Pace::Postponed { retry_after_ms }, no_answer.as_str(), wake_by)
        }
        NoAnswer::Unknown(_) => stay(Pace::Counted, no_answer.as_str(), wake_by),
    }
}
