//! Reads. Each is one statement on one connection of the read pool, in a task of its own: a caller that gives up (a
//! time limit, a `select!`, a client that hung up) never leaves a connection half read.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::mysql::MySqlPool;
use sqlx::{Connection as _, MySqlConnection};

use super::connect::DatabaseClock;
use super::errors::{Failure, not_connected};
use super::rows::{self, EventRow, FlowRow};
use crate::crash::{Spot, around};
use crate::flow::Flow;
use crate::ids::{CallerId, FlowId, IdempotencyKey, Target, Version};
use crate::ports::{DueFlow, FlowEvent, Lookup, RequestRecord, ScanPage, Seen, StateSummary, StoreError};
use crate::state::State;

/// A read under way on a borrowed connection.
pub(super) type Reading<'c, T> = Pin<Box<dyn Future<Output = Result<T, sqlx::Error>> + Send + 'c>>;

/// `query_as!` over all columns of a flow, from a given rest of the statement, in which the flow is called `f`.
macro_rules! select_flow {
    ($rest:literal, $fingerprint:literal, $($argument:expr),*) => {
        sqlx::query_as!(
            FlowRow,
            "SELECT f.id AS `id?`, f.user_id AS `user_id?`, f.scene AS `scene?`, f.biz_key AS `biz_key?`, "
                + "f.attempt_no AS `attempt_no?`, f.trade_order_no AS `trade_order_no?`, "
                + "f.refund_order_no AS `refund_order_no?`, f.status AS `status?`, f.version AS `version?`, "
                + "f.amount AS `amount?`, f.currency AS `currency?`, f.biz_deadline_time AS `biz_deadline_time?`, "
                + "f.wallet_name AS `wallet_name?`, f.business_name AS `business_name?`, "
                + "f.biz_context AS `biz_context?`, f.caller_id AS `caller_id?`, "
                + "f.next_retry_time AS `next_retry_time?`, f.retry_count AS `retry_count?`, "
                + "f.last_error_code AS `last_error_code?`, f.channel_request_id AS `channel_request_id?`, "
                + "f.cancel_requested_at AS `cancel_requested_at?`, f.cancel_requested_by AS `cancel_requested_by?`, "
                + "f.hold_reason AS `hold_reason?`, f.hold_since AS `hold_since?`, f.hold_by AS `hold_by?`, "
                + "f.refund_amount AS `refund_amount?`, f.refund_reason AS `refund_reason?`, "
                + "f.refund_source AS `refund_source?`, f.wallet_pay_txn AS `wallet_pay_txn?`, "
                + "f.wallet_refund_txn AS `wallet_refund_txn?`, f.paid_at AS `paid_at?`, "
                + "f.finished_at AS `finished_at?`, f.state_entered_at AS `state_entered_at?`, "
                + "f.created_at AS `created_at?`, f.update_time AS `update_time?`, "
                + $fingerprint
                + " AS `fingerprint?`, NOW(3) AS `db_now?` "
                + $rest,
            $($argument),*
        )
    };
}

/// The reading half of the store.
#[derive(Debug, Clone)]
pub(super) struct Reader {
    pool: MySqlPool,
    limit: Duration,
    clock: Arc<DatabaseClock>,
}

impl Reader {
    pub(super) const fn new(pool: MySqlPool, limit: Duration, clock: Arc<DatabaseClock>) -> Reader {
        Reader { pool, limit, clock }
    }

    /// Closes the pool; reads under way finish first.
    pub(super) async fn close(&self) {
        self.pool.close().await;
    }

    /// Runs one read in a task of its own, between the crash points of its spot. A read that met a dead connection is made
    /// once more on another: reading twice changes nothing, and after a restart of the server every idle connection is dead.
    pub(super) async fn run<T, R>(&self, spot: Spot, read: R) -> Result<T, StoreError>
    where
        T: Send + 'static,
        R: for<'c> Fn(&'c mut MySqlConnection) -> Reading<'c, T> + Send + Sync + 'static,
    {
        metrics::counter!("store_reads_total", "kind" => spot.as_str()).increment(1);
        let (pool, limit) = (self.pool.clone(), self.limit);
        let task = tokio::spawn(async move {
            match attempt(&pool, limit, spot, &read).await {
                Err(Attempt::Dead(error)) => {
                    tracing::debug!(%error, "a read met a dead connection; reading once more");
                    discard_dead(&pool, limit).await;
                    attempt(&pool, limit, spot, &read).await.map_err(Attempt::into_store_error)
                }
                Err(failed) => Err(failed.into_store_error()),
                Ok(value) => Ok(value),
            }
        });
        match task.await {
            Ok(result) => result,
            // The runtime is shutting down, or the read panicked; either way nothing was written.
            Err(_) => Err(StoreError::Unavailable { reason: "the read was abandoned" }),
        }
    }

    /// Runs one write that goes past the queue, in a task of its own, between the crash points of its spot. Once only: a
    /// connection that was lost on the way leaves its outcome unknown.
    pub(super) async fn run_once<T, R>(&self, spot: Spot, write: R) -> Result<T, StoreError>
    where
        T: Send + 'static,
        R: for<'c> Fn(&'c mut MySqlConnection) -> Reading<'c, T> + Send + Sync + 'static,
    {
        let (pool, limit) = (self.pool.clone(), self.limit);
        let task = tokio::spawn(async move { attempt(&pool, limit, spot, &write).await });
        match task.await {
            Ok(written) => written.map_err(Attempt::of_write),
            Err(_) => Err(StoreError::OutcomeUnknown),
        }
    }

    fn seen_now(&self, row: &FlowRow) -> Result<DateTime<Utc>, StoreError> {
        let now = rows::db_now(row)?;
        self.clock.seen(now);
        Ok(now)
    }

    pub(super) async fn now(&self) -> Result<DateTime<Utc>, StoreError> {
        let now = self
            .run(Spot::Now, |connection| {
                Box::pin(sqlx::query_scalar!("SELECT NOW(3) AS `now!`").fetch_one(connection))
            })
            .await?
            .and_utc();
        self.clock.seen(now);
        Ok(now)
    }

    pub(super) async fn load(&self, flow_id: FlowId) -> Result<Seen<Option<Flow>>, StoreError> {
        let id = flow_id.get();
        let row = self
            .run(Spot::Load, move |connection| {
                Box::pin(
                    select_flow!("FROM internal_pay_flow f WHERE f.id = ?", "f.request_fingerprint", id)
                        .fetch_optional(connection),
                )
            })
            .await?;
        match row {
            Some(row) => {
                let now = self.seen_now(&row)?;
                Ok(Seen { value: Some(rows::flow(row)?), now })
            }
            None => Ok(Seen { value: None, now: self.now().await? }),
        }
    }

    /// One statement: the key's flow, the target's latest attempt, and a row that carries the clock alone.
    pub(super) async fn look_up(
        &self,
        caller: &CallerId,
        key: &IdempotencyKey,
        target: &Target,
    ) -> Result<Seen<Lookup>, StoreError> {
        let (caller, key, target) = (caller.clone(), key.clone(), target.clone());
        let found = self
            .run(Spot::LookUp, move |connection| {
                Box::pin(
                    select_flow!(
                        "FROM (SELECT fingerprint, flow_id FROM pay_request_key \
                               WHERE caller_id = ? AND idempotency_key = ? \
                               UNION ALL \
                               (SELECT CAST(NULL AS CHAR(64)), id FROM internal_pay_flow \
                                WHERE user_id = ? AND scene = ? AND biz_key = ? ORDER BY attempt_no DESC LIMIT 1) \
                               UNION ALL SELECT CAST(NULL AS CHAR(64)), CAST(NULL AS SIGNED)) r \
                         LEFT JOIN internal_pay_flow f ON f.id = r.flow_id",
                        "r.fingerprint",
                        caller.as_str(),
                        key.as_str(),
                        target.user_id.get(),
                        target.scene.as_str(),
                        target.biz_key.as_str()
                    )
                    .fetch_all(connection),
                )
            })
            .await?;
        let clock_row = found.first().ok_or(StoreError::Corrupt { flow_id: 0, column: "NOW(3)" })?;
        let now = self.seen_now(clock_row)?;
        let mut known = Lookup { request: None, latest: None };
        for row in found {
            match (&row.fingerprint, row.id) {
                (Some(_), _) => {
                    let fingerprint = rows::fingerprint(&row)?;
                    known.request = Some(RequestRecord { fingerprint, flow: rows::flow(row)? });
                }
                (None, Some(_)) => known.latest = Some(rows::flow(row)?),
                (None, None) => {}
            }
        }
        Ok(Seen { value: known, now })
    }

    /// Walks the index of open rows alone (`is_open`, `id`, `next_retry_time`), and touches only the rows of the page. The
    /// inner query is what keeps it so: conditions are not pushed into an index over a virtual column.
    pub(super) async fn list_due_after(&self, page: ScanPage) -> Result<Vec<DueFlow>, StoreError> {
        let due = self
            .run(Spot::ListDue, move |connection| {
                Box::pin(
                    sqlx::query!(
                        "SELECT flow.id, flow.status AS `status!`, flow.wallet_name, flow.business_name \
                         FROM (SELECT id FROM internal_pay_flow FORCE INDEX (idx_open_id_due) \
                               WHERE is_open = 1 AND id > ? AND next_retry_time <= ? AND MOD(id, ?) = ? \
                               ORDER BY id LIMIT ?) due \
                         JOIN internal_pay_flow flow ON flow.id = due.id ORDER BY due.id",
                        page.after_id,
                        page.due_by.naive_utc(),
                        page.partitions.max(1),
                        page.partition,
                        page.limit_rows
                    )
                    .fetch_all(connection),
                )
            })
            .await?;
        due.into_iter()
            .map(|row| rows::due_flow(row.id, &row.status, row.wallet_name, row.business_name))
            .collect()
    }

    pub(super) async fn summarise_open(&self, attention_tries: u32) -> Result<Vec<StateSummary>, StoreError> {
        let rows = self
            .run(Spot::Summarise, move |connection| {
                Box::pin(
                    sqlx::query!(
                        "SELECT status AS `status!`, COUNT(*) AS `flows!`, \
                           CAST(COALESCE(SUM(hold_reason IS NOT NULL), 0) AS SIGNED) AS `held!`, \
                           CAST(COALESCE(SUM(retry_count >= ?), 0) AS SIGNED) AS `attention!`, \
                           CAST(GREATEST(COALESCE(MAX(TIMESTAMPDIFF(MICROSECOND, state_entered_at, NOW(3))), 0), 0) \
                             DIV 1000 AS SIGNED) AS `oldest_age_ms!` \
                         FROM internal_pay_flow FORCE INDEX (idx_open_id_due) WHERE is_open = 1 GROUP BY status",
                        attention_tries
                    )
                    .fetch_all(connection),
                )
            })
            .await?;
        rows.into_iter()
            .map(|row| {
                let state =
                    State::parse(&row.status).ok_or(StoreError::Corrupt { flow_id: 0, column: "status" })?;
                Ok(StateSummary {
                    state,
                    rows: row.flows.unsigned_abs(),
                    held_rows: row.held.unsigned_abs(),
                    attention_rows: row.attention.unsigned_abs(),
                    oldest_age_ms: row.oldest_age_ms.unsigned_abs(),
                })
            })
            .collect()
    }

    pub(super) async fn events(
        &self,
        flow_id: FlowId,
        after: Option<Version>,
        limit_rows: u32,
    ) -> Result<Vec<FlowEvent>, StoreError> {
        let id = flow_id.get();
        let after = after.map_or(-1, |version| i64::try_from(version.0).unwrap_or(i64::MAX));
        let lines = self
            .run(Spot::Events, move |connection| {
                Box::pin(
                    sqlx::query_as!(
                        EventRow,
                        "SELECT flow_id, version, kind, from_status, to_status, ev_trigger, action, outcome, \
                           error_code, request_id, latency_ms, trace_id, actor, created_at \
                         FROM pay_flow_event WHERE flow_id = ? AND version > ? ORDER BY version LIMIT ?",
                        id,
                        after,
                        limit_rows
                    )
                    .fetch_all(connection),
                )
            })
            .await?;
        lines.into_iter().map(rows::event).collect()
    }
}

/// How one attempt at a read failed.
enum Attempt {
    /// A connection was there, and was dead.
    Dead(sqlx::Error),
    /// No connection came about.
    NotConnected(sqlx::Error),
    /// The time limit.
    TooLong,
    /// The server answered with an error.
    Failed(Failure),
}

impl Attempt {
    fn of_write(self) -> StoreError {
        match self {
            Attempt::Dead(error) => Failure::ConnectionLost(error).of_write(),
            Attempt::NotConnected(error) => not_connected(&error),
            Attempt::TooLong => StoreError::OutcomeUnknown,
            Attempt::Failed(failure) => failure.of_write(),
        }
    }

    fn into_store_error(self) -> StoreError {
        match self {
            Attempt::Dead(error) => Failure::ConnectionLost(error).of_read(),
            Attempt::NotConnected(error) => not_connected(&error),
            Attempt::TooLong => StoreError::Unavailable { reason: "the read took too long" },
            Attempt::Failed(failure) => failure.of_read(),
        }
    }
}

/// Throws out what is dead among the idle connections, at most as many as there are; stops at the first alive one.
async fn discard_dead(pool: &MySqlPool, limit: Duration) {
    for _ in 0..pool.num_idle() {
        let Some(mut idle) = pool.try_acquire() else { return };
        if let Ok(Ok(())) = tokio::time::timeout(limit, idle.ping()).await {
            return;
        }
        drop(idle.detach());
    }
}

async fn attempt<T, R>(pool: &MySqlPool, limit: Duration, spot: Spot, read: &R) -> Result<T, Attempt>
where
    R: for<'c> Fn(&'c mut MySqlConnection) -> Reading<'c, T>,
{
    let mut connection = pool.acquire().await.map_err(Attempt::NotConnected)?;
    let answer = around!(spot, tokio::time::timeout(limit, read(&mut connection)).await);
    let failed = match answer {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(error)) => match Failure::of(error) {
            Failure::ConnectionLost(error) => Attempt::Dead(error),
            failure @ (Failure::NotConnected(_) | Failure::ReadOnly) => Attempt::Failed(failure),
            failure @ (Failure::Contended
            | Failure::Overloaded(_)
            | Failure::Taken(_)
            | Failure::Refused(_)
            | Failure::Unexpected(_)) => return Err(Attempt::Failed(failure)),
        },
        Err(_) => Attempt::TooLong,
    };
    // Dead or half read: never back into the pool.
    drop(connection.detach());
    Err(failed)
}
