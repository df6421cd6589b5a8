//! The statements that write, each in two forms: for one row, as one autocommit statement, and for many rows, fed by
//! one JSON parameter. Both forms read the same flat rows, and both mean what [`CasWrite::apply`] says.
//!
//! Knows nothing of queues, batches or retries.

use chrono::{DateTime, SubsecRound as _, Utc};
use serde::Serialize;
use sqlx::MySqlConnection;

use crate::cas::{CasWrite, Change};
use crate::crash::{Spot, around};
use crate::decide::Transition;
use crate::flow::{Flow, Trigger};
use crate::ids::{FlowId, RefundOrderNo, TradeOrderNo, UserId, Version};
use crate::ports::{KeyBinding, NewFlow};
use crate::state::State;

/// A row to insert, flat. The id and the numbers derived from it come last, when the committer has them.
#[derive(Debug, Clone, Serialize)]
pub(super) struct CreateRow {
    pub(super) id: i64,
    pub(super) user_id: i64,
    pub(super) scene: String,
    pub(super) biz_key: String,
    pub(super) attempt_no: u32,
    pub(super) trade_order_no: String,
    pub(super) refund_order_no: String,
    pub(super) amount: i64,
    pub(super) currency: String,
    pub(super) deadline: String,
    pub(super) wallet: String,
    pub(super) business: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) context: Option<String>,
    pub(super) caller: String,
    pub(super) request_key: String,
    pub(super) fingerprint: String,
    pub(super) due_in_ms: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) trace_id: Option<String>,
}

impl CreateRow {
    pub(super) fn of(new: &NewFlow) -> CreateRow {
        CreateRow {
            id: 0,
            user_id: new.target.user_id.get(),
            scene: new.target.scene.as_str().to_owned(),
            biz_key: new.target.biz_key.as_str().to_owned(),
            attempt_no: new.attempt_no.0,
            trade_order_no: String::new(),
            refund_order_no: String::new(),
            amount: new.money.amount(),
            currency: new.money.currency().as_str().to_owned(),
            deadline: stored(new.deadline).format("%Y-%m-%d %H:%M:%S%.3f").to_string(),
            wallet: new.wallet.as_str().to_owned(),
            business: new.business.as_str().to_owned(),
            context: new.context.clone(),
            caller: new.caller.as_str().to_owned(),
            request_key: new.key.as_str().to_owned(),
            fingerprint: new.fingerprint.to_hex(),
            due_in_ms: millis(new.first_due_in_ms),
            trace_id: new.trace_id.as_ref().map(|trace| trace.as_str().to_owned()),
        }
    }

    /// Gives the row its id and the order numbers that follow from it.
    pub(super) fn identify(&mut self, user_id: UserId, id: FlowId) {
        let trade_order_no = TradeOrderNo::derive(user_id, id);
        self.id = id.get();
        self.refund_order_no = RefundOrderNo::derive(&trade_order_no).as_str().to_owned();
        self.trade_order_no = trade_order_no.as_str().to_owned();
    }
}

/// The flow that an insert made, without reading it back: everything but the times is as bound, and the times are the
/// estimate `now`.
pub(super) fn created_flow(new: NewFlow, id: FlowId, now: DateTime<Utc>) -> Flow {
    let trade_order_no = TradeOrderNo::derive(new.target.user_id, id);
    Flow {
        id,
        refund_order_no: RefundOrderNo::derive(&trade_order_no),
        trade_order_no,
        target: new.target,
        attempt_no: new.attempt_no,
        state: State::WaitPay,
        version: Version::FIRST,
        money: new.money,
        deadline: stored(new.deadline),
        wallet: new.wallet,
        business: new.business,
        context: new.context,
        caller: new.caller,
        next_retry_time: now + chrono::TimeDelta::milliseconds(millis(new.first_due_in_ms)),
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
        state_entered_at: now,
        created_at: now,
        updated_at: now,
    }
}

/// What DATETIME(3) keeps: one server rounds what is finer, the other cuts it off, so it never gets there.
fn stored(time: DateTime<Utc>) -> DateTime<Utc> {
    time.trunc_subsecs(3)
}

/// Milliseconds as the statements take them: at most a thousand years.
fn millis(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX).min(31_536_000_000_000)
}

/// A further request key, flat.
#[derive(Debug, Clone, Serialize)]
pub(super) struct BindRow {
    pub(super) caller: String,
    pub(super) request_key: String,
    pub(super) fingerprint: String,
    pub(super) flow_id: i64,
}

impl BindRow {
    pub(super) fn of(binding: &KeyBinding) -> BindRow {
        BindRow {
            caller: binding.caller.as_str().to_owned(),
            request_key: binding.key.as_str().to_owned(),
            fingerprint: binding.fingerprint.to_hex(),
            flow_id: binding.flow_id.get(),
        }
    }
}

/// A compare-and-swap, flat. What a flag does not switch on keeps its column as it is.
#[derive(Debug, Clone, Serialize)]
pub(super) struct CasRow {
    pub(super) id: i64,
    pub(super) from_status: &'static str,
    pub(super) version: i64,
    pub(super) to_status: &'static str,
    pub(super) next_version: i64,
    /// `None`: held, due never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) due_in_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) retry_count: Option<u32>,
    /// 1: `error_code` replaces what is there, also by nothing.
    pub(super) sets_error: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error_code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) request_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cancel_by: Option<String>,
    /// 1: the hold is what the next two say, also nothing.
    pub(super) sets_hold: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hold_reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hold_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) refund_reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) refund_source: Option<&'static str>,
    /// 1: the charge is confirmed by this write.
    pub(super) pays: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pay_txn: Option<String>,
    /// 1: the refund is confirmed by this write.
    pub(super) refunds: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) refund_txn: Option<String>,
    /// 1: an edge is taken.
    pub(super) moves: u8,
    /// 1: the edge leads to a terminal state.
    pub(super) finishes: u8,
    pub(super) trigger: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) action: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) outcome: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) latency_ms: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) trace_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) actor: Option<String>,
}

impl CasRow {
    pub(super) fn of(write: &CasWrite) -> CasRow {
        let mut row = CasRow::unchanged(write);
        match &write.change {
            Change::Move { transition, next_in_ms } => {
                row.moves = 1;
                row.finishes = u8::from(write.to().is_terminal());
                row.due_in_ms = Some(millis(*next_in_ms));
                row.retry_count = Some(0);
                row.sets_error = 1;
                row.take(transition, write.evidence.trigger);
            }
            Change::Reschedule { next_in_ms, retry_count, code } => {
                row.due_in_ms = Some(millis(*next_in_ms));
                row.retry_count = Some(*retry_count);
                row.sets_error = 1;
                row.error_code = Some(code.as_str().to_owned());
            }
            Change::Hold { reason, by } => {
                row.due_in_ms = None;
                row.sets_hold = 1;
                row.hold_reason = Some(reason.as_str());
                row.hold_by = Some(by.as_str().to_owned());
            }
            Change::Release => {
                row.sets_hold = 1;
                row.retry_count = Some(0);
            }
            Change::RequestCancel { by } => row.cancel_by = Some(by.as_str().to_owned()),
        }
        row
    }

    /// The evidence and the next version; due at once, everything else kept.
    fn unchanged(write: &CasWrite) -> CasRow {
        let evidence = &write.evidence;
        let version = i64::try_from(write.version.0).unwrap_or(i64::MAX - 1);
        CasRow {
            id: write.flow_id.get(),
            from_status: write.from.as_str(),
            version,
            to_status: write.to().as_str(),
            next_version: version + 1,
            due_in_ms: Some(0),
            retry_count: None,
            sets_error: 0,
            error_code: None,
            request_id: evidence.request_id.as_ref().map(|id| id.as_str().to_owned()),
            cancel_by: None,
            sets_hold: 0,
            hold_reason: None,
            hold_by: None,
            refund_reason: None,
            refund_source: None,
            pays: 0,
            pay_txn: None,
            refunds: 0,
            refund_txn: None,
            moves: 0,
            finishes: 0,
            trigger: evidence.trigger.as_str(),
            action: evidence.action.map(crate::decide::Action::as_str),
            outcome: evidence.outcome,
            latency_ms: evidence.latency_ms,
            trace_id: evidence.trace_id.as_ref().map(|trace| trace.as_str().to_owned()),
            actor: evidence.actor.as_ref().map(|actor| actor.as_str().to_owned()),
        }
    }

    fn take(&mut self, transition: &Transition, trigger: Trigger) {
        match transition {
            Transition::EnterPaying | Transition::ConfirmBusiness => {}
            Transition::FailPayment(code) => self.error_code = Some(code.as_str().to_owned()),
            Transition::ConfirmPayment(receipt) => {
                self.pays = 1;
                self.pay_txn = receipt.transaction.as_ref().map(|id| id.as_str().to_owned());
            }
            Transition::DecideRefund(reason) => {
                self.refund_reason = Some(reason.as_str());
                self.refund_source = Some(trigger.as_str());
            }
            Transition::ConfirmRefund(receipt) => {
                self.refunds = 1;
                self.refund_txn = receipt.transaction.as_ref().map(|id| id.as_str().to_owned());
            }
        }
    }
}

/// Inserts one flow; triggers add its key and its first event in the same statement.
pub(super) async fn create_one(
    connection: &mut MySqlConnection,
    row: &CreateRow,
) -> Result<u64, sqlx::Error> {
    let done = around!(Spot::CreateOne, sqlx::query!(
        "INSERT INTO internal_pay_flow \
           (id, user_id, scene, biz_key, attempt_no, trade_order_no, refund_order_no, status, version, amount, \
            currency, biz_deadline_time, wallet_name, business_name, biz_context, caller_id, idempotency_key, \
            request_fingerprint, next_retry_time, state_entered_at, created_at, update_time, ev_trigger, ev_trace_id) \
         VALUES (?, ?, ?, ?, ?, ?, ?, 'WAIT_PAY', 0, ?, ?, ?, ?, ?, ?, ?, ?, ?, \
            NOW(3) + INTERVAL ? * 1000 MICROSECOND, NOW(3), NOW(3), NOW(3), 'SYNC', ?)",
        row.id,
        row.user_id,
        row.scene,
        row.biz_key,
        row.attempt_no,
        row.trade_order_no,
        row.refund_order_no,
        row.amount,
        row.currency,
        row.deadline,
        row.wallet,
        row.business,
        row.context,
        row.caller,
        row.request_key,
        row.fingerprint,
        row.due_in_ms,
        row.trace_id
    )
    .execute(connection)
    .await)?;
    Ok(done.rows_affected())
}

/// Binds one key.
pub(super) async fn bind_one(connection: &mut MySqlConnection, row: &BindRow) -> Result<u64, sqlx::Error> {
    let done = around!(
        Spot::BindOne,
        sqlx::query!(
            "INSERT INTO pay_request_key (caller_id, idempotency_key, fingerprint, flow_id, created_at) \
         VALUES (?, ?, ?, ?, NOW(3))",
            row.caller,
            row.request_key,
            row.fingerprint,
            row.flow_id
        )
        .execute(connection)
        .await
    )?;
    Ok(done.rows_affected())
}

/// The compare-and-swap. No assignment reads a column that an earlier one has set: the server would show it the new
/// value.
pub(super) async fn cas_status(connection: &mut MySqlConnection, row: &CasRow) -> Result<u64, sqlx::Error> {
    let done = around!(Spot::CasOne, sqlx::query!(
        "UPDATE internal_pay_flow SET \
           status = ?, version = ?, \
           next_retry_time = COALESCE(NOW(3) + INTERVAL ? * 1000 MICROSECOND, TIMESTAMP '9999-12-31 00:00:00'), \
           retry_count = COALESCE(?, retry_count), \
           last_error_code = IF(?, ?, last_error_code), \
           channel_request_id = COALESCE(?, channel_request_id), \
           cancel_requested_at = IF(? IS NULL, cancel_requested_at, NOW(3)), \
           cancel_requested_by = COALESCE(?, cancel_requested_by), \
           hold_since = IF(?, IF(? IS NULL, NULL, NOW(3)), hold_since), \
           hold_reason = IF(?, ?, hold_reason), \
           hold_by = IF(?, ?, hold_by), \
           refund_amount = IF(? IS NULL, refund_amount, amount), \
           refund_reason = COALESCE(?, refund_reason), \
           refund_source = COALESCE(?, refund_source), \
           wallet_pay_txn = IF(?, ?, wallet_pay_txn), \
           wallet_refund_txn = IF(?, ?, wallet_refund_txn), \
           paid_at = IF(?, NOW(3), paid_at), \
           finished_at = IF(?, NOW(3), finished_at), \
           state_entered_at = IF(?, NOW(3), state_entered_at), \
           update_time = NOW(3), \
           ev_version = ?, ev_trigger = ?, ev_action = ?, ev_outcome = ?, ev_request_id = ?, ev_latency_ms = ?, \
           ev_trace_id = ?, ev_actor = ? \
         WHERE id = ? AND status = ? AND version = ?",
        row.to_status,
        row.next_version,
        row.due_in_ms,
        row.retry_count,
        row.sets_error,
        row.error_code,
        row.request_id,
        row.cancel_by,
        row.cancel_by,
        row.sets_hold,
        row.hold_reason,
        row.sets_hold,
        row.hold_reason,
        row.sets_hold,
        row.hold_by,
        row.refund_reason,
        row.refund_reason,
        row.refund_source,
        row.pays,
        row.pay_txn,
        row.refunds,
        row.refund_txn,
        row.pays,
        row.finishes,
        row.moves,
        row.next_version,
        row.trigger,
        row.action,
        row.outcome,
        row.request_id,
        row.latency_ms,
        row.trace_id,
        row.actor,
        row.id,
        row.from_status,
        row.version
    )
    .execute(connection)
    .await)?;
    Ok(done.rows_affected())
}
