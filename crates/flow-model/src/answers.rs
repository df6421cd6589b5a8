//! Answers of wallet and business as small values, and what they are to the decisions.

use flow_core::answer::{
    ChargeAnswer, ErrorCode, ExecuteAnswer, FactAnswer, NoAnswer, Receipt, RefundAnswer, UnavailableCause,
    UnknownCause,
};
use flow_core::decide::Evidence;
use flow_core::flow::Flow;
use flow_core::ids::OrderRef;
use flow_core::money::Money;
use flow_testkit::samples;

use crate::state::{Attempt, Owner};

/// Why nothing definite was heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Silence {
    /// Perhaps done.
    Unknown,
    /// Surely not done.
    Unavailable,
}

/// To a debit, a query, a close.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Charge {
    /// Charged, over another amount if `wrong`.
    Success {
        /// Over another amount.
        wrong: bool,
    },
    /// Refused for ever.
    Rejected,
    /// Barred.
    Closed,
    /// Not decided.
    Processing,
    /// Unknown number.
    NotFound,
    /// The wallet does not offer this.
    Unsupported,
    /// Nothing.
    None(Silence),
}

/// To a refund or a query about one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refund {
    /// Paid back.
    Success,
    /// Not paid back, may be tried again.
    Rejected,
    /// Accepted.
    Processing,
    /// Unknown number.
    NotFound,
    /// Nothing.
    None(Silence),
}

/// To an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Execute {
    /// Done.
    Done,
    /// Accepted.
    Processing,
    /// Refused.
    Rejected,
    /// Nothing.
    None(Silence),
}

/// To the question for the fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fact {
    /// What the record says.
    Is(Owner),
    /// State and owner contradict each other.
    Contradiction,
    /// Nothing.
    None(Silence),
}

/// What an action brought to light.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Heard {
    /// Nobody was asked.
    Entering,
    /// Of a debit.
    Debit(Charge),
    /// Of a query.
    ChargeQuery(Charge),
    /// Of a close.
    Close(Charge),
    /// Of the business.
    Business {
        /// Of the execution, if there was one.
        executed: Option<Execute>,
        /// The fact.
        fact: Fact,
    },
    /// Of a refund.
    Refund(Refund),
    /// Of a query about it.
    RefundQuery(Refund),
}

impl Silence {
    fn to_core(self) -> NoAnswer {
        match self {
            Silence::Unknown => NoAnswer::Unknown(UnknownCause::TimedOut),
            Silence::Unavailable => {
                NoAnswer::Unavailable { cause: UnavailableCause::BreakerOpen, retry_after_ms: None }
            }
        }
    }
}

impl Charge {
    fn to_core(self, flow: &Flow) -> ChargeAnswer {
        match self {
            Charge::Success { wrong } => ChargeAnswer::Success(receipt(flow, wrong)),
            Charge::Rejected => ChargeAnswer::Rejected(ErrorCode::clean("INSUFFICIENT_FUNDS")),
            Charge::Closed => ChargeAnswer::Closed,
            Charge::Processing => ChargeAnswer::Processing,
            Charge::NotFound => ChargeAnswer::NotFound,
            Charge::Unsupported => ChargeAnswer::Unsupported,
            Charge::None(silence) => ChargeAnswer::None(silence.to_core()),
        }
    }
}

impl Refund {
    fn to_core(self, flow: &Flow) -> RefundAnswer {
        match self {
            Refund::Success => RefundAnswer::Success(receipt(flow, false)),
            Refund::Rejected => RefundAnswer::Rejected(ErrorCode::clean("TRY_LATER")),
            Refund::Processing => RefundAnswer::Processing,
            Refund::NotFound => RefundAnswer::NotFound,
            Refund::None(silence) => RefundAnswer::None(silence.to_core()),
        }
    }
}

impl Execute {
    fn to_core(self) -> ExecuteAnswer {
        match self {
            Execute::Done => ExecuteAnswer::Done,
            Execute::Processing => ExecuteAnswer::Processing,
            Execute::Rejected => ExecuteAnswer::Rejected(ErrorCode::clean("REFUSED")),
            Execute::None(silence) => ExecuteAnswer::None(silence.to_core()),
        }
    }
}

impl Fact {
    fn to_core(self, number: impl Fn(Attempt) -> OrderRef) -> FactAnswer {
        match self {
            Fact::Is(Owner::Nobody) => FactAnswer::NotDone,
            Fact::Is(Owner::Attempt(attempt)) => FactAnswer::Done { owner: number(attempt) },
            Fact::Is(Owner::Rival) => {
                FactAnswer::Done { owner: OrderRef::new("a_rival_order").expect("a valid reference") }
            }
            Fact::Contradiction => FactAnswer::Contradiction,
            Fact::None(silence) => FactAnswer::None(silence.to_core()),
        }
    }
}

impl Heard {
    /// The evidence as the decisions take it. `number` gives the attempts' charge numbers.
    pub fn to_core(self, flow: &Flow, number: impl Fn(Attempt) -> OrderRef) -> Evidence {
        match self {
            Heard::Entering => Evidence::Entering,
            Heard::Debit(answer) => Evidence::Debit(answer.to_core(flow)),
            Heard::ChargeQuery(answer) => Evidence::ChargeQuery(answer.to_core(flow)),
            Heard::Close(answer) => Evidence::Close(answer.to_core(flow)),
            Heard::Business { executed, fact } => {
                Evidence::Business { executed: executed.map(Execute::to_core), fact: fact.to_core(number) }
            }
            Heard::Refund(answer) => Evidence::Refund(answer.to_core(flow)),
            Heard::RefundQuery(answer) => Evidence::RefundQuery(answer.to_core(flow)),
        }
    }
}

fn receipt(flow: &Flow, wrong: bool) -> Receipt {
    let mut receipt = samples::receipt_for(flow);
    if wrong {
        let currency = receipt.money.currency().clone();
        receipt.money = Money::new(receipt.money.amount() + 1, currency).expect("one more is valid");
    }
    receipt
}
