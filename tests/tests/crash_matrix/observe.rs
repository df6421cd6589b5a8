//! What a dead process left behind, and who found it: read from the database and the simulator's books.

use std::collections::BTreeMap;

use anyhow::ensure;
use sqlx::{AssertSqlSafe, MySqlConnection, Row as _};
use xtask::stack::SimClient;

/// What was there right after the death.
#[derive(Debug, Clone)]
pub(crate) struct Remains {
    /// For the matrix.
    pub(crate) text: String,
    /// The version that each flow had, by id.
    versions: BTreeMap<i64, i64>,
    ended: bool,
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
    let sql = format!(
        "SELECT id, trade_order_no, status, CAST(version AS SIGNED) AS version, is_open IS NULL AS ended,
           hold_reason IS NOT NULL AS held, cancel_requested_at IS NOT NULL AS cancelled
         FROM internal_pay_flow WHERE user_id IN ({}) ORDER BY id",
        list(users)
    );
    let ledgers = sim.all_ledgers().await?;
    let mut versions = BTreeMap::new();
    let mut texts: BTreeMap<String, usize> = BTreeMap::new();
    let mut ended = true;
    for row in sqlx::query(AssertSqlSafe(sql)).fetch_all(root).await? {
        let (id, version): (i64, i64) = (row.try_get("id")?, row.try_get("version")?);
        let (status, trade): (String, String) = (row.try_get("status")?, row.try_get("trade_order_no")?);
        versions.insert(id, version);
        ended &= row.try_get::<i64, _>("ended")? == 1;
        let mut text = format!("{status} v{version}");
        for mark in ["held", "cancelled"] {
            if row.try_get::<i64, _>(mark)? == 1 {
                text = format!("{text} {mark}");
            }
        }
        let books = ledgers.iter().find(|order| order.trade_order_no == trade);
        let (charges, refunds, grants) =
            books.map_or((0, 0, 0), |order| (order.charges, order.refunds, order.grants));
        *texts.entry(format!("{text} {charges}/{refunds}/{grants}")).or_default() += 1;
    }
    let missing = users.len() - versions.len();
    ended &= missing == 0;
    if missing > 0 {
        texts.insert("no row".to_owned(), missing);
    }
    Ok(Remains { text: counted(texts), versions, ended })
}

fn counted(texts: BTreeMap<String, usize>) -> String {
    let count = |(text, count): (String, usize)| if count == 1 { text } else { format!("{count}x {text}") };
    texts.into_iter().map(count).collect::<Vec<_>>().join(", ")
}

/// The ids of these users' flows.
pub(crate) async fn flow_ids(root: &mut MySqlConnection, users: &[u64]) -> anyhow::Result<Vec<String>> {
    let sql = format!("SELECT id FROM internal_pay_flow WHERE user_id IN ({}) ORDER BY id", list(users));
    let ids: Vec<i64> = sqlx::query_scalar(AssertSqlSafe(sql)).fetch_all(root).await?;
    Ok(ids.iter().map(i64::to_string).collect())
}

/// Whose write was the first on each flow after the death.
pub(crate) async fn found(
    root: &mut MySqlConnection,
    left: &Remains,
    flows: &[String],
) -> anyhow::Result<String> {
    if left.ended {
        return Ok("had ended".to_owned());
    }
    let mut texts: BTreeMap<String, usize> = BTreeMap::new();
    for flow in flows {
        let known = flow.parse().ok().and_then(|id: i64| left.versions.get(&id).copied()).unwrap_or(-1);
        let sql = format!(
            "SELECT ev_trigger, kind, action FROM pay_flow_event
             WHERE flow_id = {flow} AND version > {known} ORDER BY version LIMIT 1"
        );
        let Some(row) = sqlx::query(AssertSqlSafe(sql)).fetch_optional(&mut *root).await? else { continue };
        let (trigger, kind): (String, String) = (row.try_get("ev_trigger")?, row.try_get("kind")?);
        let action: Option<String> = row.try_get("action")?;
        *texts.entry(format!("{trigger} {}", action.unwrap_or(kind))).or_default() += 1;
    }
    Ok(counted(texts))
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
