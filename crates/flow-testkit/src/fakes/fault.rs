//! What can go wrong with one call to the far side.

use flow_core::answer::{NoAnswer, UnavailableCause, UnknownCause};
use pay_sim::ledger::{Course, Deferral};

/// A call of the two ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Call {
    /// Take money.
    Debit,
    /// Ask about a charge.
    Query,
    /// Bar a charge.
    Close,
    /// Pay back.
    Refund,
    /// Ask about a refund.
    QueryRefund,
    /// Hand over the benefit.
    Execute,
    /// Ask for the business fact.
    Fact,
}

impl Call {
    /// All seven.
    pub const ALL: [Call; 7] =
        [Call::Debit, Call::Query, Call::Close, Call::Refund, Call::QueryRefund, Call::Execute, Call::Fact];
}

/// What goes wrong with one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Carried out, the answer is lost.
    DropAnswer(UnknownCause),
    /// The request is lost; the caller cannot tell.
    DropRequest(UnknownCause),
    /// The caller gives up; the network delivers the request at [`super::FakeWorld::deliver_late`]. A read is lost.
    Late(UnknownCause),
    /// Refused before anything was done, and the caller can tell.
    Unavailable {
        /// Why.
        cause: UnavailableCause,
        /// How long the refusing side asks to wait, in milliseconds.
        retry_after_ms: Option<u64>,
    },
    /// Accepted now, carried out later. A read is answered as if nothing were wrong.
    Defer(Deferral),
    /// Refused for good, with this code. A read is answered as if nothing were wrong.
    Refuse(String),
    /// Carried out, and answered with a lie.
    Lie(Lie),
}

/// A wrong answer after the call took effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lie {
    /// "Still working on it." A fact becomes `NotDone`.
    Processing,
    /// A success for another amount.
    WrongAmount,
    /// A success for another user.
    WrongUser,
    /// A success in another currency.
    WrongCurrency,
    /// "I know this number with other parameters." A fact becomes a contradiction.
    Conflict,
    /// "I have no such order", as a lagging replica answers.
    NotFound,
    /// A state and an owner that contradict each other; from a wallet, a conflict.
    Contradiction,
}

/// A fault, sorted by what it does to the world and to the caller.
pub(super) enum Path {
    /// Carried out this way; the answer arrives, perhaps as a lie.
    Through(Course, Option<Lie>),
    /// Carried out; the answer is lost.
    AnswerLost(NoAnswer),
    /// Not carried out now; delivered later.
    HeldBack(NoAnswer),
    /// Not carried out at all.
    NotSent(NoAnswer),
}

impl Path {
    pub(super) fn of(fault: Option<Fault>) -> Path {
        match fault {
            None => Path::Through(Course::Normal, None),
            Some(Fault::DropAnswer(cause)) => Path::AnswerLost(NoAnswer::Unknown(cause)),
            Some(Fault::DropRequest(cause)) => Path::NotSent(NoAnswer::Unknown(cause)),
            Some(Fault::Late(cause)) => Path::HeldBack(NoAnswer::Unknown(cause)),
            Some(Fault::Unavailable { cause, retry_after_ms }) => {
                Path::NotSent(NoAnswer::Unavailable { cause, retry_after_ms })
            }
            Some(Fault::Defer(deferral)) => Path::Through(Course::Defer(deferral), None),
            Some(Fault::Refuse(code)) => Path::Through(Course::Refuse { code }, None),
            Some(Fault::Lie(lie)) => Path::Through(Course::Normal, Some(lie)),
        }
    }
}
