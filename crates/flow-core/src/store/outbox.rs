//! The outbox's statements. Its rows are written by a trigger on the flow (`migrations/0006_outbox.sql`); here they are
//! claimed, settled and read. Each write is one autocommit statement that names what it expects, in a task of its own;
//! the log of attempts is written by a trigger, too.

use async_trait::async_trait;
use chrono::NaiveDateTime;
use serde::Serialize;
use sqlx::{MySql, QueryBuilder};
use uuid::Uuid;

use super::MySqlStore;
use super::rows::Row;
use crate::crash::Spot;
use crate::ids::{Actor, BizKey, CallerId, FlowId, Scene, TradeOrderNo, UserId, Version};
use crate::notify::{Delivery, EventId, NextStep, Notification, NotifiedChange};
use crate::ports::{
    ClaimPage, Claimed, DeliveryAttempt, NotifiedCaller, Outbox, OutboxFilter, OutboxPage, OutboxRow,
    OutboxSummary, Resent, Settled, Settlement, StoreError,
};
use crate::state::State;

/// Most rows of one page or claim, whatever is asked for.
const MAX_PAGE_ROWS: u32 = 1_000;
/// Longest time ahead that a row is put off, in milliseconds: a hundred years, within the server's range.
const MAX_AHEAD_MS: u64 = 3_153_600_000_000;

/// A row's identity, as the statements over many take it.
#[derive(Debug, Clone, Copy, Serialize)]
struct Key {
    flow_id: i64,
    version: i64,
}

impl Key {
    fn of(id: EventId) -> Key {
        // An id that was read from the database, or parsed, fits.
        Key { flow_id: id.flow_id.get(), version: i64::try_from(id.version.0).unwrap_or(i64::MAX) }
    }
}

/// The columns of a notification with the identity of its flow.
#[derive(Debug, sqlx::FromRow)]
struct NotificationRow {
    flow_id: i64,
    version: i64,
    caller_id: String,
    change_kind: String,
    flow_status: String,
    created_at: NaiveDateTime,
    delivery: String,
    next_attempt_time: NaiveDateTime,
    attempts: i32,
    tries: i32,
    last_answer: Option<String>,
    last_http_status: Option<i16>,
    last_attempt_at: Option<NaiveDateTime>,
    delivered_at: Option<NaiveDateTime>,
    resent_at: Option<NaiveDateTime>,
    resent_by: Option<String>,
    user_id: i64,
    scene: String,
    biz_key: String,
    trade_order_no: String,
}

impl NotificationRow {
    fn read(self) -> Result<OutboxRow, StoreError> {
        let at = Row(self.flow_id);
        let notification = Notification {
            id: EventId {
                flow_id: at.need("flow_id", FlowId::new(self.flow_id).ok())?,
                version: Version(at.count("version", Some(self.version))?),
            },
            caller: at.text("caller_id", Some(self.caller_id), CallerId::new)?,
            change: at.word("change_kind", Some(self.change_kind), NotifiedChange::parse)?,
            state: at.word("flow_status", Some(self.flow_status), State::parse)?,
            at: self.created_at.and_utc(),
            user_id: at.need("user_id", UserId::new(self.user_id).ok())?,
            scene: at.text("scene", Some(self.scene), Scene::new)?,
            biz_key: at.text("biz_key", Some(self.biz_key), BizKey::new)?,
            trade_order_no: at.text("trade_order_no", Some(self.trade_order_no), TradeOrderNo::try_from)?,
        };
        Ok(OutboxRow {
            notification,
            delivery: at.word("delivery", Some(self.delivery), Delivery::parse)?,
            next_attempt_at: self.next_attempt_time.and_utc(),
            attempts: at.count("attempts", Some(self.attempts))?,
            tries: at.count("tries", Some(self.tries))?,
            last_answer: self.last_answer,
            last_http_status: self.last_http_status.and_then(|status| u16::try_from(status).ok()),
            last_attempt_at: self.last_attempt_at.map(|time| time.and_utc()),
            delivered_at: self.delivered_at.map(|time| time.and_utc()),
            resent_at: self.resent_at.map(|time| time.and_utc()),
            resent_by: self.resent_by,
        })
    }
}

/// What a settlement writes, flat.
struct SettleRow {
    delivery: &'static str,
    in_ms: Option<i64>,
    /// 1: it was an attempt, and counts.
    counted: i32,
    is_delivered: bool,
}

impl SettleRow {
    fn of(next: NextStep) -> SettleRow {
        let ahead = |ms: u64| i64::try_from(ms.min(MAX_AHEAD_MS)).ok();
        let row = |delivery: Delivery, in_ms, counted| SettleRow {
            delivery: delivery.as_str(),
            in_ms,
            counted,
            is_delivered: delivery == Delivery::Delivered,
        };
        match next {
            NextStep::Delivered => row(Delivery::Delivered, None, 1),
            NextStep::Retry { in_ms } => row(Delivery::Pending, ahead(in_ms), 1),
            NextStep::Dead => row(Delivery::Dead, None, 1),
            NextStep::Postponed { in_ms } => row(Delivery::Pending, ahead(in_ms), 0),
        }
    }
}

fn json<T: Serialize>(rows: &[T]) -> Result<String, StoreError> {
    serde_json::to_string(rows).map_err(|error| StoreError::Unexpected(Box::new(error)))
}

impl MySqlStore {
    /// Oldest first, from the index of one receiver; nothing is locked.
    async fn due_keys(&self, caller: &CallerId, limit_rows: u32) -> Result<Vec<Key>, StoreError> {
        let caller = caller.clone();
        let mut keys = self
            .reader
            .run(Spot::OutboxDue, move |connection| {
                let caller = caller.clone();
                Box::pin(async move {
                    sqlx::query_as!(
                        Key,
                        "SELECT flow_id, version FROM pay_outbox FORCE INDEX (idx_outbox_due) \
                         WHERE caller_id = ? AND delivery = 'PENDING' AND next_attempt_time <= NOW(3) \
                         ORDER BY next_attempt_time LIMIT ?",
                        caller.as_str(),
                        limit_rows
                    )
                    .fetch_all(connection)
                    .await
                })
            })
            .await?;
        // One order for everybody: two processes that claim the same rows wait for each other, but never in a circle.
        keys.sort_by_key(|key| (key.flow_id, key.version));
        Ok(keys)
    }

    /// Of the given rows, those that are still due become this claim's. A row that another process has claimed is not due.
    async fn claim(&self, keys: &str, token: &str, claim_ms: u64) -> Result<(), StoreError> {
        let (keys, token) = (keys.to_owned(), token.to_owned());
        let claim_ms = i64::try_from(claim_ms.min(MAX_AHEAD_MS)).unwrap_or(i64::MAX);
        self.reader
            .run_once(Spot::OutboxClaim, move |connection| {
                let (keys, token) = (keys.clone(), token.clone());
                Box::pin(async move {
                    sqlx::query!(
                        "UPDATE JSON_TABLE(?, '$[*]' COLUMNS ( \
                            flow_id BIGINT PATH '$.flow_id', version BIGINT PATH '$.version')) v \
                         STRAIGHT_JOIN pay_outbox o FORCE INDEX (PRIMARY) \
                            ON o.flow_id = v.flow_id AND o.version = v.version \
                               AND o.delivery = 'PENDING' AND o.next_attempt_time <= NOW(3) \
                         SET o.claim_token = ?, o.next_attempt_time = NOW(3) + INTERVAL ? * 1000 MICROSECOND",
                        keys,
                        token,
                        claim_ms
                    )
                    .execute(connection)
                    .await
                    .map(|_| ())
                })
            })
            .await
    }

    async fn claimed(&self, keys: &str, token: &str) -> Result<Vec<Claimed>, StoreError> {
        let (keys, given) = (keys.to_owned(), token.to_owned());
        let rows = self
            .reader
            .run(Spot::OutboxClaimed, move |connection| {
                let (keys, token) = (keys.clone(), given.clone());
                Box::pin(async move {
                    sqlx::query_as!(
                        NotificationRow,
                        "SELECT o.flow_id, o.version, o.caller_id, o.change_kind, o.flow_status, o.created_at, \
                            o.delivery, o.next_attempt_time, o.attempts, o.tries, o.last_answer, o.last_http_status, \
                            o.last_attempt_at, o.delivered_at, o.resent_at, o.resent_by, \
                            f.user_id, f.scene, f.biz_key, f.trade_order_no \
                         FROM JSON_TABLE(?, '$[*]' COLUMNS ( \
                            flow_id BIGINT PATH '$.flow_id', version BIGINT PATH '$.version')) v \
                         STRAIGHT_JOIN pay_outbox o FORCE INDEX (PRIMARY) \
                            ON o.flow_id = v.flow_id AND o.version = v.version \
                         STRAIGHT_JOIN internal_pay_flow f FORCE INDEX (PRIMARY) ON f.id = o.flow_id \
                         WHERE o.claim_token = ?",
                        keys,
                        token
                    )
                    .fetch_all(connection)
                    .await
                })
            })
            .await?;
        rows.into_iter()
            .map(|row| {
                let OutboxRow { notification, tries, .. } = row.read()?;
                Ok(Claimed { notification, tries, claim: token.to_owned() })
            })
            .collect()
    }
}

#[async_trait]
impl Outbox for MySqlStore {
    async fn set_callers(&self, callers: &[NotifiedCaller]) -> Result<(), StoreError> {
        #[derive(Serialize)]
        struct CallerRow<'a> {
            caller: &'a str,
            is_enabled: u8,
        }
        let row = |caller: &NotifiedCaller| (caller.caller.as_str().to_owned(), u8::from(caller.is_enabled));
        let mut rows: Vec<(String, u8)> = callers.iter().map(row).collect();
        rows.sort();
        let rows: Vec<CallerRow<'_>> =
            rows.iter().map(|(caller, is_enabled)| CallerRow { caller, is_enabled: *is_enabled }).collect();
        let rows = json(&rows)?;
        self.reader
            .run_once(Spot::OutboxCallers, move |connection| {
                let rows = rows.clone();
                Box::pin(async move {
                    sqlx::query!(
                        "INSERT INTO pay_notify_caller (caller_id, is_enabled, update_time) \
                         SELECT v.caller, v.is_enabled, NOW(3) FROM JSON_TABLE(?, '$[*]' COLUMNS ( \
                            caller VARCHAR(65) CHARACTER SET ascii COLLATE ascii_bin PATH '$.caller' ERROR ON ERROR, \
                            is_enabled TINYINT PATH '$.is_enabled')) v \
                         ON DUPLICATE KEY UPDATE is_enabled = v.is_enabled, update_time = NOW(3)",
                        rows
                    )
                    .execute(connection)
                    .await
                    .map(|_| ())
                })
            })
            .await
    }

    async fn claim_due(&self, page: ClaimPage) -> Result<Vec<Claimed>, StoreError> {
        let keys = self.due_keys(&page.caller, page.limit_rows.clamp(1, MAX_PAGE_ROWS)).await?;
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let (keys, token) = (json(&keys)?, Uuid::new_v4().to_string());
        match self.claim(&keys, &token, page.claim_ms).await {
            // What was claimed after all is found by its token.
            Ok(()) | Err(StoreError::OutcomeUnknown) => self.claimed(&keys, &token).await,
            Err(error) => Err(error),
        }
    }

    async fn settle(&self, settlement: Settlement) -> Result<Settled, StoreError> {
        let key = Key::of(settlement.id);
        let row = SettleRow::of(settlement.next);
        let (answer, claim) = (settlement.answer, settlement.claim);
        let latency_ms = settlement.latency_ms;
        let written = self
            .reader
            .run_once(Spot::OutboxSettle, move |connection| {
                let claim = claim.clone();
                let SettleRow { delivery, in_ms, counted, is_delivered } = row;
                Box::pin(async move {
                    sqlx::query!(
                        "UPDATE pay_outbox SET delivery = ?, \
                           next_attempt_time = COALESCE(NOW(3) + INTERVAL ? * 1000 MICROSECOND, NOW(3)), \
                           attempts = attempts + ?, tries = tries + ?, \
                           last_answer = IF(?, ?, last_answer), \
                           last_http_status = IF(?, ?, last_http_status), \
                           last_latency_ms = IF(?, ?, last_latency_ms), \
                           last_attempt_at = IF(?, NOW(3) - INTERVAL ? * 1000 MICROSECOND, last_attempt_at), \
                           delivered_at = IF(?, NOW(3), delivered_at), \
                           claim_token = NULL \
                         WHERE flow_id = ? AND version = ? AND claim_token = ?",
                        delivery,
                        in_ms,
                        counted,
                        counted,
                        counted,
                        answer.class(),
                        counted,
                        answer.http_status(),
                        counted,
                        latency_ms,
                        counted,
                        i64::from(latency_ms),
                        is_delivered,
                        key.flow_id,
                        key.version,
                        claim
                    )
                    .execute(connection)
                    .await
                    .map(|done| done.rows_affected())
                })
            })
            .await?;
        Ok(if written == 0 { Settled::ClaimLost } else { Settled::Written })
    }

    async fn resend(&self, id: EventId, by: &Actor) -> Result<Resent, StoreError> {
        let (key, by) = (Key::of(id), by.clone());
        let written = self
            .reader
            .run_once(Spot::OutboxResend, move |connection| {
                let by = by.clone();
                Box::pin(async move {
                    sqlx::query!(
                        "UPDATE pay_outbox SET delivery = 'PENDING', next_attempt_time = NOW(3), tries = 0, \
                           claim_token = NULL, resent_at = NOW(3), resent_by = ? \
                         WHERE flow_id = ? AND version = ? AND delivery <> 'PENDING'",
                        by.as_str(),
                        key.flow_id,
                        key.version
                    )
                    .execute(connection)
                    .await
                    .map(|done| done.rows_affected())
                })
            })
            .await?;
        if written > 0 {
            return Ok(Resent::Queued);
        }
        let filter = OutboxFilter { id: Some(id), ..OutboxFilter::default() };
        let found = self.find_notifications(&filter, None, 1).await?;
        Ok(if found.rows.is_empty() { Resent::NotFound } else { Resent::Pending })
    }

    async fn find_notifications(
        &self,
        filter: &OutboxFilter,
        before: Option<EventId>,
        limit_rows: u32,
    ) -> Result<OutboxPage, StoreError> {
        let wanted_rows = limit_rows.clamp(1, MAX_PAGE_ROWS);
        let filter = filter.clone();
        let found: Vec<NotificationRow> = self
            .reader
            .run(Spot::OutboxFind, move |connection| {
                let mut statement = find_statement(&filter, before, wanted_rows + 1);
                Box::pin(async move { statement.build_query_as().fetch_all(connection).await })
            })
            .await?;
        let wanted = usize::try_from(wanted_rows).unwrap_or(usize::MAX);
        let has_more = found.len() > wanted;
        let rows = found.into_iter().take(wanted).map(NotificationRow::read).collect::<Result<_, _>>()?;
        Ok(OutboxPage { rows, has_more })
    }

    async fn attempts(
        &self,
        id: EventId,
        after_attempt_no: u32,
        limit_rows: u32,
    ) -> Result<Vec<DeliveryAttempt>, StoreError> {
        let key = Key::of(id);
        let limit_rows = limit_rows.clamp(1, MAX_PAGE_ROWS);
        let lines = self
            .reader
            .run(Spot::OutboxAttempts, move |connection| {
                Box::pin(
                    sqlx::query!(
                        "SELECT attempt_no, attempted_at, answer, http_status, latency_ms FROM pay_outbox_attempt \
                         WHERE flow_id = ? AND version = ? AND attempt_no > ? ORDER BY attempt_no LIMIT ?",
                        key.flow_id,
                        key.version,
                        after_attempt_no,
                        limit_rows
                    )
                    .fetch_all(connection),
                )
            })
            .await?;
        let at = Row(key.flow_id);
        lines
            .into_iter()
            .map(|line| {
                Ok(DeliveryAttempt {
                    attempt_no: at.count("attempt_no", Some(line.attempt_no))?,
                    at: line.attempted_at.and_utc(),
                    answer: line.answer,
                    http_status: line.http_status.and_then(|status| u16::try_from(status).ok()),
                    latency_ms: line.latency_ms,
                })
            })
            .collect()
    }

    async fn summarise_outbox(&self) -> Result<Vec<OutboxSummary>, StoreError> {
        let rows = self
            .reader
            .run(Spot::OutboxSummary, |connection| {
                Box::pin(
                    sqlx::query!(
                        "SELECT caller_id, \
                           CAST(SUM(delivery = 'PENDING') AS SIGNED) AS `pending!`, \
                           CAST(SUM(delivery = 'DEAD') AS SIGNED) AS `dead!`, \
                           CAST(GREATEST(COALESCE(MAX(IF(delivery = 'PENDING', \
                             TIMESTAMPDIFF(MICROSECOND, created_at, NOW(3)), 0)), 0), 0) DIV 1000 AS SIGNED) AS `oldest_ms!` \
                         FROM pay_outbox FORCE INDEX (idx_outbox_delivery) \
                         WHERE delivery IN ('PENDING', 'DEAD') GROUP BY caller_id"
                    )
                    .fetch_all(connection),
                )
            })
            .await?;
        rows.into_iter()
            .map(|row| {
                let caller = CallerId::new(row.caller_id)
                    .map_err(|_| StoreError::Corrupt { flow_id: 0, column: "caller_id" })?;
                Ok(OutboxSummary {
                    caller,
                    pending_rows: row.pending.unsigned_abs(),
                    oldest_pending_ms: row.oldest_ms.unsigned_abs(),
                    dead_rows: row.dead.unsigned_abs(),
                })
            })
            .collect()
    }
}

/// Newest flow first. A filter by application alone walks the primary key backwards, until the read's time limit.
fn find_statement(filter: &OutboxFilter, before: Option<EventId>, limit_rows: u32) -> QueryBuilder<MySql> {
    let mut query = QueryBuilder::new(
        "SELECT o.flow_id, o.version, o.caller_id, o.change_kind, o.flow_status, o.created_at, o.delivery, \
           o.next_attempt_time, o.attempts, o.tries, o.last_answer, o.last_http_status, o.last_attempt_at, \
           o.delivered_at, o.resent_at, o.resent_by, f.user_id, f.scene, f.biz_key, f.trade_order_no \
         FROM pay_outbox o JOIN internal_pay_flow f ON f.id = o.flow_id WHERE 1 = 1",
    );
    if let Some(delivery) = filter.delivery {
        query.push(" AND o.delivery = ").push_bind(delivery.as_str());
    }
    if let Some(caller) = &filter.caller {
        query.push(" AND o.caller_id = ").push_bind(caller.as_str().to_owned());
    }
    if let Some(key) = filter.id.map(Key::of) {
        query.push(" AND o.flow_id = ").push_bind(key.flow_id);
        query.push(" AND o.version = ").push_bind(key.version);
    }
    if let Some(key) = before.map(Key::of) {
        query.push(" AND o.flow_id <= ").push_bind(key.flow_id);
        query.push(" AND (o.flow_id < ").push_bind(key.flow_id);
        query.push(" OR o.version < ").push_bind(key.version).push(")");
    }
    query.push(" ORDER BY o.flow_id DESC, o.version DESC LIMIT ").push_bind(limit_rows);
    query
}
