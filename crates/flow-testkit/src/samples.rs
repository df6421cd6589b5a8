//! Valid values to start from. Everything is derived from small numbers, so that a failing test reads well.

use chrono::{DateTime, TimeDelta, Utc};
use flow_core::answer::Receipt;
use flow_core::create::PaymentRequest;
use flow_core::flow::Flow;
use flow_core::ids::{
    Actor, AttemptNo, BizKey, CallerId, DownstreamName, DownstreamRef, Fingerprint, FlowId, IdempotencyKey,
    RefundOrderNo, Scene, Target, TradeOrderNo, UserId, Version,
};
use flow_core::money::{Currency, Money};
use flow_core::ports::{ChargeOrder, Execution, NewFlow, RefundOrder};
use flow_core::state::State;

const VALID: &str = "samples are valid by construction";

/// A user.
pub fn user(number: i64) -> UserId {
    UserId::new(number).expect(VALID)
}

/// A flow id.
pub fn flow_id(number: i64) -> FlowId {
    FlowId::new(number).expect(VALID)
}

/// The sample caller, `shop`.
pub fn caller() -> CallerId {
    caller_named("shop")
}

/// A caller.
pub fn caller_named(name: &str) -> CallerId {
    CallerId::new(name).expect(VALID)
}

/// A request key.
pub fn key(text: &str) -> IdempotencyKey {
    IdempotencyKey::new(text).expect(VALID)
}

/// A person.
pub fn actor(name: &str) -> Actor {
    Actor::new(name).expect(VALID)
}

/// A downstream's own reference.
pub fn reference(text: &str) -> DownstreamRef {
    DownstreamRef::new(text).expect(VALID)
}

/// An amount of `CNY`.
pub fn cny(amount: i64) -> Money {
    money(amount, "CNY")
}

/// An amount.
pub fn money(amount: i64, currency: &str) -> Money {
    Money::new(amount, Currency::new(currency).expect(VALID)).expect(VALID)
}

/// The wallet's name on every sample.
pub fn wallet_name() -> DownstreamName {
    DownstreamName::new("wallet").expect(VALID)
}

/// The business system's name on every sample.
pub fn business_name() -> DownstreamName {
    DownstreamName::new("business").expect(VALID)
}

/// A target of this user in the scene `renew`.
pub fn target(user_number: i64, biz_key: &str) -> Target {
    Target {
        user_id: user(user_number),
        scene: Scene::new("renew").expect(VALID),
        biz_key: BizKey::new(biz_key).expect(VALID),
    }
}

/// A first attempt to create: 100 CNY, its own key and target by number, due at once.
pub fn new_flow(number: i64, deadline: DateTime<Utc>) -> NewFlow {
    NewFlow {
        target: target(number, &format!("R:{number}")),
        attempt_no: AttemptNo::FIRST,
        money: cny(100),
        deadline,
        wallet: wallet_name(),
        business: business_name(),
        context: Some(format!("{{\"round\":{number}}}")),
        caller: caller(),
        key: key(&format!("key-{number}")),
        fingerprint: Fingerprint::of(&[b"sample", &number.to_be_bytes()]),
        trace_id: None,
        first_due_in_ms: 0,
    }
}

/// A request for what [`new_flow`] of the same number creates, with a horizon of one day.
pub fn request(number: i64, deadline: DateTime<Utc>) -> PaymentRequest {
    let new = new_flow(number, deadline);
    PaymentRequest {
        caller: new.caller,
        key: new.key,
        fingerprint: new.fingerprint,
        target: new.target,
        money: new.money,
        deadline: new.deadline,
        deadline_horizon_ms: 24 * 60 * 60 * 1000,
        wallet: new.wallet,
        business: new.business,
        context: new.context,
        trace_id: new.trace_id,
        first_due_in_ms: new.first_due_in_ms,
    }
}

/// A row in this state as nothing in particular left it: created at `created_at`, deadline ten minutes later.
pub fn flow(number: i64, state: State, created_at: DateTime<Utc>) -> Flow {
    let new = new_flow(number, created_at + TimeDelta::minutes(10));
    let id = flow_id(number);
    let trade_order_no = TradeOrderNo::derive(new.target.user_id, id);
    Flow {
        id,
        refund_order_no: RefundOrderNo::derive(&trade_order_no),
        trade_order_no,
        target: new.target,
        attempt_no: new.attempt_no,
        state,
        version: Version::FIRST,
        money: new.money,
        deadline: new.deadline,
        wallet: new.wallet,
        business: new.business,
        context: new.context,
        caller: new.caller,
        next_retry_time: created_at,
        retry_count: 0,
        last_error_code: None,
        channel_request_id: None,
        cancel: None,
        hold: None,
        refund: None,
        wallet_pay_txn: None,
        wallet_refund_txn: None,
        paid_at: None,
        finished_at: None,
        state_entered_at: created_at,
        created_at,
        updated_at: created_at,
    }
}

/// The receipt of exactly what the flow asked for.
pub fn receipt_for(flow: &Flow) -> Receipt {
    Receipt {
        user_id: flow.target.user_id,
        money: flow.money.clone(),
        transaction: Some(reference("txn-1")),
        at: Some(flow.created_at),
    }
}

/// The charge that a flow asks for.
pub fn charge_order(flow: &Flow) -> ChargeOrder {
    ChargeOrder {
        trade_order_no: flow.trade_order_no.clone(),
        user_id: flow.target.user_id,
        money: flow.money.clone(),
        not_after: flow.deadline,
    }
}

/// The refund that a flow asks for.
pub fn refund_order(flow: &Flow) -> RefundOrder {
    RefundOrder {
        refund_order_no: flow.refund_order_no.clone(),
        trade_order_no: flow.trade_order_no.clone(),
        user_id: flow.target.user_id,
        money: flow.money.clone(),
        reason: flow_core::flow::RefundReason::DeadlinePassed,
    }
}

/// The execution that a flow asks for.
pub fn execution(flow: &Flow) -> Execution {
    Execution {
        trade_order_no: flow.trade_order_no.clone(),
        target: flow.target.clone(),
        not_after: flow.deadline,
        context: flow.context.clone(),
    }
}
