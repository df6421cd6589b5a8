//! What a dead process left behind, and who found it: read from the database and the simulator's books.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::ensure;
use sqlx::mysql::MySqlRow;
use sqlx::{AssertSqlSafe, MySqlConnection, Row as _};
use xtask::stack::{Patience, SimClient};

/// Longest time from the end of the flows to the end of their events.
const EVENTS: Duration = Duration::from_secs(10);

/// What was there right after the death.
#[derive(Debug, Clone)]
pub(crate) struct Remains {
    /// For the matrix.
    pub(crate) text: String,
    /// The version that each flow had, by id.
    versions: BTreeMap<i64, i64>,
    /// Whether everything had ended.
    ended: bool,
    /// When that was, by the server's clock in UTC.
    at: String,
}

/// A flow's row.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) id: i64,
    pub(crate) status: String,
    pub(crate) held: bool,
    pub(crate) ended: bool,
    version: i64,
    cancelled: bool,
    trade_order_no: String,
}

/// The flows of these users, by id. Whether one has ended is told by its state: while a row was being written, MariaDB was
/// seen to give the old state together with the new value of the column generated from it.
pub(crate) async fn flows(root: &mut MySqlConnection, users: &[u64]) -> anyhow::Result<Vec<Found>> {
    let sql = format!(
        "SELECT id, trade_order_no, status, CAST(version AS SIGNED) AS version,
           status IN ('PAY_FAIL', 'BIZ_SUCCESS', 'REFUNDED') AS ended,
           hold_reason IS NOT NULL AS held, cancel_requested_at IS NOT NULL AS cancelled
         FROM internal_pay_flow WHERE user_id IN ({}) ORDER BY id",
        list(users)
    );
    let rows = sqlx::query(AssertSqlSafe(sql)).fetch_all(root).await?;
    let flag = |row: &MySqlRow, name| Ok::<bool, sqlx::Error>(row.try_get::<i64, _>(name)? == 1);
    let found = |row: &MySqlRow| {
        Ok(Found {
            id: row.try_get("id")?,
            status: row.try_get("status")?,
            held: flag(row, "held")?,
            ended: flag(row, "ended")?,
            version: row.try_get("version")?,
            cancelled: flag(row, "cancelled")?,
            trade_order_no: row.try_get("trade_order_no")?,
        })
    };
    rows.iter().map(found).collect()
}

fn list(users: &[u64]) -> String {
    users.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
}

/// Rows, wallet book and business book of these users' flows.
pub(crate) async fn remains(
    root: &mut MySqlConnection,
    sim: &SimClient,
    users: &[u64],
) -> anyhow::Result<Remains> {
    let at = sqlx::query_scalar("SELECT CAST(UTC_TIMESTAMP(3) AS CHAR)").fetch_one(&mut *root).await?;
    let ledgers = sim.all_ledgers().await?;
    let flows = flows(root, users).await?;
    let mut texts: BTreeMap<String, usize> = BTreeMap::new();
    for flow in &flows {
        let mut text = format!("{} v{}", flow.status, flow.version);
        for (mark, there) in [(" held", flow.held), (" cancelled", flow.cancelled)] {
            text.push_str(if there { mark } else { "" });
        }
        let books = ledgers.iter().find(|order| order.trade_order_no == flow.trade_order_no);
        let (charges, refunds, grants) =
            books.map_or((0, 0, 0), |order| (order.charges, order.refunds, order.grants));
        *texts.entry(format!("{text} {charges}/{refunds}/{grants}")).or_default() += 1;
    }
    let missing = users.len().saturating_sub(flows.len());
    if missing > 0 {
        texts.insert("no row".to_owned(), missing);
    }
    let ended = missing == 0 && flows.iter().all(|flow| flow.ended);
    let versions = flows.iter().map(|flow| (flow.id, flow.version)).collect();
    Ok(Remains { text: counted(texts), versions, ended, at })
}

fn counted(texts: BTreeMap<String, usize>) -> String {
    let count = |(text, count): (String, usize)| if count == 1 { text } else { format!("{count}x {text}") };
    texts.into_iter().map(count).collect::<Vec<_>>().join(", ")
}

/// Whose write was the first on each flow after the death.
pub(crate) async fn found(
    root: &mut MySqlConnection,
    left: &Remains,
    flows: &[Found],
) -> anyhow::Result<String> {
    if left.ended {
        return Ok("had ended".to_owned());
    }
    let mut texts: BTreeMap<String, usize> = BTreeMap::new();
    for Found { id, .. } in flows {
        let known = left.versions.get(id).copied().unwrap_or(-1);
        let sql = format!(
            "SELECT ev_trigger, kind, action FROM pay_flow_event
             WHERE flow_id = {id} AND version > {known} ORDER BY version LIMIT 1"
        );
        let Some(row) = sqlx::query(AssertSqlSafe(sql)).fetch_optional(&mut *root).await? else { continue };
        let (trigger, kind): (String, String) = (row.try_get("ev_trigger")?, row.try_get("kind")?);
        let action: Option<String> = row.try_get("action")?;
        *texts.entry(format!("{trigger} {}", action.unwrap_or(kind))).or_default() += 1;
    }
    Ok(counted(texts))
}

/// From the look at what was left to the last terminal state, by the server's clock; nothing where all had ended.
pub(crate) async fn took(
    root: &mut MySqlConnection,
    left: &Remains,
    flows: &[Found],
) -> anyhow::Result<Duration> {
    let ids: Vec<String> = flows.iter().map(|flow| flow.id.to_string()).collect();
    let sql = format!(
        "SELECT CAST(TIMESTAMPDIFF(MICROSECOND, ?, MAX(finished_at)) DIV 1000 AS SIGNED)
         FROM internal_pay_flow WHERE id IN ({})",
        ids.join(", ")
    );
    let ms: i64 = sqlx::query_scalar(AssertSqlSafe(sql)).bind(&left.at).fetch_one(root).await?;
    Ok(Duration::from_millis(u64::try_from(ms).unwrap_or(0)))
}

/// So many events of these users' orders are kept, once each, and are done with, or soon will be.
pub(crate) async fn check_events(
    root: &mut MySqlConnection,
    users: &[u64],
    expected: i64,
) -> anyhow::Result<()> {
    let sql = format!(
        "SELECT CAST(COUNT(*) AS SIGNED), CAST(COALESCE(SUM(i.state = 'PROCESSED'), 0) AS SIGNED)
         FROM pay_inbox i JOIN internal_pay_flow f ON f.trade_order_no = i.order_no WHERE f.user_id IN ({})",
        list(users)
    );
    let patience = Patience::of(EVENTS);
    loop {
        let row = sqlx::query(AssertSqlSafe(sql.clone())).fetch_one(&mut *root).await?;
        let (kept, processed): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
        ensure!(kept == expected, "{kept} events are kept instead of {expected}");
        if processed == expected {
            return Ok(());
        }
        ensure!(!patience.is_over(), "{processed} of {kept} events are done with after {EVENTS:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Every key that a client used stands for a flow.
pub(crate) async fn check_keys(root: &mut MySqlConnection, keys: &[&str]) -> anyhow::Result<()> {
    for key in keys {
        let sql = "SELECT COUNT(*) FROM pay_request_key k JOIN internal_pay_flow f ON f.id = k.flow_id
                   WHERE k.idempotency_key = ?";
        let found: i64 = sqlx::query_scalar(sql).bind(key).fetch_one(&mut *root).await?;
        ensure!(found == 1, "the key {key} stands for {found} flows");
    }
    Ok(())
}
