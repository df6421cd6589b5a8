//! What downstream systems answered, classified once, at the adapter.
//!
//! Only a *definite* answer ever moves money state; everything that is not definite leaves the flow where it is.
//! Nothing here knows how an answer came over the wire.

use std::fmt;

use chrono::{DateTime, Utc};

use crate::ids::{DownstreamRef, OrderRef, UserId};
use crate::money::Money;

/// A short machine-readable reason, as stored in `last_error_code`: 1 to 64 of `A-Z a-z 0-9 _ . - :`.
///
/// A code that a downstream sent and that does not fit is cut and cleaned rather than refused: it is only evidence,
/// and an odd reason must not turn a definite answer into an unreadable one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ErrorCode(String);

impl ErrorCode {
    /// Longest code, in characters.
    pub const MAX_CHARS: usize = 64;

    /// Keeps what is allowed, replaces the rest by `_`, cuts to the column's length.
    pub fn clean(text: &str) -> ErrorCode {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | ':');
        let cleaned: String =
            text.chars().take(Self::MAX_CHARS).map(|c| if allowed(c) { c } else { '_' }).collect();
        ErrorCode(if cleaned.is_empty() { "UNSPECIFIED".to_owned() } else { cleaned })
    }

    /// The code.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a call was surely not executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UnavailableCause {
    /// No connection could be made, so nothing was sent.
    NotConnected,
    /// Our circuit breaker is open, so nothing was sent.
    BreakerOpen,
    /// Our own concurrency or rate budget is used up, so nothing was sent.
    BudgetSpent,
    /// The downstream refused for load (429, or 503 that promises that nothing was done).
    Throttled,
    /// This process has no downstream of the flow's name configured, so nothing was sent.
    NotConfigured,
}

/// Why the outcome of a call is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UnknownCause {
    /// No answer in time.
    TimedOut,
    /// The connection broke after the request may have left.
    ConnectionLost,
    /// The downstream answered that it failed (5xx).
    ServerError,
    /// An answer that is not of the contract.
    Unparsable,
    /// An answer about another order than the one that was asked for.
    WrongOrder,
    /// A status that the contract does not give for this call.
    Unexpected,
}

impl UnavailableCause {
    /// The code kept as evidence.
    pub const fn as_str(self) -> &'static str {
        match self {
            UnavailableCause::NotConnected => "UNAVAILABLE.NOT_CONNECTED",
            UnavailableCause::BreakerOpen => "UNAVAILABLE.BREAKER_OPEN",
            UnavailableCause::BudgetSpent => "UNAVAILABLE.BUDGET_SPENT",
            UnavailableCause::Throttled => "UNAVAILABLE.THROTTLED",
            UnavailableCause::NotConfigured => "UNAVAILABLE.NOT_CONFIGURED",
        }
    }

    /// Whether our own gate (breaker, budget) let the call not out: nothing happened at all, here or there.
    pub const fn is_our_gates(self) -> bool {
        match self {
            UnavailableCause::BreakerOpen | UnavailableCause::BudgetSpent => true,
            UnavailableCause::NotConnected
            | UnavailableCause::Throttled
            | UnavailableCause::NotConfigured => false,
        }
    }
}

impl UnknownCause {
    /// The code kept as evidence.
    pub const fn as_str(self) -> &'static str {
        match self {
            UnknownCause::TimedOut => "UNKNOWN.TIMED_OUT",
            UnknownCause::ConnectionLost => "UNKNOWN.CONNECTION_LOST",
            UnknownCause::ServerError => "UNKNOWN.SERVER_ERROR",
            UnknownCause::Unparsable => "UNKNOWN.UNPARSABLE",
            UnknownCause::WrongOrder => "UNKNOWN.WRONG_ORDER",
            UnknownCause::Unexpected => "UNKNOWN.UNEXPECTED",
        }
    }
}

/// Why there is no definite answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NoAnswer {
    /// Surely not executed.
    Unavailable {
        /// Why.
        cause: UnavailableCause,
        /// How long the refusing side asks us to wait, in milliseconds.
        retry_after_ms: Option<u64>,
    },
    /// Perhaps executed.
    Unknown(UnknownCause),
}

impl NoAnswer {
    /// The code kept as evidence.
    pub const fn as_str(self) -> &'static str {
        match self {
            NoAnswer::Unavailable { cause, .. } => cause.as_str(),
            NoAnswer::Unknown(cause) => cause.as_str(),
        }
    }

    /// See [`UnavailableCause::is_our_gates`].
    pub const fn is_our_gates(self) -> bool {
        match self {
            NoAnswer::Unavailable { cause, retry_after_ms: _ } => cause.is_our_gates(),
            NoAnswer::Unknown(_) => false,
        }
    }
}

/// A wallet's word that money moved: for whom, how much, under which transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// Whose balance moved.
    pub user_id: UserId,
    /// How much moved.
    pub money: Money,
    /// The wallet's transaction id.
    pub transaction: Option<DownstreamRef>,
    /// When, by the wallet's clock.
    pub at: Option<DateTime<Utc>>,
}

/// A wallet's answer about a charge, to a debit, a query or a close alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChargeAnswer {
    /// Charged.
    Success(Receipt),
    /// Definitely and for ever not charged under this number.
    Rejected(ErrorCode),
    /// Closed: not charged, and a debit that arrives later will be refused.
    Closed,
    /// The wallet knows the order and has not decided.
    Processing,
    /// The wallet has no such order. Not a failure: a debit may still be under way to it.
    NotFound,
    /// The wallet knows the number with another user, amount or currency.
    Conflict,
    /// The wallet does not offer this call (closing, for one).
    Unsupported,
    /// Nothing definite.
    None(NoAnswer),
}

/// A wallet's answer about a refund, to a refund or a query alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefundAnswer {
    /// Paid back.
    Success(Receipt),
    /// Definitely not paid back so far; the same number may be tried again.
    Rejected(ErrorCode),
    /// Accepted, not paid back yet.
    Processing,
    /// The wallet has no such refund.
    NotFound,
    /// The wallet knows the number with other parameters.
    Conflict,
    /// Nothing definite.
    None(NoAnswer),
}

/// A business system's answer to an execution. Evidence only: the *fact* decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecuteAnswer {
    /// Taken and, says the business, done.
    Done,
    /// Taken, not done yet.
    Processing,
    /// Definitely refused: deadline, task state, owner.
    Rejected(ErrorCode),
    /// The business knows the number with other parameters.
    Conflict,
    /// Nothing definite.
    None(NoAnswer),
}

/// What the business system's own record says about the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FactAnswer {
    /// The benefit was handed over, for this order.
    Done {
        /// The owning order.
        owner: OrderRef,
    },
    /// The benefit was not handed over.
    NotDone,
    /// State and owner contradict each other.
    Contradiction,
    /// Nothing definite.
    None(NoAnswer),
}

/// What the shell needs of every kind of answer: a word for the log, and whether there was one at all.
pub trait Classified {
    /// The class of the answer, as kept in the audit log and in metrics.
    fn label(&self) -> &'static str;
    /// Why there is nothing definite, if so.
    fn no_answer(&self) -> Option<NoAnswer>;
}

impl Classified for ChargeAnswer {
    fn label(&self) -> &'static str {
        match self {
            ChargeAnswer::Success(_) => "SUCCESS",
            ChargeAnswer::Rejected(_) => "REJECTED",
            ChargeAnswer::Closed => "CLOSED",
            ChargeAnswer::Processing => "PROCESSING",
            ChargeAnswer::NotFound => "NOT_FOUND",
            ChargeAnswer::Conflict => "CONFLICT",
            ChargeAnswer::Unsupported => "UNSUPPORTED",
            ChargeAnswer::None(no_answer) => no_answer.as_str(),
        }
    }

    fn no_answer(&self) -> Option<NoAnswer> {
        match self {
            ChargeAnswer::None(no_answer) => Some(*no_answer),
            ChargeAnswer::Success(_)
            | ChargeAnswer::Rejected(_)
            | ChargeAnswer::Closed
            | ChargeAnswer::Processing
            | ChargeAnswer::NotFound
            | ChargeAnswer::Conflict
            | ChargeAnswer::Unsupported => None,
        }
    }
}

impl Classified for RefundAnswer {
    fn label(&self) -> &'static str {
        match self {
            RefundAnswer::Success(_) => "SUCCESS",
            RefundAnswer::Rejected(_) => "REJECTED",
            RefundAnswer::Processing => "PROCESSING",
            RefundAnswer::NotFound => "NOT_FOUND",
            RefundAnswer::Conflict => "CONFLICT",
            RefundAnswer::None(no_answer) => no_answer.as_str(),
        }
    }

    fn no_answer(&self) -> Option<NoAnswer> {
        match self {
            RefundAnswer::None(no_answer) => Some(*no_answer),
            RefundAnswer::Success(_)
            | RefundAnswer::Rejected(_)
            | RefundAnswer::Processing
            | RefundAnswer::NotFound
            | RefundAnswer::Conflict => None,
        }
    }
}

impl ExecuteAnswer {
    /// Whether the business system may have acted on this execution.
    pub const fn may_have_acted(&self) -> bool {
        match self {
            ExecuteAnswer::Done
            | ExecuteAnswer::Processing
            | ExecuteAnswer::Rejected(_)
            | ExecuteAnswer::Conflict
            | ExecuteAnswer::None(NoAnswer::Unknown(_)) => true,
            ExecuteAnswer::None(NoAnswer::Unavailable { .. }) => false,
        }
    }
}

impl Classified for ExecuteAnswer {
    fn label(&self) -> &'static str {
        match self {
            ExecuteAnswer::Done => "DONE",
            ExecuteAnswer::Processing => "PROCESSING",
            ExecuteAnswer::Rejected(_) => "REJECTED",
            ExecuteAnswer::Conflict => "CONFLICT",
            ExecuteAnswer::None(no_answer) => no_answer.as_str(),
        }
    }

    fn no_answer(&self) -> Option<NoAnswer> {
        match self {
            ExecuteAnswer::None(no_answer) => Some(*no_answer),
            ExecuteAnswer::Done
            | ExecuteAnswer::Processing
            | ExecuteAnswer::Rejected(_)
            | ExecuteAnswer::Conflict => None,
        }
    }
}

impl Classified for FactAnswer {
    fn label(&self) -> &'static str {
        match self {
            FactAnswer::Done { .. } => "DONE",
            FactAnswer::NotDone => "NOT_DONE",
            FactAnswer::Contradiction => "CONTRADICTION",
            FactAnswer::None(no_answer) => no_answer.as_str(),
        }
    }

    fn no_answer(&self) -> Option<NoAnswer> {
        match self {
            FactAnswer::None(no_answer) => Some(*no_answer),
            FactAnswer::Done { .. } | FactAnswer::NotDone | FactAnswer::Contradiction => None,
        }
    }
}

/// An answer with the downstream's own id of the request, for the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered<A> {
    /// The classified answer.
    pub answer: A,
    /// The downstream's request id.
    pub request_id: Option<DownstreamRef>,
}

impl<A> Answered<A> {
    /// An answer without a request id: the call never got as far as having one.
    pub const fn bare(answer: A) -> Answered<A> {
        Answered { answer, request_id: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_codes_are_cleaned_not_refused() {
        assert_eq!(ErrorCode::clean("INSUFFICIENT_FUNDS").as_str(), "INSUFFICIENT_FUNDS");
        assert_eq!(ErrorCode::clean("a b\n<c>").as_str(), "a_b__c_");
        assert_eq!(ErrorCode::clean("").as_str(), "UNSPECIFIED");
        assert_eq!(ErrorCode::clean(&"余额".repeat(100)).as_str(), "_".repeat(64));
    }
}
