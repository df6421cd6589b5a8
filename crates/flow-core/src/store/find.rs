//! The one dynamic query: what people on call look for.

use sqlx::{MySql, QueryBuilder};

use super::reads::Reader;
use super::rows::{self, FlowRow};
use crate::crash::Spot;
use crate::ids::FlowId;
use crate::ports::{FlowFilter, FlowPage, StoreError};

const COLUMNS: &str = "f.id, f.user_id, f.scene, f.biz_key, f.attempt_no, f.trade_order_no, f.refund_order_no, \
     f.status, f.version, f.amount, f.currency, f.biz_deadline_time, f.wallet_name, f.business_name, f.biz_context, \
     f.caller_id, f.next_retry_time, f.retry_count, f.last_error_code, f.channel_request_id, f.cancel_requested_at, \
     f.cancel_requested_by, f.hold_reason, f.hold_since, f.hold_by, f.refund_amount, f.refund_reason, \
     f.refund_source, f.wallet_pay_txn, f.wallet_refund_txn, f.paid_at, f.finished_at, f.state_entered_at, \
     f.created_at, f.update_time, f.request_fingerprint AS fingerprint, NOW(3) AS db_now";

/// Most rows of one page, whatever is asked for.
const MAX_PAGE_ROWS: u32 = 1_000;

impl Reader {
    /// Newest first. A filter that no index serves walks the primary key backwards, until the read's time limit.
    pub(super) async fn find(
        &self,
        filter: &FlowFilter,
        before_id: Option<FlowId>,
        limit_rows: u32,
    ) -> Result<FlowPage, StoreError> {
        let wanted_rows = limit_rows.clamp(1, MAX_PAGE_ROWS);
        let filter = filter.clone();
        let found: Vec<FlowRow> = self
            .run(Spot::Find, move |connection| {
                let mut statement = statement(&filter, before_id, wanted_rows + 1);
                Box::pin(async move { statement.build_query_as().fetch_all(connection).await })
            })
            .await?;
        let wanted = usize::try_from(wanted_rows).unwrap_or(usize::MAX);
        let has_more = found.len() > wanted;
        let flows = found.into_iter().take(wanted).map(rows::flow).collect::<Result<_, _>>()?;
        Ok(FlowPage { flows, has_more })
    }
}

fn statement(filter: &FlowFilter, before_id: Option<FlowId>, limit_rows: u32) -> QueryBuilder<MySql> {
    let mut query = QueryBuilder::new("SELECT ");
    query.push(COLUMNS).push(" FROM internal_pay_flow f WHERE f.id < ");
    query.push_bind(before_id.map_or(i64::MAX, FlowId::get));
    let texts = [
        (" AND f.caller_id = ", filter.caller.as_ref().map(|caller| caller.as_str().to_owned())),
        (" AND f.scene = ", filter.scene.as_ref().map(|scene| scene.as_str().to_owned())),
        (" AND f.biz_key = ", filter.biz_key.as_ref().map(|key| key.as_str().to_owned())),
        (" AND f.trade_order_no = ", filter.trade_order_no.as_ref().map(|number| number.as_str().to_owned())),
        (
            " AND f.refund_order_no = ",
            filter.refund_order_no.as_ref().map(|number| number.as_str().to_owned()),
        ),
        (" AND f.status = ", filter.state.map(|state| state.as_str().to_owned())),
    ];
    for (condition, value) in texts {
        if let Some(value) = value {
            query.push(condition).push_bind(value);
        }
    }
    if let Some(user_id) = filter.user_id {
        query.push(" AND f.user_id = ").push_bind(user_id.get());
    }
    // A state that is not terminal implies an open row, and says so, since that is what the index knows.
    let open = filter.open.or_else(|| filter.state.is_some_and(|state| !state.is_terminal()).then_some(true));
    if let Some(open) = open {
        query.push(if open { " AND f.is_open = 1" } else { " AND f.is_open IS NULL" });
    }
    if let Some(held) = filter.held {
        query.push(if held { " AND f.hold_reason IS NOT NULL" } else { " AND f.hold_reason IS NULL" });
    }
    if let Some(min_age_ms) = filter.min_age_ms {
        // A thousand years: far beyond any row, and within the server's range.
        let age_ms = i64::try_from(min_age_ms).unwrap_or(i64::MAX).min(31_536_000_000_000);
        query
            .push(" AND f.state_entered_at <= NOW(3) - INTERVAL ")
            .push_bind(age_ms)
            .push(" * 1000 MICROSECOND");
    }
    query.push(" ORDER BY f.id DESC LIMIT ").push_bind(limit_rows);
    query
}
