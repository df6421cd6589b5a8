//! Batches and their parts. A part is claimed by one guarded statement; a batch is made what its parts are by another one,
//! which anybody may repeat: a process that dies between the two leaves nothing that the next one does not put right.

use chrono::{NaiveDate, NaiveDateTime};
use sqlx::{MySql, QueryBuilder};
use uuid::Uuid;

use super::{Cells, MAX_CLAIM_MS, MAX_PAGE_ROWS, ReconTables, cut, json, outcome, utc};
use crate::crash::Spot;
use crate::ids::{BatchId, ChannelName};
use crate::ports::{
    Batch, BatchBill, BatchClaim, BatchPage, CasOutcome, ClaimPart, PartClaimed, PartEnd, StoreError,
};
use crate::recon::{BatchState, Tally};

/// The columns of a batch.
#[derive(Debug, sqlx::FromRow)]
struct BatchRow {
    id: i64,
    channel: String,
    business_day: NaiveDate,
    state: String,
    parts: i32,
    reason: Option<String>,
    started_at: Option<NaiveDateTime>,
    finished_at: Option<NaiveDateTime>,
}

/// The columns of a part.
#[derive(Debug)]
struct PartRow {
    state: String,
    runs: i64,
    tally: Option<String>,
    bill_sha256: Option<String>,
    bill_bytes: Option<i64>,
    bill_source: Option<String>,
}

const BATCH: Cells = Cells("recon_batch");
const PART: Cells = Cells("recon_batch_part");

fn claim_ms(ms: u64) -> i64 {
    i64::try_from(ms.min(MAX_CLAIM_MS)).unwrap_or(i64::MAX)
}

impl ReconTables {
    pub(super) async fn claim_part(&self, want: &ClaimPart) -> Result<PartClaimed, StoreError> {
        let batch = self.batch_of(&want.channel, want.day).await?;
        let (part, parts) = (want.partition.index(), want.partition.of());
        self.split(batch, parts).await?;
        self.part_of(batch, part, parts).await?;
        let (token, ahead_ms) = (Uuid::new_v4().to_string(), claim_ms(want.claim_ms));
        let given = token.clone();
        let written = self
            .writes
            .run(Spot::ReconPartClaim, move |connection| {
                let token = given.clone();
                Box::pin(async move {
                    sqlx::query!(
                        "UPDATE recon_batch_part p JOIN recon_batch b ON b.id = p.batch_id AND b.parts = p.parts \
                         SET p.state = 'RUNNING', p.claim_token = ?, p.runs = p.runs + 1, p.reason = NULL, \
                           p.claim_until = NOW(3) + INTERVAL ? * 1000 MICROSECOND, \
                           p.started_at = NOW(3), p.finished_at = NULL \
                         WHERE p.batch_id = ? AND p.parts = ? AND p.part = ? \
                           AND (p.state <> 'RUNNING' OR p.claim_until <= NOW(3))",
                        token,
                        ahead_ms,
                        batch,
                        parts,
                        part
                    )
                    .execute(connection)
                    .await
                    .map(|done| done.rows_affected())
                })
            })
            .await;
        if outcome(written)? == CasOutcome::Lost {
            return self.not_claimed(want).await;
        }
        self.settle(batch, parts).await?;
        let batch = BatchId::new(batch).map_err(|_| BATCH.corrupt("id"))?;
        Ok(PartClaimed::Granted(BatchClaim { batch, partition: want.partition, token }))
    }

    /// Why a claim was not granted.
    async fn not_claimed(&self, want: &ClaimPart) -> Result<PartClaimed, StoreError> {
        let batch = self.batch(&want.channel, want.day).await?;
        Ok(match batch {
            Some(batch) if batch.parts != want.partition.of() => {
                PartClaimed::SplitOtherwise { parts: batch.parts }
            }
            Some(_) | None => PartClaimed::Running,
        })
    }

    /// The id of the day's batch, which is made if there is none.
    async fn batch_of(&self, channel: &ChannelName, day: NaiveDate) -> Result<i64, StoreError> {
        let name = channel.clone();
        self.writes
            .run(Spot::ReconBatchOpen, move |connection| {
                let channel = name.clone();
                Box::pin(async move {
                    sqlx::query!(
                        "INSERT INTO recon_batch (channel, business_day, state, parts, created_at) \
                         VALUES (?, ?, 'PENDING', 1, NOW(3)) ON DUPLICATE KEY UPDATE channel = VALUES(channel)",
                        channel.as_str(),
                        day
                    )
                    .execute(connection)
                    .await
                    .map(|_| ())
                })
            })
            .await
            .map_err(super::NotWritten::into_store_error)?;
        let made = self.batch(channel, day).await?;
        Ok(made.ok_or_else(|| BATCH.corrupt("business_day"))?.id.get())
    }

    /// Says into how many parts the batch is split, unless a process works on it.
    async fn split(&self, batch: i64, parts: u32) -> Result<(), StoreError> {
        self.writes
            .run(Spot::ReconBatchParts, move |connection| {
                Box::pin(async move {
                    sqlx::query!(
                        "UPDATE recon_batch b LEFT JOIN recon_batch_part p \
                           ON p.batch_id = b.id AND p.state = 'RUNNING' AND p.claim_until > NOW(3) \
                         SET b.parts = ? WHERE b.id = ? AND b.parts <> ? AND p.batch_id IS NULL",
                        parts,
                        batch,
                        parts
                    )
                    .execute(connection)
                    .await
                    .map(|_| ())
                })
            })
            .await
            .map_err(super::NotWritten::into_store_error)
    }

    async fn part_of(&self, batch: i64, part: u32, parts: u32) -> Result<(), StoreError> {
        self.writes
            .run(Spot::ReconPartOpen, move |connection| {
                Box::pin(async move {
                    sqlx::query!(
                        "INSERT INTO recon_batch_part (batch_id, parts, part, state) VALUES (?, ?, ?, 'PENDING') \
                         ON DUPLICATE KEY UPDATE part = VALUES(part)",
                        batch,
                        parts,
                        part
                    )
                    .execute(connection)
                    .await
                    .map(|_| ())
                })
            })
            .await
            .map_err(super::NotWritten::into_store_error)
    }

    /// Makes the batch what its parts are.
    async fn settle(&self, batch: i64, parts: u32) -> Result<(), StoreError> {
        self.writes
            .run(Spot::ReconBatchSettle, move |connection| {
                Box::pin(async move {
                    sqlx::query!(
                        "UPDATE recon_batch b JOIN ( \
                           SELECT batch_id, SUM(state = 'RUNNING') AS running, SUM(state = 'FAILED') AS failed, \
                             SUM(state = 'DONE') AS done, COUNT(DISTINCT bill_sha256) AS bills, \
                             MAX(started_at) AS started_at, MAX(finished_at) AS finished_at, MAX(reason) AS reason \
                           FROM recon_batch_part WHERE batch_id = ? AND parts = ? GROUP BY batch_id) p \
                           ON p.batch_id = b.id \
                         SET b.state = CASE WHEN p.running > 0 THEN 'RUNNING' WHEN p.failed > 0 THEN 'FAILED' \
                             WHEN p.done < b.parts THEN 'PENDING' WHEN p.bills = 1 THEN 'DONE' ELSE 'FAILED' END, \
                           b.reason = CASE WHEN p.running > 0 THEN NULL WHEN p.failed > 0 THEN p.reason \
                             WHEN p.done < b.parts OR p.bills = 1 THEN NULL \
                             ELSE 'its parts were compared with different bills; run all of them again with one' END, \
                           b.started_at = p.started_at, \
                           b.finished_at = IF(p.running = 0 AND (p.failed > 0 OR p.done = b.parts), p.finished_at, NULL) \
                         WHERE b.parts = ?",
                        batch,
                        parts,
                        parts
                    )
                    .execute(connection)
                    .await
                    .map(|_| ())
                })
            })
            .await
            .map_err(super::NotWritten::into_store_error)
    }

    pub(super) async fn keep_part(
        &self,
        claim: &BatchClaim,
        ahead_ms: u64,
    ) -> Result<CasOutcome, StoreError> {
        let (claim, ahead_ms) = (claim.clone(), claim_ms(ahead_ms));
        let written = self
            .writes
            .run(Spot::ReconPartKeep, move |connection| {
                let claim = claim.clone();
                Box::pin(async move {
                    sqlx::query!(
                        "UPDATE recon_batch_part SET claim_until = NOW(3) + INTERVAL ? * 1000 MICROSECOND \
                         WHERE batch_id = ? AND parts = ? AND part = ? AND claim_token = ?",
                        ahead_ms,
                        claim.batch.get(),
                        claim.partition.of(),
                        claim.partition.index(),
                        claim.token
                    )
                    .execute(connection)
                    .await
                    .map(|done| done.rows_affected())
                })
            })
            .await;
        outcome(written)
    }

    pub(super) async fn end_part(&self, claim: &BatchClaim, end: &PartEnd) -> Result<CasOutcome, StoreError> {
        let (state, tally, bill, reason) = match end {
            PartEnd::Done { tally, bill } => (BatchState::Done, Some(json(tally)?), Some(bill.clone()), None),
            PartEnd::Failed { reason } => {
                (BatchState::Failed, None, None, Some(cut(reason, PartEnd::MAX_REASON_CHARS)))
            }
        };
        let owned = claim.clone();
        let written = self
            .writes
            .run(Spot::ReconPartEnd, move |connection| {
                let (claim, tally, bill, reason) =
                    (owned.clone(), tally.clone(), bill.clone(), reason.clone());
                Box::pin(async move {
                    sqlx::query!(
                        "UPDATE recon_batch_part SET state = ?, tally = ?, bill_sha256 = ?, bill_bytes = ?, \
                           bill_source = ?, reason = ?, finished_at = NOW(3), claim_token = NULL, claim_until = NULL \
                         WHERE batch_id = ? AND parts = ? AND part = ? AND claim_token = ?",
                        state.as_str(),
                        tally,
                        bill.as_ref().map(|bill| bill.sha256.as_str()),
                        bill.as_ref().map(|bill| i64::try_from(bill.bytes).unwrap_or(i64::MAX)),
                        bill.as_ref().map(|bill| cut(&bill.source, 500)),
                        reason,
                        claim.batch.get(),
                        claim.partition.of(),
                        claim.partition.index(),
                        claim.token
                    )
                    .execute(connection)
                    .await
                    .map(|done| done.rows_affected())
                })
            })
            .await;
        let ended = outcome(written)?;
        self.settle(claim.batch.get(), claim.partition.of()).await?;
        Ok(ended)
    }

    pub(super) async fn batch(
        &self,
        channel: &ChannelName,
        day: NaiveDate,
    ) -> Result<Option<Batch>, StoreError> {
        let before = day.succ_opt().unwrap_or(day);
        let page = BatchPage { channel: Some(channel.clone()), before: Some(before), limit_rows: 1 };
        let newest = self.batches(&page).await?.into_iter().next();
        Ok(newest.filter(|batch| batch.day == day))
    }

    pub(super) async fn batches(&self, page: &BatchPage) -> Result<Vec<Batch>, StoreError> {
        let page = BatchPage { limit_rows: page.limit_rows.clamp(1, MAX_PAGE_ROWS), ..page.clone() };
        let rows: Vec<BatchRow> = self
            .reader
            .run(Spot::ReconBatchFind, move |connection| {
                let mut statement = find_statement(&page);
                Box::pin(async move { statement.build_query_as().fetch_all(connection).await })
            })
            .await?;
        let mut batches = Vec::with_capacity(rows.len());
        for row in rows {
            let parts = self.parts(row.id, row.parts).await?;
            batches.push(read(row, parts)?);
        }
        Ok(batches)
    }

    async fn parts(&self, batch: i64, parts: i32) -> Result<Vec<PartRow>, StoreError> {
        self.reader
            .run(Spot::ReconPartRead, move |connection| {
                Box::pin(
                    sqlx::query_as!(
                        PartRow,
                        "SELECT state, runs, tally AS `tally: String`, bill_sha256 AS `bill_sha256: String`, \
                           bill_bytes, bill_source AS `bill_source: String` FROM recon_batch_part \
                         WHERE batch_id = ? AND parts = ? ORDER BY part",
                        batch,
                        parts
                    )
                    .fetch_all(connection),
                )
            })
            .await
    }
}

fn find_statement(page: &BatchPage) -> QueryBuilder<MySql> {
    let mut query = QueryBuilder::new(
        "SELECT id, channel, business_day, state, parts, reason, started_at, finished_at FROM recon_batch WHERE 1 = 1",
    );
    if let Some(channel) = &page.channel {
        query.push(" AND channel = ").push_bind(channel.as_str().to_owned());
    }
    if let Some(before) = page.before {
        query.push(" AND business_day < ").push_bind(before);
    }
    query.push(" ORDER BY business_day DESC, channel LIMIT ").push_bind(page.limit_rows);
    query
}

fn read(row: BatchRow, parts: Vec<PartRow>) -> Result<Batch, StoreError> {
    let mut tally = Tally::default();
    let (mut bill, mut parts_done, mut runs) = (None, 0, 0_u64);
    for part in parts {
        let state = PART.word("state", &part.state, BatchState::parse)?;
        runs = runs.saturating_add(PART.number("runs", part.runs)?);
        if state != BatchState::Done {
            continue;
        }
        parts_done += 1;
        let counted = part.tally.as_deref().and_then(|text| serde_json::from_str::<Tally>(text).ok());
        tally.add(&counted.ok_or_else(|| PART.corrupt("tally"))?);
        if let (Some(sha256), Some(bytes), Some(source)) =
            (part.bill_sha256, part.bill_bytes, part.bill_source)
        {
            bill = Some(BatchBill { sha256, bytes: PART.number("bill_bytes", bytes)?, source });
        }
    }
    Ok(Batch {
        id: BatchId::new(row.id).map_err(|_| BATCH.corrupt("id"))?,
        channel: BATCH.text("channel", row.channel, ChannelName::new)?,
        day: row.business_day,
        state: BATCH.word("state", &row.state, BatchState::parse)?,
        parts: BATCH.number("parts", row.parts)?,
        parts_done,
        runs,
        tally,
        bill,
        reason: row.reason,
        started_at: utc(row.started_at),
        finished_at: utc(row.finished_at),
    })
}
