//! What an event's claim means beside the flow as it is: one match over everything. Pure; moves nothing.

use super::event::{Claim, EventType, Statement};
use crate::flow::Flow;
use crate::state::State;

/// How a claim and a flow go together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The flow says the same, or is past it: nothing is left to do.
    Agrees,
    /// The flow is not there yet: the wallet's own record has not confirmed it.
    NotYet,
    /// The two exclude each other.
    Contradicts(Contradiction),
}

/// In which way a claim excludes what we know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Contradiction {
    /// Another amount than ours.
    OtherAmount,
    /// Another currency than ours.
    OtherCurrency,
    /// Success of a charge that definitely failed.
    PaidThoughFailed,
    /// Success of a charge that was paid back.
    PaidThoughRefunded,
    /// Failure of a charge that was confirmed.
    FailedThoughPaid,
    /// Success of a refund that was never decided on.
    RefundedUnasked,
    /// Word of a refund under way, or failed, that was never decided on.
    RefundUnasked,
    /// The wallet's record and our row exclude each other.
    RowContradicted,
}

impl Contradiction {
    /// All of them.
    pub const ALL: [Contradiction; 8] = [
        Contradiction::OtherAmount,
        Contradiction::OtherCurrency,
        Contradiction::PaidThoughFailed,
        Contradiction::PaidThoughRefunded,
        Contradiction::FailedThoughPaid,
        Contradiction::RefundedUnasked,
        Contradiction::RefundUnasked,
        Contradiction::RowContradicted,
    ];

    /// The spelling used in the database, in logs and in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Contradiction::OtherAmount => "OTHER_AMOUNT",
            Contradiction::OtherCurrency => "OTHER_CURRENCY",
            Contradiction::PaidThoughFailed => "PAID_THOUGH_FAILED",
            Contradiction::PaidThoughRefunded => "PAID_THOUGH_REFUNDED",
            Contradiction::FailedThoughPaid => "FAILED_THOUGH_PAID",
            Contradiction::RefundedUnasked => "REFUNDED_UNASKED",
            Contradiction::RefundUnasked => "REFUND_UNASKED",
            Contradiction::RowContradicted => "ROW_CONTRADICTED",
        }
    }
}

/// Holds a claim against a flow.
pub fn judge(said: &Statement, flow: &Flow) -> Verdict {
    if let Some(money) = &said.money {
        if money.currency() != flow.money.currency() {
            return Verdict::Contradicts(Contradiction::OtherCurrency);
        }
        if money.amount() != flow.money.amount() {
            return Verdict::Contradicts(Contradiction::OtherAmount);
        }
    }
    let verdict = match said.event_type {
        EventType::Payment => of_payment(said.claim, flow.state),
        EventType::Refund => of_refund(said.claim, flow.state),
    };
    match verdict {
        // People decide on a held flow; the wallet is asked again when they release it.
        Verdict::NotYet if flow.hold.is_some() => Verdict::Agrees,
        verdict @ (Verdict::NotYet | Verdict::Agrees | Verdict::Contradicts(_)) => verdict,
    }
}

const fn of_payment(claim: Claim, state: State) -> Verdict {
    match (claim, state) {
        (Claim::Success, State::WaitPay | State::Paying) => Verdict::NotYet,
        (Claim::Success, State::Payed | State::BizSuccess | State::Refunding) => Verdict::Agrees,
        (Claim::Success, State::PayFail) => Verdict::Contradicts(Contradiction::PaidThoughFailed),
        (Claim::Success, State::Refunded) => Verdict::Contradicts(Contradiction::PaidThoughRefunded),
        (Claim::Failed, State::WaitPay | State::Paying) => Verdict::NotYet,
        (Claim::Failed, State::PayFail) => Verdict::Agrees,
        (Claim::Failed, State::Payed | State::BizSuccess | State::Refunding | State::Refunded) => {
            Verdict::Contradicts(Contradiction::FailedThoughPaid)
        }
        (
            Claim::Processing,
            State::WaitPay
            | State::Paying
            | State::PayFail
            | State::Payed
            | State::BizSuccess
            | State::Refunding
            | State::Refunded,
        ) => Verdict::Agrees,
    }
}

const fn of_refund(claim: Claim, state: State) -> Verdict {
    match (claim, state) {
        (Claim::Success, State::Refunding) => Verdict::NotYet,
        (Claim::Success, State::Refunded) => Verdict::Agrees,
        (
            Claim::Success,
            State::WaitPay | State::Paying | State::PayFail | State::Payed | State::BizSuccess,
        ) => Verdict::Contradicts(Contradiction::RefundedUnasked),
        // A refund that failed is tried again under the same number; a late word of it says nothing new.
        (Claim::Failed, State::Refunding | State::Refunded) => Verdict::Agrees,
        (
            Claim::Failed | Claim::Processing,
            State::WaitPay | State::Paying | State::PayFail | State::Payed | State::BizSuccess,
        ) => Verdict::Contradicts(Contradiction::RefundUnasked),
        (Claim::Processing, State::Refunding | State::Refunded) => Verdict::Agrees,
    }
}
