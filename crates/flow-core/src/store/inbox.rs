//! The inbox on MySQL and MariaDB: guarded single statements, each in a task of its own that no caller cancels, on a
//! few connections of its own, which are made when the first event comes.

use std::sync::Arc;

use chrono::NaiveDateTime;

use super::connect::{Connector, DatabaseClock};
use super::errors::{Failure, TakenKey};
use super::reads::Reader;
use super::single::{NotWritten, SingleWrites};
use crate::callback::{Claim, EventKey, EventType, NewEvent};
use crate::crash::Spot;
use crate::ids::{ChannelName, EventId, InboxId, TraceId, TradeOrderNo, Version};
use crate::money::{Currency, Money};
use crate::ports::{
    CasOutcome, InboxChange, InboxEvent, InboxPage, InboxState, InboxSummary, InboxWrite, Recorded,
    StoreError,
};

/// Connections of one process for what it writes to the inbox.
const CONNECTIONS: u32 = 8;

/// The inbox's statements.
#[derive(Debug, Clone)]
pub(super) struct InboxTable {
    writes: SingleWrites,
    reader: Reader,
    clock: Arc<DatabaseClock>,
}

impl InboxTable {
    pub(super) fn new(connector: &Connector, reader: Reader, clock: Arc<DatabaseClock>) -> InboxTable {
        InboxTable { writes: SingleWrites::new(connector, CONNECTIONS), reader, clock }
    }

    /// Closes the pool; writes under way finish first.
    pub(super) async fn close(&self) {
        self.writes.close().await;
    }

    pub(super) async fn record(&self, event: NewEvent, claim_ms: u64) -> Result<Recorded, StoreError> {
        if event.raw.len() > NewEvent::MAX_RAW_BYTES {
            return Err(StoreError::Guarded { message: "the event is longer than is kept".to_owned() });
        }
        let kept = event.clone();
        let claim_ms = i64::try_from(claim_ms).unwrap_or(i64::MAX).min(MAX_DELAY_MS);
        let inserted = self
            .writes
            .run(Spot::InboxRecord, move |connection| {
                let event = kept.clone();
                Box::pin(async move {
                    sqlx::query!(
                        "INSERT INTO pay_inbox (order_no, event_type, channel, event_id, claim, amount, currency, \
                           raw, trace_id, state, received_at, next_try_at) \
                         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'NEW', NOW(3), NOW(3) + INTERVAL ? * 1000 MICROSECOND)",
                        event.key.order_no.as_str(),
                        event.key.event_type.as_str(),
                        event.key.channel.as_str(),
                        event.key.event_id.as_str(),
                        event.claim.as_str(),
                        event.money.as_ref().map(Money::amount),
                        event.money.as_ref().map(|money| money.currency().as_str()),
                        event.raw,
                        event.trace_id.as_ref().map(TraceId::as_str),
                        claim_ms
                    )
                    .execute(connection)
                    .await
                    .map(|done| done.last_insert_id())
                })
            })
            .await;
        match inserted {
            Ok(id) => {
                let corrupt = |_| StoreError::Corrupt { flow_id: 0, column: "pay_inbox.id" };
                let id = i64::try_from(id).unwrap_or(0);
                Ok(Recorded::Stored(InboxEvent {
                    id: InboxId::new(id).map_err(corrupt)?,
                    key: event.key,
                    claim: event.claim,
                    money: event.money,
                    trace_id: event.trace_id,
                    version: Version::FIRST,
                    tries: 0,
                    received_at: self.clock.estimate(),
                }))
            }
            Err(NotWritten::Failed(Failure::Taken(TakenKey::InboxEvent))) => self.known(event.key).await,
            Err(failed) => Err(failed.into_store_error()),
        }
    }

    /// What became of an event that comes again.
    async fn known(&self, key: EventKey) -> Result<Recorded, StoreError> {
        let state = self
            .reader
            .run(Spot::InboxKnown, move |connection| {
                let key = key.clone();
                Box::pin(async move {
                    sqlx::query_scalar!(
                        "SELECT state FROM pay_inbox \
                         WHERE order_no = ? AND event_type = ? AND channel = ? AND event_id = ?",
                        key.order_no.as_str(),
                        key.event_type.as_str(),
                        key.channel.as_str(),
                        key.event_id.as_str()
                    )
                    .fetch_one(connection)
                    .await
                })
            })
            .await?;
        let state = InboxState::parse(&state);
        Ok(Recorded::Known(state.ok_or(StoreError::Corrupt { flow_id: 0, column: "pay_inbox.state" })?))
    }

    /// Walks the index of open events alone; the rows of the page are joined after.
    pub(super) async fn list_due(&self, page: InboxPage) -> Result<Vec<InboxEvent>, StoreError> {
        let rows = self
            .reader
            .run(Spot::InboxList, move |connection| {
                Box::pin(
                    sqlx::query_as!(
                        EventRow,
                        "SELECT e.id, e.order_no, e.event_type, e.channel, e.event_id, e.claim, e.amount, e.currency, \
                           e.trace_id, e.version, e.tries, e.received_at \
                         FROM (SELECT id FROM pay_inbox FORCE INDEX (idx_inbox_open) \
                               WHERE is_open = 1 AND id > ? AND next_try_at <= ? ORDER BY id LIMIT ?) page \
                         JOIN pay_inbox e ON e.id = page.id ORDER BY e.id",
                        page.after_id,
                        page.due_by.naive_utc(),
                        page.limit_rows
                    )
                    .fetch_all(connection),
                )
            })
            .await?;
        rows.into_iter().map(EventRow::event).collect()
    }

    pub(super) async fn claim(
        &self,
        id: InboxId,
        version: Version,
        claim_ms: u64,
    ) -> Result<CasOutcome, StoreError> {
        let (id, version) = (id.get(), stored_version(version));
        let claim_ms = i64::try_from(claim_ms).unwrap_or(i64::MAX).min(MAX_DELAY_MS);
        let rows = self
            .writes
            .run(Spot::InboxClaim, move |connection| {
                Box::pin(async move {
                    sqlx::query!(
                        "UPDATE pay_inbox SET version = version + 1, tries = tries + 1, \
                           next_try_at = NOW(3) + INTERVAL ? * 1000 MICROSECOND \
                         WHERE id = ? AND state = 'NEW' AND version = ? AND next_try_at <= NOW(3)",
                        claim_ms,
                        id,
                        version
                    )
                    .execute(connection)
                    .await
                    .map(|done| done.rows_affected())
                })
            })
            .await;
        outcome(rows)
    }

    pub(super) async fn settle(&self, write: InboxWrite) -> Result<CasOutcome, StoreError> {
        let (id, version) = (write.id.get(), stored_version(write.version));
        let (state, note) = (write.change.state().as_str(), write.change.note());
        let next_in_ms = match write.change {
            InboxChange::TryAgain { next_in_ms, .. } => {
                i64::try_from(next_in_ms).unwrap_or(i64::MAX).min(MAX_DELAY_MS)
            }
            InboxChange::Processed | InboxChange::Contradicted { .. } | InboxChange::GivenUp { .. } => 0,
        };
        let rows = self
            .writes
            .run(Spot::InboxSettle, move |connection| {
                Box::pin(async move {
                    sqlx::query!(
                        "UPDATE pay_inbox SET state = ?, note = ?, version = version + 1, \
                           processed_at = IF(? = 'NEW', NULL, NOW(3)), \
                           next_try_at = NOW(3) + INTERVAL ? * 1000 MICROSECOND \
                         WHERE id = ? AND state = 'NEW' AND version = ?",
                        state,
                        note,
                        state,
                        next_in_ms,
                        id,
                        version
                    )
                    .execute(connection)
                    .await
                    .map(|done| done.rows_affected())
                })
            })
            .await;
        outcome(rows)
    }

    pub(super) async fn summarise(&self) -> Result<InboxSummary, StoreError> {
        let found = self
            .reader
            .run(Spot::InboxSummarise, |connection| {
                Box::pin(
                    sqlx::query!(
                        "SELECT COUNT(*) AS `open!`, \
                           CAST(GREATEST(COALESCE(MAX(TIMESTAMPDIFF(MICROSECOND, received_at, NOW(3))), 0), 0) \
                             DIV 1000 AS SIGNED) AS `oldest_age_ms!` \
                         FROM pay_inbox FORCE INDEX (idx_inbox_open) WHERE is_open = 1"
                    )
                    .fetch_one(connection),
                )
            })
            .await?;
        Ok(InboxSummary {
            open_rows: found.open.unsigned_abs(),
            oldest_open_age_ms: found.oldest_age_ms.unsigned_abs(),
        })
    }
}

/// Longest delay that a statement is given, in milliseconds: a thousand years.
const MAX_DELAY_MS: i64 = 31_536_000_000_000;

fn stored_version(version: Version) -> i64 {
    i64::try_from(version.0).unwrap_or(i64::MAX)
}

fn outcome(rows: Result<u64, NotWritten>) -> Result<CasOutcome, StoreError> {
    match rows {
        Ok(0) => Ok(CasOutcome::Lost),
        Ok(_) => Ok(CasOutcome::Applied),
        Err(failed) => Err(failed.into_store_error()),
    }
}

/// The columns of an open event.
struct EventRow {
    id: i64,
    order_no: String,
    event_type: String,
    channel: String,
    event_id: String,
    claim: String,
    amount: Option<i64>,
    currency: Option<String>,
    trace_id: Option<String>,
    version: i64,
    tries: i32,
    received_at: NaiveDateTime,
}

impl EventRow {
    /// What no version of this program writes is an error, never guessed at.
    fn event(self) -> Result<InboxEvent, StoreError> {
        let inbox_id = self.id;
        let corrupt = |column: &'static str| {
            tracing::error!(inbox_id, column, "a stored event is not readable");
            StoreError::Corrupt { flow_id: 0, column }
        };
        let money = match (self.amount, self.currency) {
            (Some(amount), Some(currency)) => {
                let currency = Currency::new(currency).map_err(|_| corrupt("pay_inbox.currency"))?;
                Some(Money::new(amount, currency).map_err(|_| corrupt("pay_inbox.amount"))?)
            }
            (None, None) => None,
            (Some(_), None) | (None, Some(_)) => return Err(corrupt("pay_inbox.currency")),
        };
        Ok(InboxEvent {
            id: InboxId::new(self.id).map_err(|_| corrupt("pay_inbox.id"))?,
            key: EventKey {
                order_no: TradeOrderNo::try_from(self.order_no).map_err(|_| corrupt("pay_inbox.order_no"))?,
                event_type: EventType::parse(&self.event_type)
                    .ok_or_else(|| corrupt("pay_inbox.event_type"))?,
                channel: ChannelName::new(self.channel).map_err(|_| corrupt("pay_inbox.channel"))?,
                event_id: EventId::new(self.event_id).map_err(|_| corrupt("pay_inbox.event_id"))?,
            },
            claim: Claim::parse(&self.claim).ok_or_else(|| corrupt("pay_inbox.claim"))?,
            money,
            trace_id: self.trace_id.and_then(|text| TraceId::new(text).ok()),
            version: Version(u64::try_from(self.version).map_err(|_| corrupt("pay_inbox.version"))?),
            tries: u32::try_from(self.tries).map_err(|_| corrupt("pay_inbox.tries"))?,
            received_at: self.received_at.and_utc(),
        })
    }
}
