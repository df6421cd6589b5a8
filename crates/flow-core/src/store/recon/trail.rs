//! The trail of a ticket, and what open tickets add up to.

use super::{Cells, MAX_PAGE_ROWS, ReconTables};
use crate::crash::Spot;
use crate::ids::{ChannelName, OrderRef, TicketId, Version};
use crate::ports::{StoreError, TicketSummary, TrailLine};
use crate::recon::TicketState;

const TRAIL: Cells = Cells("recon_ticket_trail");
const TICKET: Cells = Cells("recon_ticket");

impl ReconTables {
    pub(super) async fn ticket_trail(
        &self,
        id: TicketId,
        after: Option<Version>,
        limit_rows: u32,
    ) -> Result<Vec<TrailLine>, StoreError> {
        let after = after.map_or(-1, |version| i64::try_from(version.0).unwrap_or(i64::MAX));
        let lines = self
            .reader
            .run(Spot::ReconTrail, move |connection| {
                Box::pin(
                    sqlx::query!(
                        "SELECT version, kind, from_state, to_state, kinds, actor, note, created_at \
                         FROM recon_ticket_trail WHERE ticket_id = ? AND version > ? ORDER BY version LIMIT ?",
                        id.get(),
                        after,
                        limit_rows.clamp(1, MAX_PAGE_ROWS)
                    )
                    .fetch_all(connection),
                )
            })
            .await?;
        lines
            .into_iter()
            .map(|line| {
                let from = line.from_state.as_deref();
                Ok(TrailLine {
                    version: Version(TRAIL.number("version", line.version)?),
                    kind: line.kind,
                    from: from.map(|from| TRAIL.word("from_state", from, TicketState::parse)).transpose()?,
                    to: TRAIL.word("to_state", &line.to_state, TicketState::parse)?,
                    kinds: line.kinds,
                    actor: line.actor,
                    note: line.note,
                    at: line.created_at.and_utc(),
                })
            })
            .collect()
    }

    /// Orders whose ticket has differences now, from the index of those alone.
    pub(super) async fn current_tickets(
        &self,
        channel: &ChannelName,
        after: Option<&OrderRef>,
        limit_rows: u32,
    ) -> Result<Vec<OrderRef>, StoreError> {
        let channel = channel.clone();
        let after = after.map_or_else(String::new, |order_no| order_no.as_str().to_owned());
        let numbers = self
            .reader
            .run(Spot::ReconTicketCurrent, move |connection| {
                let (channel, after) = (channel.clone(), after.clone());
                Box::pin(async move {
                    sqlx::query_scalar!(
                        "SELECT order_no FROM recon_ticket FORCE INDEX (idx_ticket_current) \
                         WHERE channel = ? AND is_current = 1 AND order_no > ? ORDER BY order_no LIMIT ?",
                        channel.as_str(),
                        after,
                        limit_rows.clamp(1, MAX_PAGE_ROWS)
                    )
                    .fetch_all(connection)
                    .await
                })
            })
            .await?;
        numbers.into_iter().map(|number| TICKET.text("order_no", number, OrderRef::new)).collect()
    }

    /// From the index of open tickets alone.
    pub(super) async fn summarise_tickets(&self) -> Result<Vec<TicketSummary>, StoreError> {
        let rows = self
            .reader
            .run(Spot::ReconSummary, |connection| {
                Box::pin(
                    sqlx::query!(
                        "SELECT channel, stake_currency, COUNT(*) AS `tickets!`, \
                           CAST(LEAST(SUM(stake_minor), 9223372036854775807) AS SIGNED) AS `stake!`, \
                           CAST(GREATEST(MAX(TIMESTAMPDIFF(MICROSECOND, opened_at, NOW(3))), 0) DIV 1000 AS SIGNED) \
                             AS `oldest_ms!` \
                         FROM recon_ticket FORCE INDEX (idx_ticket_open) \
                         WHERE is_open = 1 GROUP BY channel, stake_currency"
                    )
                    .fetch_all(connection),
                )
            })
            .await?;
        rows.into_iter()
            .map(|row| {
                Ok(TicketSummary {
                    channel: TICKET.text("channel", row.channel, ChannelName::new)?,
                    currency: row.stake_currency,
                    tickets: row.tickets.unsigned_abs(),
                    stake_minor: row.stake.unsigned_abs(),
                    oldest_age_ms: row.oldest_ms.unsigned_abs(),
                })
            })
            .collect()
    }
}
