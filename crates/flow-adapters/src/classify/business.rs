//! The business system's answers.

use flow_core::answer::{ErrorCode, ExecuteAnswer, FactAnswer};
use flow_core::ids::{OrderRef, Target, TradeOrderNo};

use super::{Class, Refusal, Reply, UNPARSABLE, WRONG_ORDER, class_of};
use crate::wire::{BusinessStatus, ExecutionReply, FactReply, from_json};

/// What a reply to `POST /business/v1/executions` says. Evidence only: the fact is read next, whatever this is.
pub fn execution(asked: &TradeOrderNo, reply: Reply<'_>) -> ExecuteAnswer {
    match class_of(reply) {
        Class::Answer(body) => execution_body(asked, body),
        Class::None(no_answer) => ExecuteAnswer::None(no_answer),
        Class::Refused(refusal @ (Refusal::DeadlinePassed | Refusal::OwnedByOther)) => {
            ExecuteAnswer::Rejected(ErrorCode::clean(refusal.code()))
        }
        Class::Refused(Refusal::ExecutionConflict) => ExecuteAnswer::Conflict,
        Class::Refused(
            refusal @ (Refusal::OrderNotFound
            | Refusal::RefundNotFound
            | Refusal::OrderConflict
            | Refusal::RefundConflict
            | Refusal::OrderNotCharged
            | Refusal::RefundExceedsCharge
            | Refusal::CloseUnsupported),
        ) => ExecuteAnswer::None(refusal.out_of_place()),
    }
}

fn execution_body(asked: &TradeOrderNo, body: &[u8]) -> ExecuteAnswer {
    let Some(reply) = from_json::<ExecutionReply>(body) else {
        return ExecuteAnswer::None(UNPARSABLE);
    };
    match (reply.status, reply.owner_order_no.as_deref()) {
        (BusinessStatus::Done, Some(owner)) if owner == asked.as_str() => ExecuteAnswer::Done,
        (BusinessStatus::Done, Some(_)) => ExecuteAnswer::None(WRONG_ORDER),
        (BusinessStatus::Done, None) => ExecuteAnswer::None(UNPARSABLE),
        (BusinessStatus::NotDone, _) => {
            reply.refusal().map_or(ExecuteAnswer::Processing, ExecuteAnswer::Rejected)
        }
    }
}

/// What a reply to `GET /business/v1/facts` says: the word that decides between success and refund.
pub fn fact(asked: &Target, reply: Reply<'_>) -> FactAnswer {
    match class_of(reply) {
        Class::Answer(body) => fact_body(asked, body),
        Class::None(no_answer) => FactAnswer::None(no_answer),
        Class::Refused(refusal) => FactAnswer::None(refusal.out_of_place()),
    }
}

fn fact_body(asked: &Target, body: &[u8]) -> FactAnswer {
    let Some(reply) = from_json::<FactReply<'_>>(body) else {
        return FactAnswer::None(UNPARSABLE);
    };
    if !reply.is_about(asked) {
        return FactAnswer::None(WRONG_ORDER);
    }
    match (reply.status, reply.owner_order_no) {
        (BusinessStatus::Done, Some(owner)) => match OrderRef::new(owner) {
            Ok(owner) => FactAnswer::Done { owner },
            Err(_) => FactAnswer::None(UNPARSABLE),
        },
        (BusinessStatus::NotDone, None) => FactAnswer::NotDone,
        (BusinessStatus::Done, None) | (BusinessStatus::NotDone, Some(_)) => FactAnswer::Contradiction,
    }
}
