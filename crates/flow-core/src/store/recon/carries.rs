//! Entries that wait for another day's batch.

use chrono::NaiveDate;
use sqlx::{MySql, QueryBuilder};

use super::{Cells, MAX_PAGE_ROWS, ReconTables};
use crate::crash::Spot;
use crate::ids::{ChannelName, OrderRef};
use crate::ports::{Carry, CarryKey, CarrySide, EntryKind, StoreError};

const CARRY: Cells = Cells("recon_carry");

/// The columns of an entry.
#[derive(Debug, sqlx::FromRow)]
struct CarryRow {
    channel: String,
    business_day: NaiveDate,
    order_no: String,
    side: String,
    kind: String,
    entry_no: String,
    waits_for: NaiveDate,
    record: String,
}

impl CarryRow {
    fn read(self) -> Result<Carry, StoreError> {
        Ok(Carry {
            channel: CARRY.text("channel", self.channel, ChannelName::new)?,
            day: self.business_day,
            key: CarryKey {
                order_no: CARRY.text("order_no", self.order_no, OrderRef::new)?,
                side: CARRY.word("side", &self.side, CarrySide::parse)?,
                kind: CARRY.word("kind", &self.kind, EntryKind::parse)?,
                entry_no: CARRY.text("entry_no", self.entry_no, OrderRef::new)?,
            },
            waits_for: self.waits_for,
            record: self.record,
        })
    }
}

/// Every column of an entry.
const SELECT: &str = "SELECT channel, business_day, order_no, side, kind, entry_no, waits_for, record FROM recon_carry \
                      WHERE channel = ";

/// Condition that an entry's key follows another one.
fn push_after(query: &mut QueryBuilder<MySql>, key: &CarryKey) {
    let texts = [key.order_no.as_str(), key.side.as_str(), key.kind.as_str(), key.entry_no.as_str()]
        .map(str::to_owned);
    let [order_no, side, kind, entry_no] = texts;
    query.push("(order_no > ").push_bind(order_no.clone());
    query.push(" OR (order_no = ").push_bind(order_no);
    query.push(" AND (side > ").push_bind(side.clone());
    query.push(" OR (side = ").push_bind(side);
    query.push(" AND (kind > ").push_bind(kind.clone());
    query.push(" OR (kind = ").push_bind(kind);
    query.push(" AND entry_no > ").push_bind(entry_no).push("))))))");
}

impl ReconTables {
    pub(super) async fn put_carry(&self, carry: &Carry) -> Result<(), StoreError> {
        let carry = carry.clone();
        self.writes
            .run(Spot::ReconCarryPut, move |connection| {
                let carry = carry.clone();
                Box::pin(async move {
                    sqlx::query!(
                        "INSERT INTO recon_carry \
                           (channel, business_day, order_no, side, kind, entry_no, waits_for, record, created_at) \
                         VALUES (?, ?, ?, ?, ?, ?, ?, ?, NOW(3)) \
                         ON DUPLICATE KEY UPDATE waits_for = VALUES(waits_for), record = VALUES(record)",
                        carry.channel.as_str(),
                        carry.day,
                        carry.key.order_no.as_str(),
                        carry.key.side.as_str(),
                        carry.key.kind.as_str(),
                        carry.key.entry_no.as_str(),
                        carry.waits_for,
                        carry.record
                    )
                    .execute(connection)
                    .await
                    .map(|_| ())
                })
            })
            .await
            .map_err(super::NotWritten::into_store_error)
    }

    pub(super) async fn take_carry(
        &self,
        channel: &ChannelName,
        day: NaiveDate,
        key: &CarryKey,
    ) -> Result<(), StoreError> {
        let (channel, key) = (channel.clone(), key.clone());
        self.writes
            .run(Spot::ReconCarryTake, move |connection| {
                let (channel, key) = (channel.clone(), key.clone());
                Box::pin(async move {
                    sqlx::query!(
                        "DELETE FROM recon_carry WHERE channel = ? AND business_day = ? AND order_no = ? \
                           AND side = ? AND kind = ? AND entry_no = ?",
                        channel.as_str(),
                        day,
                        key.order_no.as_str(),
                        key.side.as_str(),
                        key.kind.as_str(),
                        key.entry_no.as_str()
                    )
                    .execute(connection)
                    .await
                    .map(|_| ())
                })
            })
            .await
            .map_err(super::NotWritten::into_store_error)
    }

    pub(super) async fn carries_for(
        &self,
        channel: &ChannelName,
        waits_for: NaiveDate,
        after: Option<(NaiveDate, &CarryKey)>,
        limit_rows: u32,
    ) -> Result<Vec<Carry>, StoreError> {
        let channel = channel.clone();
        let after = after.map(|(day, key)| (day, key.clone()));
        let rows: Vec<CarryRow> = self
            .reader
            .run(Spot::ReconCarryFor, move |connection| {
                let mut query = QueryBuilder::new(SELECT);
                query.push_bind(channel.as_str().to_owned()).push(" AND waits_for = ").push_bind(waits_for);
                if let Some((day, key)) = &after {
                    query.push(" AND (business_day > ").push_bind(*day);
                    query.push(" OR (business_day = ").push_bind(*day).push(" AND ");
                    push_after(&mut query, key);
                    query.push("))");
                }
                query.push(" ORDER BY business_day, order_no, side, kind, entry_no LIMIT ");
                query.push_bind(limit_rows.clamp(1, MAX_PAGE_ROWS));
                Box::pin(async move { query.build_query_as().fetch_all(connection).await })
            })
            .await?;
        rows.into_iter().map(CarryRow::read).collect()
    }

    pub(super) async fn carries_of(
        &self,
        channel: &ChannelName,
        day: NaiveDate,
        after: Option<&CarryKey>,
        limit_rows: u32,
    ) -> Result<Vec<Carry>, StoreError> {
        let (channel, after) = (channel.clone(), after.cloned());
        let rows: Vec<CarryRow> = self
            .reader
            .run(Spot::ReconCarryOf, move |connection| {
                let mut query = QueryBuilder::new(SELECT);
                query.push_bind(channel.as_str().to_owned()).push(" AND business_day = ").push_bind(day);
                if let Some(key) = &after {
                    query.push(" AND ");
                    push_after(&mut query, key);
                }
                query.push(" ORDER BY order_no, side, kind, entry_no LIMIT ");
                query.push_bind(limit_rows.clamp(1, MAX_PAGE_ROWS));
                Box::pin(async move { query.build_query_as().fetch_all(connection).await })
            })
            .await?;
        rows.into_iter().map(CarryRow::read).collect()
    }
}
