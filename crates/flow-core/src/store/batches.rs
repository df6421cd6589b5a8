//! The statements of `writes` for many rows at once, each fed by one JSON parameter, so that their text is fixed and
//! checked at compile time. They mean the same, row by row.
//!
//! Text columns of JSON_TABLE are one character wider than the table's: what is too long then fails on MariaDB, too,
//! which would cut it silently.

use serde::Serialize;
use sqlx::MySqlConnection;

use super::writes::{BindRow, CasRow, CreateRow};
use crate::crash::{Spot, around};

fn json<T: Serialize>(rows: &[&T]) -> Result<String, sqlx::Error> {
    serde_json::to_string(rows).map_err(|error| sqlx::Error::Encode(Box::new(error)))
}

/// Inserts flows: all, or an error and none.
pub(super) async fn create_many(
    connection: &mut MySqlConnection,
    rows: &[&CreateRow],
) -> Result<u64, sqlx::Error> {
    let done = around!(Spot::CreateMany, sqlx::query!(
        "INSERT INTO internal_pay_flow \
           (id, user_id, scene, biz_key, attempt_no, trade_order_no, refund_order_no, status, version, amount, \
            currency, biz_deadline_time, wallet_name, business_name, biz_context, caller_id, idempotency_key, \
            request_fingerprint, next_retry_time, state_entered_at, created_at, update_time, ev_trigger, ev_trace_id) \
         SELECT v.id, v.user_id, v.scene, v.biz_key, v.attempt_no, v.trade_order_no, v.refund_order_no, 'WAIT_PAY', 0, \
            v.amount, v.currency, v.deadline, v.wallet, v.business, v.context, v.caller, v.request_key, \
            v.fingerprint, NOW(3) + INTERVAL v.due_in_ms * 1000 MICROSECOND, NOW(3), NOW(3), NOW(3), 'SYNC', v.trace_id \
         FROM JSON_TABLE(?, '$[*]' COLUMNS ( \
            id BIGINT PATH '$.id', \
            user_id BIGINT PATH '$.user_id', \
            scene VARCHAR(33) CHARACTER SET ascii COLLATE ascii_bin PATH '$.scene' ERROR ON ERROR, \
            biz_key VARCHAR(161) CHARACTER SET ascii COLLATE ascii_bin PATH '$.biz_key' ERROR ON ERROR, \
            attempt_no INT PATH '$.attempt_no', \
            trade_order_no VARCHAR(97) CHARACTER SET ascii COLLATE ascii_bin PATH '$.trade_order_no' ERROR ON ERROR, \
            refund_order_no VARCHAR(97) CHARACTER SET ascii COLLATE ascii_bin PATH '$.refund_order_no' ERROR ON ERROR, \
            amount BIGINT PATH '$.amount', \
            currency VARCHAR(17) CHARACTER SET ascii COLLATE ascii_bin PATH '$.currency' ERROR ON ERROR, \
            deadline DATETIME(3) PATH '$.deadline', \
            wallet VARCHAR(33) CHARACTER SET ascii COLLATE ascii_bin PATH '$.wallet' ERROR ON ERROR, \
            business VARCHAR(33) CHARACTER SET ascii COLLATE ascii_bin PATH '$.business' ERROR ON ERROR, \
            context LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$.context' ERROR ON ERROR, \
            caller VARCHAR(65) CHARACTER SET ascii COLLATE ascii_bin PATH '$.caller' ERROR ON ERROR, \
            request_key VARCHAR(256) CHARACTER SET ascii COLLATE ascii_bin PATH '$.request_key' ERROR ON ERROR, \
            fingerprint CHAR(64) CHARACTER SET ascii COLLATE ascii_bin PATH '$.fingerprint' ERROR ON ERROR, \
            due_in_ms BIGINT PATH '$.due_in_ms', \
            trace_id VARCHAR(65) CHARACTER SET ascii COLLATE ascii_bin PATH '$.trace_id' ERROR ON ERROR \
         )) v",
        json(rows)?
    )
    .execute(connection)
    .await)?;
    Ok(done.rows_affected())
}

/// Binds keys: all, or an error and none.
pub(super) async fn bind_many(
    connection: &mut MySqlConnection,
    rows: &[&BindRow],
) -> Result<u64, sqlx::Error> {
    let done = around!(Spot::BindMany, sqlx::query!(
        "INSERT INTO pay_request_key (caller_id, idempotency_key, fingerprint, flow_id, created_at) \
         SELECT v.caller, v.request_key, v.fingerprint, v.flow_id, NOW(3) \
         FROM JSON_TABLE(?, '$[*]' COLUMNS ( \
            caller VARCHAR(65) CHARACTER SET ascii COLLATE ascii_bin PATH '$.caller' ERROR ON ERROR, \
            request_key VARCHAR(256) CHARACTER SET ascii COLLATE ascii_bin PATH '$.request_key' ERROR ON ERROR, \
            fingerprint CHAR(64) CHARACTER SET ascii COLLATE ascii_bin PATH '$.fingerprint' ERROR ON ERROR, \
            flow_id BIGINT PATH '$.flow_id' \
         )) v",
        json(rows)?
    )
    .execute(connection)
    .await)?;
    Ok(done.rows_affected())
}

/// Many compare-and-swaps of different flows. Answers how many rows were as expected; if fewer than were given, which
/// of them is not told, and the caller rolls back.
pub(super) async fn cas_many(connection: &mut MySqlConnection, rows: &[&CasRow]) -> Result<u64, sqlx::Error> {
    let done = around!(Spot::CasMany, sqlx::query!(
        "UPDATE JSON_TABLE(?, '$[*]' COLUMNS ( \
            id BIGINT PATH '$.id', \
            from_status VARCHAR(24) CHARACTER SET ascii COLLATE ascii_bin PATH '$.from_status' ERROR ON ERROR, \
            version BIGINT PATH '$.version', \
            to_status VARCHAR(24) CHARACTER SET ascii COLLATE ascii_bin PATH '$.to_status' ERROR ON ERROR, \
            next_version BIGINT PATH '$.next_version', \
            due_in_ms BIGINT PATH '$.due_in_ms', \
            retry_count INT PATH '$.retry_count', \
            sets_error TINYINT PATH '$.sets_error', \
            error_code VARCHAR(65) CHARACTER SET ascii COLLATE ascii_bin PATH '$.error_code' ERROR ON ERROR, \
            request_id VARCHAR(129) CHARACTER SET ascii COLLATE ascii_bin PATH '$.request_id' ERROR ON ERROR, \
            cancel_by VARCHAR(65) CHARACTER SET ascii COLLATE ascii_bin PATH '$.cancel_by' ERROR ON ERROR, \
            sets_hold TINYINT PATH '$.sets_hold', \
            hold_reason VARCHAR(33) CHARACTER SET ascii COLLATE ascii_bin PATH '$.hold_reason' ERROR ON ERROR, \
            hold_by VARCHAR(65) CHARACTER SET ascii COLLATE ascii_bin PATH '$.hold_by' ERROR ON ERROR, \
            refund_reason VARCHAR(33) CHARACTER SET ascii COLLATE ascii_bin PATH '$.refund_reason' ERROR ON ERROR, \
            refund_source VARCHAR(17) CHARACTER SET ascii COLLATE ascii_bin PATH '$.refund_source' ERROR ON ERROR, \
            pays TINYINT PATH '$.pays', \
            pay_txn VARCHAR(129) CHARACTER SET ascii COLLATE ascii_bin PATH '$.pay_txn' ERROR ON ERROR, \
            refunds TINYINT PATH '$.refunds', \
            refund_txn VARCHAR(129) CHARACTER SET ascii COLLATE ascii_bin PATH '$.refund_txn' ERROR ON ERROR, \
            moves TINYINT PATH '$.moves', \
            finishes TINYINT PATH '$.finishes', \
            ev_trigger VARCHAR(17) CHARACTER SET ascii COLLATE ascii_bin PATH '$.trigger' ERROR ON ERROR, \
            ev_action VARCHAR(33) CHARACTER SET ascii COLLATE ascii_bin PATH '$.action' ERROR ON ERROR, \
            ev_outcome VARCHAR(65) CHARACTER SET ascii COLLATE ascii_bin PATH '$.outcome' ERROR ON ERROR, \
            ev_latency_ms INT UNSIGNED PATH '$.latency_ms', \
            ev_trace_id VARCHAR(65) CHARACTER SET ascii COLLATE ascii_bin PATH '$.trace_id' ERROR ON ERROR, \
            ev_actor VARCHAR(65) CHARACTER SET ascii COLLATE ascii_bin PATH '$.actor' ERROR ON ERROR \
         )) v \
         STRAIGHT_JOIN internal_pay_flow f FORCE INDEX (PRIMARY) \
            ON f.id = v.id AND f.status = v.from_status AND f.version = v.version \
         SET \
            f.status = v.to_status, f.version = v.next_version, \
            f.next_retry_time = COALESCE(NOW(3) + INTERVAL v.due_in_ms * 1000 MICROSECOND, \
               TIMESTAMP '9999-12-31 00:00:00'), \
            f.retry_count = COALESCE(v.retry_count, f.retry_count), \
            f.last_error_code = IF(v.sets_error, v.error_code, f.last_error_code), \
            f.channel_request_id = COALESCE(v.request_id, f.channel_request_id), \
            f.cancel_requested_at = IF(v.cancel_by IS NULL, f.cancel_requested_at, NOW(3)), \
            f.cancel_requested_by = COALESCE(v.cancel_by, f.cancel_requested_by), \
            f.hold_since = IF(v.sets_hold, IF(v.hold_reason IS NULL, NULL, NOW(3)), f.hold_since), \
            f.hold_reason = IF(v.sets_hold, v.hold_reason, f.hold_reason), \
            f.hold_by = IF(v.sets_hold, v.hold_by, f.hold_by), \
            f.refund_amount = IF(v.refund_reason IS NULL, f.refund_amount, f.amount), \
            f.refund_reason = COALESCE(v.refund_reason, f.refund_reason), \
            f.refund_source = COALESCE(v.refund_source, f.refund_source), \
            f.wallet_pay_txn = IF(v.pays, v.pay_txn, f.wallet_pay_txn), \
            f.wallet_refund_txn = IF(v.refunds, v.refund_txn, f.wallet_refund_txn), \
            f.paid_at = IF(v.pays, NOW(3), f.paid_at), \
            f.finished_at = IF(v.finishes, NOW(3), f.finished_at), \
            f.state_entered_at = IF(v.moves, NOW(3), f.state_entered_at), \
            f.update_time = NOW(3), \
            f.ev_version = v.next_version, f.ev_trigger = v.ev_trigger, f.ev_action = v.ev_action, \
            f.ev_outcome = v.ev_outcome, f.ev_request_id = v.request_id, f.ev_latency_ms = v.ev_latency_ms, \
            f.ev_trace_id = v.ev_trace_id, f.ev_actor = v.ev_actor",
        json(rows)?
    )
    .execute(connection)
    .await)?;
    Ok(done.rows_affected())
}

/// Of the given flows, those that have moved on from the expected version: their compare-and-swap is lost for good,
/// since a version never comes back.
pub(super) async fn moved_on(
    connection: &mut MySqlConnection,
    rows: &[&CasRow],
) -> Result<Vec<i64>, sqlx::Error> {
    around!(Spot::MovedOn, sqlx::query_scalar!(
        "SELECT v.id AS `id!` \
         FROM JSON_TABLE(?, '$[*]' COLUMNS ( \
            id BIGINT PATH '$.id', \
            from_status VARCHAR(24) CHARACTER SET ascii COLLATE ascii_bin PATH '$.from_status' ERROR ON ERROR, \
            version BIGINT PATH '$.version' \
         )) v \
         LEFT JOIN internal_pay_flow f FORCE INDEX (PRIMARY) \
            ON f.id = v.id AND f.status = v.from_status AND f.version = v.version \
         WHERE f.id IS NULL",
        json(rows)?
    )
    .fetch_all(connection)
    .await)
}
