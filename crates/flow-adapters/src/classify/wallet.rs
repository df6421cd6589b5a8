//! The wallet's answers.

use flow_core::answer::{ChargeAnswer, ErrorCode, RefundAnswer};
use flow_core::ids::{RefundOrderNo, TradeOrderNo};

use super::{Class, Refusal, Reply, UNPARSABLE, WRONG_ORDER, class_of};
use crate::wire::{ChargeStatus, DebitReply, RefundReply, RefundStatus, from_json};

/// The calls that are answered with a charge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChargeCall {
    /// `POST /wallet/v1/debits`
    Debit,
    /// `GET /wallet/v1/debits/{trade_order_no}`
    Query,
    /// `POST /wallet/v1/debits/{trade_order_no}/close`
    Close,
}

/// The calls that are answered with a refund.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefundCall {
    /// `POST /wallet/v1/refunds`
    Refund,
    /// `GET /wallet/v1/refunds/{refund_order_no}`
    Query,
}

/// What a wallet's reply says about the charge that was asked for.
pub fn charge(call: ChargeCall, asked: &TradeOrderNo, reply: Reply<'_>) -> ChargeAnswer {
    let refusal = match class_of(reply) {
        Class::Answer(body) => return charge_body(asked, body),
        Class::None(no_answer) => return ChargeAnswer::None(no_answer),
        Class::Refused(refusal) => refusal,
    };
    match (refusal, call) {
        (Refusal::OrderNotFound, ChargeCall::Query) => ChargeAnswer::NotFound,
        (Refusal::OrderConflict, ChargeCall::Debit) => ChargeAnswer::Conflict,
        (Refusal::CloseUnsupported, ChargeCall::Close) => ChargeAnswer::Unsupported,
        (
            Refusal::OrderNotFound
            | Refusal::OrderConflict
            | Refusal::CloseUnsupported
            | Refusal::RefundNotFound
            | Refusal::RefundConflict
            | Refusal::OrderNotCharged
            | Refusal::RefundExceedsCharge
            | Refusal::DeadlinePassed
            | Refusal::OwnedByOther
            | Refusal::ExecutionConflict,
            ChargeCall::Debit | ChargeCall::Query | ChargeCall::Close,
        ) => ChargeAnswer::None(refusal.out_of_place()),
    }
}

fn charge_body(asked: &TradeOrderNo, body: &[u8]) -> ChargeAnswer {
    let Some(reply) = from_json::<DebitReply<'_>>(body) else {
        return ChargeAnswer::None(UNPARSABLE);
    };
    if reply.trade_order_no != asked.as_str() || reply.refund_order_no.is_some() {
        return ChargeAnswer::None(WRONG_ORDER);
    }
    let status = reply.status;
    let movement = reply.into_movement();
    match status {
        // Money moved, but not for whom or how much: asking again is safe, taking it for a failure is not.
        ChargeStatus::Success => {
            movement.receipt().map_or(ChargeAnswer::None(UNPARSABLE), ChargeAnswer::Success)
        }
        ChargeStatus::Failed => ChargeAnswer::Rejected(movement.failure()),
        ChargeStatus::Processing => ChargeAnswer::Processing,
        ChargeStatus::Closed => ChargeAnswer::Closed,
    }
}

/// What a wallet's reply says about the refund that was asked for.
pub fn refund(call: RefundCall, asked: &RefundOrderNo, reply: Reply<'_>) -> RefundAnswer {
    let refusal = match class_of(reply) {
        Class::Answer(body) => return refund_body(asked, body),
        Class::None(no_answer) => return RefundAnswer::None(no_answer),
        Class::Refused(refusal) => refusal,
    };
    match (refusal, call) {
        (Refusal::RefundNotFound, RefundCall::Query) => RefundAnswer::NotFound,
        (Refusal::RefundConflict, RefundCall::Refund) => RefundAnswer::Conflict,
        (Refusal::OrderNotCharged | Refusal::RefundExceedsCharge, RefundCall::Refund) => {
            RefundAnswer::Rejected(ErrorCode::clean(refusal.code()))
        }
        (
            Refusal::RefundNotFound
            | Refusal::RefundConflict
            | Refusal::OrderNotCharged
            | Refusal::RefundExceedsCharge
            | Refusal::OrderNotFound
            | Refusal::OrderConflict
            | Refusal::CloseUnsupported
            | Refusal::DeadlinePassed
            | Refusal::OwnedByOther
            | Refusal::ExecutionConflict,
            RefundCall::Refund | RefundCall::Query,
        ) => RefundAnswer::None(refusal.out_of_place()),
    }
}

fn refund_body(asked: &RefundOrderNo, body: &[u8]) -> RefundAnswer {
    let Some(reply) = from_json::<RefundReply<'_>>(body) else {
        return RefundAnswer::None(UNPARSABLE);
    };
    let charge_of_asked = asked.trade_order_no();
    let is_its_charge = charge_of_asked.is_some_and(|charge| reply.trade_order_no == charge.as_str());
    if reply.refund_order_no != asked.as_str() || !is_its_charge {
        return RefundAnswer::None(WRONG_ORDER);
    }
    let status = reply.status;
    let movement = reply.into_movement();
    match status {
        RefundStatus::Success => {
            movement.receipt().map_or(RefundAnswer::None(UNPARSABLE), RefundAnswer::Success)
        }
        RefundStatus::Failed => RefundAnswer::Rejected(movement.failure()),
        RefundStatus::Processing => RefundAnswer::Processing,
    }
}
