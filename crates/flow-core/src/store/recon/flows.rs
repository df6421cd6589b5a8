//! Flows as they are compared: few columns, by pages. What is open is found by the sweep's index, what ended by that of ends;
//! the filter by day is the server's.

use chrono::NaiveDateTime;

use super::{MAX_PAGE_ROWS, ReconTables, json};
use crate::crash::Spot;
use crate::ids::{
    AttemptNo, BizKey, DownstreamName, DownstreamRef, FlowId, RefundOrderNo, Scene, Target, TradeOrderNo,
    UserId, Version,
};
use crate::money::{Currency, Money};
use crate::ports::{EndedFlowsPage, OpenFlowsPage, ReconFlow, StoreError};
use crate::state::State;
use crate::store::rows::Row;

/// The columns of a flow that are compared.
#[derive(Debug)]
struct ReconFlowRow {
    id: i64,
    user_id: i64,
    scene: String,
    biz_key: String,
    attempt_no: i32,
    trade_order_no: String,
    refund_order_no: String,
    status: String,
    version: i64,
    amount: i64,
    currency: String,
    wallet_name: String,
    business_name: String,
    wallet_pay_txn: Option<String>,
    wallet_refund_txn: Option<String>,
    refund_amount: Option<i64>,
    paid_at: Option<NaiveDateTime>,
    finished_at: Option<NaiveDateTime>,
    is_held: i64,
}

impl ReconFlowRow {
    /// What no version of this program writes is an error, never guessed at.
    fn read(self) -> Result<ReconFlow, StoreError> {
        let at = Row(self.id);
        let currency = at.text("currency", Some(self.currency), Currency::new)?;
        let reference = |column, value: Option<String>| match value {
            Some(text) => at.text(column, Some(text), DownstreamRef::new).map(Some),
            None => Ok(None),
        };
        Ok(ReconFlow {
            id: at.need("id", FlowId::new(self.id).ok())?,
            target: Target {
                user_id: at.need("user_id", UserId::new(self.user_id).ok())?,
                scene: at.text("scene", Some(self.scene), Scene::new)?,
                biz_key: at.text("biz_key", Some(self.biz_key), BizKey::new)?,
            },
            attempt_no: AttemptNo(at.count("attempt_no", Some(self.attempt_no))?),
            trade_order_no: at.text("trade_order_no", Some(self.trade_order_no), TradeOrderNo::try_from)?,
            refund_order_no: at.text(
                "refund_order_no",
                Some(self.refund_order_no),
                RefundOrderNo::try_from,
            )?,
            state: at.word("status", Some(self.status), State::parse)?,
            version: Version(at.count("version", Some(self.version))?),
            money: at.need("amount", Money::new(self.amount, currency).ok())?,
            wallet: at.text("wallet_name", Some(self.wallet_name), DownstreamName::new)?,
            business: at.text("business_name", Some(self.business_name), DownstreamName::new)?,
            wallet_pay_txn: reference("wallet_pay_txn", self.wallet_pay_txn)?,
            wallet_refund_txn: reference("wallet_refund_txn", self.wallet_refund_txn)?,
            refund_amount: self.refund_amount,
            paid_at: super::utc(self.paid_at),
            finished_at: super::utc(self.finished_at),
            is_held: self.is_held != 0,
        })
    }
}

/// `query_as!` over the compared columns, from a given rest of the statement, in which the flow is called `f`.
macro_rules! select_recon_flow {
    ($rest:literal, $($argument:expr),*) => {
        sqlx::query_as!(
            ReconFlowRow,
            "SELECT f.id, f.user_id, f.scene, f.biz_key, f.attempt_no, f.trade_order_no, f.refund_order_no, "
                + "f.status AS `status!`, f.version, f.amount, f.currency, f.wallet_name, f.business_name, "
                + "f.wallet_pay_txn, f.wallet_refund_txn, f.refund_amount, f.paid_at, f.finished_at, "
                + "f.hold_reason IS NOT NULL AS `is_held!: i64` "
                + $rest,
            $($argument),*
        )
    };
}

fn read(rows: Vec<ReconFlowRow>) -> Result<Vec<ReconFlow>, StoreError> {
    rows.into_iter().map(ReconFlowRow::read).collect()
}

impl ReconTables {
    /// Walks the index of open rows alone.
    pub(super) async fn open_flows(&self, page: &OpenFlowsPage) -> Result<Vec<ReconFlow>, StoreError> {
        let page = page.clone();
        let rows = self
            .reader
            .run(Spot::ReconOpenFlows, move |connection| {
                let page = page.clone();
                Box::pin(async move {
                    select_recon_flow!(
                        "FROM internal_pay_flow f FORCE INDEX (idx_open_id_due) \
                         WHERE f.is_open = 1 AND f.id > ? AND f.wallet_name = ? AND f.paid_at >= ? AND f.paid_at < ? \
                         ORDER BY f.id LIMIT ?",
                        page.after_id,
                        page.wallet.as_str(),
                        page.day.from.naive_utc(),
                        page.day.until.naive_utc(),
                        page.limit_rows.clamp(1, MAX_PAGE_ROWS)
                    )
                    .fetch_all(connection)
                    .await
                })
            })
            .await?;
        read(rows)
    }

    /// Walks the index of ends from where the last page ended.
    pub(super) async fn ended_flows(&self, page: &EndedFlowsPage) -> Result<Vec<ReconFlow>, StoreError> {
        let page = page.clone();
        let rows = self
            .reader
            .run(Spot::ReconEndedFlows, move |connection| {
                let page = page.clone();
                Box::pin(async move {
                    let (from, until) = (page.day.from.naive_utc(), page.day.until.naive_utc());
                    let ended_from = page.ended_from.naive_utc();
                    select_recon_flow!(
                        "FROM internal_pay_flow f FORCE INDEX (idx_flow_finished) \
                         WHERE f.finished_at >= ? AND f.finished_at < ? AND (f.finished_at > ? OR f.id > ?) \
                           AND f.wallet_name = ? \
                           AND ((f.paid_at >= ? AND f.paid_at < ?) OR (f.finished_at >= ? AND f.finished_at < ?)) \
                         ORDER BY f.finished_at, f.id LIMIT ?",
                        ended_from,
                        page.ended_until.naive_utc(),
                        ended_from,
                        page.after_id,
                        page.wallet.as_str(),
                        from,
                        until,
                        from,
                        until,
                        page.limit_rows.clamp(1, MAX_PAGE_ROWS)
                    )
                    .fetch_all(connection)
                    .await
                })
            })
            .await?;
        read(rows)
    }

    pub(super) async fn flows_by_number(
        &self,
        numbers: &[TradeOrderNo],
    ) -> Result<Vec<ReconFlow>, StoreError> {
        if numbers.is_empty() {
            return Ok(Vec::new());
        }
        let numbers: Vec<&str> = numbers.iter().map(TradeOrderNo::as_str).collect();
        let numbers = json(&numbers)?;
        let rows = self
            .reader
            .run(Spot::ReconFlowsByNumber, move |connection| {
                let numbers = numbers.clone();
                Box::pin(async move {
                    select_recon_flow!(
                        "FROM JSON_TABLE(?, '$[*]' COLUMNS ( \
                            no VARCHAR(97) CHARACTER SET ascii COLLATE ascii_bin PATH '$' ERROR ON ERROR)) v \
                         STRAIGHT_JOIN internal_pay_flow f FORCE INDEX (uk_trade_order_no) ON f.trade_order_no = v.no",
                        numbers
                    )
                    .fetch_all(connection)
                    .await
                })
            })
            .await?;
        read(rows)
    }

    pub(super) async fn target_flows(
        &self,
        target: &Target,
        limit_rows: u32,
    ) -> Result<Vec<ReconFlow>, StoreError> {
        let target = target.clone();
        let rows = self
            .reader
            .run(Spot::ReconTargetFlows, move |connection| {
                let target = target.clone();
                Box::pin(async move {
                    select_recon_flow!(
                        "FROM internal_pay_flow f \
                         WHERE f.user_id = ? AND f.scene = ? AND f.biz_key = ? ORDER BY f.attempt_no LIMIT ?",
                        target.user_id.get(),
                        target.scene.as_str(),
                        target.biz_key.as_str(),
                        limit_rows.clamp(1, MAX_PAGE_ROWS)
                    )
                    .fetch_all(connection)
                    .await
                })
            })
            .await?;
        read(rows)
    }
}
