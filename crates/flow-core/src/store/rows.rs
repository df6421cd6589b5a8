//! From the columns of a row to what the domain knows. A value that no version of this program writes is an error that
//! names the row and the column; it is never guessed at and never skipped.

use chrono::{DateTime, NaiveDateTime, Utc};

use crate::answer::ErrorCode;
use crate::flow::{CancelRequest, Flow, Hold, HoldReason, Lane, RefundReason, RefundTerms, Trigger};
use crate::ids::{
    Actor, AttemptNo, BizKey, CallerId, DownstreamName, DownstreamRef, Fingerprint, FlowId, IdError,
    RefundOrderNo, Scene, Target, TradeOrderNo, UserId, Version,
};
use crate::money::{Currency, Money};
use crate::ports::{DueFlow, FlowEvent, StoreError};
use crate::state::State;

/// The columns of a flow, as [`select_flow!`](super::reads) lists them. All optional, since a lookup joins them to
/// something that need not have a row; a column that must be there and is not is reported as corrupt.
#[derive(Debug, sqlx::FromRow)]
pub(super) struct FlowRow {
    pub(super) id: Option<i64>,
    pub(super) user_id: Option<i64>,
    pub(super) scene: Option<String>,
    pub(super) biz_key: Option<String>,
    pub(super) attempt_no: Option<i32>,
    pub(super) trade_order_no: Option<String>,
    pub(super) refund_order_no: Option<String>,
    pub(super) status: Option<String>,
    pub(super) version: Option<i64>,
    pub(super) amount: Option<i64>,
    pub(super) currency: Option<String>,
    pub(super) biz_deadline_time: Option<NaiveDateTime>,
    pub(super) wallet_name: Option<String>,
    pub(super) business_name: Option<String>,
    pub(super) biz_context: Option<String>,
    pub(super) caller_id: Option<String>,
    pub(super) next_retry_time: Option<NaiveDateTime>,
    pub(super) retry_count: Option<i32>,
    pub(super) last_error_code: Option<String>,
    pub(super) channel_request_id: Option<String>,
    pub(super) cancel_requested_at: Option<NaiveDateTime>,
    pub(super) cancel_requested_by: Option<String>,
    pub(super) hold_reason: Option<String>,
    pub(super) hold_since: Option<NaiveDateTime>,
    pub(super) hold_by: Option<String>,
    pub(super) refund_amount: Option<i64>,
    pub(super) refund_reason: Option<String>,
    pub(super) refund_source: Option<String>,
    pub(super) wallet_pay_txn: Option<String>,
    pub(super) wallet_refund_txn: Option<String>,
    pub(super) paid_at: Option<NaiveDateTime>,
    pub(super) finished_at: Option<NaiveDateTime>,
    pub(super) state_entered_at: Option<NaiveDateTime>,
    pub(super) created_at: Option<NaiveDateTime>,
    pub(super) update_time: Option<NaiveDateTime>,
    /// The fingerprint of the request key through which the row was found; otherwise that of its creation.
    pub(super) fingerprint: Option<String>,
    /// The database's clock.
    pub(super) db_now: Option<NaiveDateTime>,
}

/// Checks values of one row; remembers which row, for the error.
#[derive(Clone, Copy)]
struct Row(i64);

impl Row {
    fn corrupt(self, column: &'static str) -> StoreError {
        tracing::error!(flow_id = self.0, column, "a stored value is not readable");
        StoreError::Corrupt { flow_id: self.0, column }
    }

    fn need<T>(self, column: &'static str, value: Option<T>) -> Result<T, StoreError> {
        value.ok_or_else(|| self.corrupt(column))
    }

    fn time(self, column: &'static str, value: Option<NaiveDateTime>) -> Result<DateTime<Utc>, StoreError> {
        self.need(column, value).map(|time| time.and_utc())
    }

    fn text<T>(
        self,
        column: &'static str,
        value: Option<String>,
        parse: impl FnOnce(String) -> Result<T, IdError>,
    ) -> Result<T, StoreError> {
        parse(self.need(column, value)?).map_err(|_| self.corrupt(column))
    }

    fn text_or_none<T>(
        self,
        column: &'static str,
        value: Option<String>,
        parse: impl FnOnce(String) -> Result<T, IdError>,
    ) -> Result<Option<T>, StoreError> {
        value.map(|text| parse(text).map_err(|_| self.corrupt(column))).transpose()
    }

    fn word<T>(
        self,
        column: &'static str,
        value: Option<String>,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, StoreError> {
        let text = self.need(column, value)?;
        self.need(column, parse(&text))
    }

    fn count<N: TryInto<T>, T>(self, column: &'static str, value: Option<N>) -> Result<T, StoreError> {
        self.need(column, self.need(column, value)?.try_into().ok())
    }
}

/// The database's clock in a row that has one.
pub(super) fn db_now(row: &FlowRow) -> Result<DateTime<Utc>, StoreError> {
    Row(row.id.unwrap_or(0)).time("NOW(3)", row.db_now)
}

/// What the sweep is told of a row.
pub(super) fn due_flow(
    flow_id: i64,
    status: &str,
    wallet: String,
    business: String,
) -> Result<DueFlow, StoreError> {
    let at = Row(flow_id);
    let state = State::parse(status).ok_or_else(|| at.corrupt("status"))?;
    let wallet = DownstreamName::new(wallet).map_err(|_| at.corrupt("wallet_name"))?;
    let business = DownstreamName::new(business).map_err(|_| at.corrupt("business_name"))?;
    let id = FlowId::new(flow_id).map_err(|_| at.corrupt("id"))?;
    Ok(DueFlow { id, lane: Lane::of(state, wallet, business) })
}

/// The flow in a row.
pub(super) fn flow(row: FlowRow) -> Result<Flow, StoreError> {
    let at = Row(row.id.unwrap_or(0));
    let id = at.need("id", row.id.and_then(|id| FlowId::new(id).ok()))?;
    let target = Target {
        user_id: at.need("user_id", row.user_id.and_then(|id| UserId::new(id).ok()))?,
        scene: at.text("scene", row.scene, Scene::new)?,
        biz_key: at.text("biz_key", row.biz_key, BizKey::new)?,
    };
    let currency = at.text("currency", row.currency, Currency::new)?;
    let money = Money::new(at.need("amount", row.amount)?, currency).map_err(|_| at.corrupt("amount"))?;
    let cancel = cancel(at, row.cancel_requested_at, row.cancel_requested_by)?;
    let hold = hold(at, row.hold_reason, row.hold_since, row.hold_by)?;
    let refund = refund(at, row.refund_amount, row.refund_reason, row.refund_source)?;
    Ok(Flow {
        id,
        target,
        attempt_no: AttemptNo(at.count("attempt_no", row.attempt_no)?),
        trade_order_no: at.text("trade_order_no", row.trade_order_no, TradeOrderNo::try_from)?,
        refund_order_no: at.text("refund_order_no", row.refund_order_no, RefundOrderNo::try_from)?,
        state: at.word("status", row.status, State::parse)?,
        version: Version(at.count("version", row.version)?),
        money,
        deadline: at.time("biz_deadline_time", row.biz_deadline_time)?,
        wallet: at.text("wallet_name", row.wallet_name, DownstreamName::new)?,
        business: at.text("business_name", row.business_name, DownstreamName::new)?,
        context: row.biz_context,
        caller: at.text("caller_id", row.caller_id, CallerId::new)?,
        next_retry_time: at.time("next_retry_time", row.next_retry_time)?,
        retry_count: at.count("retry_count", row.retry_count)?,
        last_error_code: row.last_error_code.map(|code| ErrorCode::clean(&code)),
        channel_request_id: at.text_or_none(
            "channel_request_id",
            row.channel_request_id,
            DownstreamRef::new,
        )?,
        cancel,
        hold,
        refund,
        wallet_pay_txn: at.text_or_none("wallet_pay_txn", row.wallet_pay_txn, DownstreamRef::new)?,
        wallet_refund_txn: at.text_or_none("wallet_refund_txn", row.wallet_refund_txn, DownstreamRef::new)?,
        paid_at: row.paid_at.map(|time| time.and_utc()),
        finished_at: row.finished_at.map(|time| time.and_utc()),
        state_entered_at: at.time("state_entered_at", row.state_entered_at)?,
        created_at: at.time("created_at", row.created_at)?,
        updated_at: at.time("update_time", row.update_time)?,
    })
}

fn cancel(
    at: Row,
    since: Option<NaiveDateTime>,
    by: Option<String>,
) -> Result<Option<CancelRequest>, StoreError> {
    let Some(since) = since else { return Ok(None) };
    let by = at.text("cancel_requested_by", by, Actor::new)?;
    Ok(Some(CancelRequest { at: since.and_utc(), by }))
}

fn hold(
    at: Row,
    reason: Option<String>,
    since: Option<NaiveDateTime>,
    by: Option<String>,
) -> Result<Option<Hold>, StoreError> {
    if reason.is_none() {
        return Ok(None);
    }
    Ok(Some(Hold {
        reason: at.word("hold_reason", reason, HoldReason::parse)?,
        since: at.time("hold_since", since)?,
        by: at.text("hold_by", by, Actor::new)?,
    }))
}

fn refund(
    at: Row,
    amount: Option<i64>,
    reason: Option<String>,
    source: Option<String>,
) -> Result<Option<RefundTerms>, StoreError> {
    let Some(amount) = amount else { return Ok(None) };
    Ok(Some(RefundTerms {
        amount,
        reason: at.word("refund_reason", reason, RefundReason::parse)?,
        source: at.word("refund_source", source, Trigger::parse)?,
    }))
}

/// The fingerprint in a row that was found through its request key.
pub(super) fn fingerprint(row: &FlowRow) -> Result<Fingerprint, StoreError> {
    let at = Row(row.id.unwrap_or(0));
    at.need("fingerprint", row.fingerprint.as_deref().and_then(Fingerprint::from_hex))
}

/// One line of the event log.
#[derive(Debug)]
pub(super) struct EventRow {
    pub(super) flow_id: i64,
    pub(super) version: i64,
    pub(super) kind: String,
    pub(super) from_status: Option<String>,
    pub(super) to_status: String,
    pub(super) ev_trigger: String,
    pub(super) action: Option<String>,
    pub(super) outcome: Option<String>,
    pub(super) error_code: Option<String>,
    pub(super) request_id: Option<String>,
    pub(super) latency_ms: Option<u32>,
    pub(super) trace_id: Option<String>,
    pub(super) actor: Option<String>,
    pub(super) created_at: NaiveDateTime,
}

/// The event in a line.
pub(super) fn event(row: EventRow) -> Result<FlowEvent, StoreError> {
    let at = Row(row.flow_id);
    Ok(FlowEvent {
        flow_id: FlowId::new(row.flow_id).map_err(|_| at.corrupt("flow_id"))?,
        version: Version(at.count("version", Some(row.version))?),
        from: match row.from_status {
            Some(from) => Some(at.word("from_status", Some(from), State::parse)?),
            None => None,
        },
        to: at.word("to_status", Some(row.to_status), State::parse)?,
        kind: row.kind,
        trigger: row.ev_trigger,
        action: row.action,
        outcome: row.outcome,
        error_code: row.error_code,
        request_id: row.request_id,
        latency_ms: row.latency_ms,
        trace_id: row.trace_id,
        actor: row.actor,
        at: row.created_at.and_utc(),
    })
}
