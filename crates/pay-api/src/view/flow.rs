//! A flow as JSON. Ids are strings (they may exceed 2^53), money is an integer of minor units, times are RFC 3339 UTC.

use chrono::{DateTime, Utc};
use flow_core::flow::Flow;
use serde::Serialize;
use utoipa::ToSchema;

use crate::auth::Caller;
use crate::payment::MoneyBody;

/// One payment attempt.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Flow)]
pub struct FlowView {
    /// The flow's id.
    flow_id: String,
    /// The paying user.
    user_id: String,
    /// The kind of purchase.
    scene: String,
    /// The business goal.
    biz_key: String,
    /// Ordinal of the attempt at this goal, from 1.
    attempt_no: u32,
    /// What is charged.
    money: MoneyBody,
    /// What to show: `BIZ_SUCCESS`, `PAY_FAIL`, `PROCESSING`, `REFUNDED` or `MANUAL_REVIEW`.
    #[schema(pattern = "^(BIZ_SUCCESS|PAY_FAIL|PROCESSING|REFUNDED|MANUAL_REVIEW)$")]
    status: &'static str,
    /// The state behind it: `WAIT_PAY`, `PAYING`, `PAY_FAIL`, `PAYED`, `BIZ_SUCCESS`, `REFUNDING` or `REFUNDED`.
    #[schema(pattern = "^(WAIT_PAY|PAYING|PAY_FAIL|PAYED|BIZ_SUCCESS|REFUNDING|REFUNDED)$")]
    state: &'static str,
    /// Whether the state is final.
    terminal: bool,
    /// Why the payment failed or is paid back, where it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// Grows by one with every change.
    version: u64,
    /// The wallet's number for the charge.
    trade_order_no: String,
    /// The wallet's number for the refund, if it comes to one.
    refund_order_no: String,
    /// From this moment on nothing is started any more.
    deadline: DateTime<Utc>,
    /// When the flow was created.
    created_at: DateTime<Utc>,
    /// When it last changed.
    updated_at: DateTime<Utc>,
    /// When the present state was entered.
    state_entered_at: DateTime<Utc>,
    /// When the charge was confirmed.
    #[serde(skip_serializing_if = "Option::is_none")]
    paid_at: Option<DateTime<Utc>>,
    /// When a final state was entered.
    #[serde(skip_serializing_if = "Option::is_none")]
    finished_at: Option<DateTime<Utc>>,
    /// When cancelling was asked for, if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    cancel_requested_at: Option<DateTime<Utc>>,
    /// Ask again after so many milliseconds; absent when there is nothing to wait for.
    #[serde(skip_serializing_if = "Option::is_none")]
    poll_after_ms: Option<u64>,
    /// Stop asking at this moment; afterwards ask now and then. Absent when there is nothing to wait for.
    #[serde(skip_serializing_if = "Option::is_none")]
    poll_until: Option<DateTime<Utc>>,
    /// What only people on call and operators are shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    on_call: Option<OnCallView>,
}

/// What people need to judge a flow.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FlowOnCall)]
struct OnCallView {
    /// The application that asked.
    caller: String,
    /// The wallet that serves it.
    wallet: String,
    /// The business system that serves it.
    business: String,
    /// When it is next due.
    next_retry_time: DateTime<Utc>,
    /// Tries in the present state that the retry schedule counts.
    retry_count: u32,
    /// Why it did not move the last time.
    last_error_code: Option<String>,
    /// The downstream's id of the last request.
    channel_request_id: Option<String>,
    /// The wallet's transaction that charged.
    wallet_pay_txn: Option<String>,
    /// The wallet's transaction that refunded.
    wallet_refund_txn: Option<String>,
    /// The wish to cancel, if there is one.
    cancel: Option<CancelView>,
    /// The freeze, if there is one.
    hold: Option<HoldView>,
    /// The refund, once decided.
    refund: Option<RefundView>,
}

/// A wish to cancel.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FlowCancel)]
struct CancelView {
    /// When.
    at: DateTime<Utc>,
    /// By whom.
    by: String,
}

/// A freeze.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FlowHold)]
struct HoldView {
    /// Why.
    reason: &'static str,
    /// Since when.
    since: DateTime<Utc>,
    /// By whom.
    by: String,
}

/// A decided refund.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FlowRefund)]
struct RefundView {
    /// The whole charge, in minor units.
    amount: i64,
    /// Why.
    reason: &'static str,
    /// Which entrance decided it.
    source: &'static str,
}

/// One page of flows, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub struct FlowList {
    /// The flows.
    pub flows: Vec<FlowView>,
    /// Whether more follow.
    pub has_more: bool,
    /// Give it as `cursor` to get the next page; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Whether nothing but people will move the flow: there is nothing to wait for.
pub fn rests(flow: &Flow) -> bool {
    flow.state.is_terminal() || flow.hold.is_some()
}

/// When to ask again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Polling {
    /// In so many milliseconds.
    pub after_ms: u64,
    /// Not after this moment.
    pub until: DateTime<Utc>,
}

impl Polling {
    const SHORTEST_MS: u64 = 500;
    const LONGEST_MS: u64 = 3_000;

    /// The advice for a flow; `None` when there is nothing to wait for.
    pub fn of(flow: &Flow) -> Option<Polling> {
        if rests(flow) {
            return None;
        }
        let planned_ms = (flow.next_retry_time - flow.updated_at).num_milliseconds();
        let planned_ms = u64::try_from(planned_ms).unwrap_or(0);
        Some(Polling {
            after_ms: planned_ms.clamp(Self::SHORTEST_MS, Self::LONGEST_MS),
            until: flow.deadline,
        })
    }

    /// For `Retry-After`: whole seconds, rounded up.
    pub fn after_s(self) -> u32 {
        u32::try_from(self.after_ms.div_ceil(1_000)).unwrap_or(u32::MAX)
    }
}

impl FlowView {
    /// The flow as this caller may see it.
    pub fn of(flow: &Flow, caller: &Caller) -> FlowView {
        let polling = Polling::of(flow);
        let failure = flow.last_error_code.as_ref().filter(|_| flow.state.is_terminal());
        FlowView {
            flow_id: flow.id.to_string(),
            user_id: flow.target.user_id.to_string(),
            scene: flow.target.scene.to_string(),
            biz_key: flow.target.biz_key.to_string(),
            attempt_no: flow.attempt_no.0,
            money: MoneyBody { amount: flow.money.amount(), currency: flow.money.currency().to_string() },
            status: flow.client_state().as_str(),
            state: flow.state.as_str(),
            terminal: flow.state.is_terminal(),
            reason: (flow.refund.as_ref().map(|refund| refund.reason.as_str().to_owned()))
                .or_else(|| failure.map(ToString::to_string)),
            version: flow.version.0,
            trade_order_no: flow.trade_order_no.to_string(),
            refund_order_no: flow.refund_order_no.to_string(),
            deadline: flow.deadline,
            created_at: flow.created_at,
            updated_at: flow.updated_at,
            state_entered_at: flow.state_entered_at,
            paid_at: flow.paid_at,
            finished_at: flow.finished_at,
            cancel_requested_at: flow.cancel.as_ref().map(|cancel| cancel.at),
            poll_after_ms: polling.map(|polling| polling.after_ms),
            poll_until: polling.map(|polling| polling.until),
            on_call: caller.sees_only().is_none().then(|| OnCallView::of(flow)),
        }
    }
}

impl OnCallView {
    fn of(flow: &Flow) -> OnCallView {
        OnCallView {
            caller: flow.caller.to_string(),
            wallet: flow.wallet.to_string(),
            business: flow.business.to_string(),
            next_retry_time: flow.next_retry_time,
            retry_count: flow.retry_count,
            last_error_code: flow.last_error_code.as_ref().map(ToString::to_string),
            channel_request_id: flow.channel_request_id.as_ref().map(ToString::to_string),
            wallet_pay_txn: flow.wallet_pay_txn.as_ref().map(ToString::to_string),
            wallet_refund_txn: flow.wallet_refund_txn.as_ref().map(ToString::to_string),
            cancel: flow
                .cancel
                .as_ref()
                .map(|cancel| CancelView { at: cancel.at, by: cancel.by.to_string() }),
            hold: flow.hold.as_ref().map(|hold| HoldView {
                reason: hold.reason.as_str(),
                since: hold.since,
                by: hold.by.to_string(),
            }),
            refund: flow.refund.as_ref().map(|refund| RefundView {
                amount: refund.amount,
                reason: refund.reason.as_str(),
                source: refund.source.as_str(),
            }),
        }
    }
}
