//! What an answer means: status and bytes in, a class out. Pure, total, and the only place that decides it.
//!
//! Definite is only what the contract says for *this* call, well-formed and about *this* number. Everything else is
//! [`NoAnswer::Unknown`], because a wrong "failed" loses money and a wrong "unknown" costs a query.

mod business;
mod wallet;

pub use business::{execution, fact};
pub use wallet::{ChargeCall, RefundCall, charge, refund};

use flow_core::answer::{NoAnswer, UnavailableCause, UnknownCause};

use crate::wire::{ErrorReply, from_json};

/// A complete answer, as it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply<'a> {
    /// The HTTP status.
    pub status: u16,
    /// `Retry-After`, in milliseconds.
    pub retry_after_ms: Option<u64>,
    /// The whole body.
    pub body: &'a [u8],
}

/// The refusals that the contracts define: a status and a code *together*. A proxy's 404 has no code and is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    OrderNotFound,
    RefundNotFound,
    OrderConflict,
    RefundConflict,
    OrderNotCharged,
    RefundExceedsCharge,
    CloseUnsupported,
    DeadlinePassed,
    OwnedByOther,
    ExecutionConflict,
}

impl Refusal {
    const ALL: [Refusal; 10] = [
        Refusal::OrderNotFound,
        Refusal::RefundNotFound,
        Refusal::OrderConflict,
        Refusal::RefundConflict,
        Refusal::OrderNotCharged,
        Refusal::RefundExceedsCharge,
        Refusal::CloseUnsupported,
        Refusal::DeadlinePassed,
        Refusal::OwnedByOther,
        Refusal::ExecutionConflict,
    ];

    const fn status_and_code(self) -> (u16, &'static str) {
        match self {
            Refusal::OrderNotFound => (404, "ORDER_NOT_FOUND"),
            Refusal::RefundNotFound => (404, "REFUND_NOT_FOUND"),
            Refusal::OrderConflict => (409, "ORDER_CONFLICT"),
            Refusal::RefundConflict => (409, "REFUND_CONFLICT"),
            Refusal::OrderNotCharged => (422, "ORDER_NOT_CHARGED"),
            Refusal::RefundExceedsCharge => (422, "REFUND_EXCEEDS_CHARGE"),
            Refusal::CloseUnsupported => (501, "CLOSE_UNSUPPORTED"),
            Refusal::DeadlinePassed => (409, "DEADLINE_PASSED"),
            Refusal::OwnedByOther => (409, "OWNED_BY_OTHER"),
            Refusal::ExecutionConflict => (409, "EXECUTION_CONFLICT"),
        }
    }

    fn code(self) -> &'static str {
        self.status_and_code().1
    }

    /// What this refusal is worth as an answer to a call that the contract does not give it for.
    fn out_of_place(self) -> NoAnswer {
        NoAnswer::Unknown(unknown_by_status(self.status_and_code().0))
    }
}

/// An answer, before it is known which call it answers.
enum Class<'a> {
    /// 200: the body decides.
    Answer(&'a [u8]),
    /// Refused by the contract's own words.
    Refused(Refusal),
    /// Nothing definite.
    None(NoAnswer),
}

/// 503 with this code promises that nothing was done; without it a 503 promises nothing.
const NOT_EXECUTED: (u16, &str) = (503, "NOT_EXECUTED");

fn class_of(reply: Reply<'_>) -> Class<'_> {
    let throttled =
        NoAnswer::Unavailable { cause: UnavailableCause::Throttled, retry_after_ms: reply.retry_after_ms };
    match reply.status {
        200 => return Class::Answer(reply.body),
        429 => return Class::None(throttled),
        _ => {}
    }
    let code = from_json::<ErrorReply<'_>>(reply.body).map(|error| error.code).unwrap_or_default();
    let said = (reply.status, code.as_ref());
    if said == NOT_EXECUTED {
        return Class::None(throttled);
    }
    match Refusal::ALL.into_iter().find(|refusal| refusal.status_and_code() == said) {
        Some(refusal) => Class::Refused(refusal),
        None => Class::None(NoAnswer::Unknown(unknown_by_status(reply.status))),
    }
}

const fn unknown_by_status(status: u16) -> UnknownCause {
    match status {
        500..=599 => UnknownCause::ServerError,
        _ => UnknownCause::Unexpected,
    }
}

const UNPARSABLE: NoAnswer = NoAnswer::Unknown(UnknownCause::Unparsable);
const WRONG_ORDER: NoAnswer = NoAnswer::Unknown(UnknownCause::WrongOrder);
