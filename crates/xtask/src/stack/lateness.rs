//! How soon a payment ends whose answer was lost: the wallet has charged, nobody has heard so, and the row says when it is
//! to be asked again. Whoever comes first then, scanner, timer or broker, is measured by how late.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::json;
use sqlx::{AssertSqlSafe, MySqlConnection};

use super::{Patience, Payment, Stack};

/// Longest time for all of it.
const LIMIT: Duration = Duration::from_secs(90);
/// Between two looks at the rows.
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// Payments whose answer was lost. Times in milliseconds.
#[derive(Debug, Clone, Default)]
pub struct Lateness {
    /// From when each was due again to its end, sorted.
    pub after_due_ms: Vec<i64>,
    /// From the creation of each to its end, sorted.
    pub in_all_ms: Vec<i64>,
    /// Which entrance brought each to `PAYED`, and how many.
    pub by: BTreeMap<String, i64>,
}

impl Lateness {
    /// The one in the middle.
    pub fn median(sorted_ms: &[i64]) -> i64 {
        sorted_ms.get(sorted_ms.len() / 2).copied().unwrap_or(0)
    }
}

/// Pays for so many users from `first_user` on, loses the answer of each debit, and waits for the ends. The first retry
/// delay must be long enough for all of them to be begun: 2 s or more.
///
/// # Errors
/// A payment that is refused or does not end in time.
pub async fn lose_answers(
    stack: &Stack,
    database: &mut MySqlConnection,
    first_user: u64,
    payments: u64,
) -> anyhow::Result<Lateness> {
    let (sim, api) = (stack.sim(), stack.api(0));
    let fault =
        sim.fault(json!({ "calls": ["debit"], "stage": "after", "fault": { "kind": "drop" } })).await?;
    let users = first_user..first_user + payments;
    for user in users.clone() {
        let reply = api.pay(&format!("lost-{user}"), &Payment::new(user, "lost").body(), Some(0)).await?;
        anyhow::ensure!(reply.status == 202, "HTTP {}: {}", reply.status, reply.body);
    }
    let condition = format!("user_id >= {} AND user_id < {}", users.start, users.end);
    let due = due_again(database, &condition, payments).await?;
    sim.remove_fault(fault).await?;
    ends(database, &condition, payments).await?;

    let mut lateness = Lateness::default();
    for (id, due) in due {
        let sql = format!(
            "SELECT CAST(TIMESTAMPDIFF(MICROSECOND, '{due}', finished_at) DIV 1000 AS SIGNED),
                    CAST(TIMESTAMPDIFF(MICROSECOND, created_at, finished_at) DIV 1000 AS SIGNED)
             FROM internal_pay_flow WHERE id = {id}"
        );
        let (after_due_ms, in_all_ms): (i64, i64) =
            sqlx::query_as(AssertSqlSafe(sql)).fetch_one(&mut *database).await?;
        lateness.after_due_ms.push(after_due_ms);
        lateness.in_all_ms.push(in_all_ms);
    }
    lateness.after_due_ms.sort_unstable();
    lateness.in_all_ms.sort_unstable();
    let sql = format!(
        "SELECT e.ev_trigger, COUNT(*) FROM pay_flow_event e JOIN internal_pay_flow f ON f.id = e.flow_id
         WHERE {condition} AND e.kind = 'STATE' AND e.to_status = 'PAYED' GROUP BY e.ev_trigger"
    );
    let by: Vec<(String, i64)> = sqlx::query_as(AssertSqlSafe(sql)).fetch_all(&mut *database).await?;
    lateness.by = by.into_iter().collect();
    Ok(lateness)
}

/// When each of them is to be looked at again, by id.
async fn due_again(
    database: &mut MySqlConnection,
    condition: &str,
    payments: u64,
) -> anyhow::Result<BTreeMap<i64, String>> {
    let sql = format!(
        "SELECT id, CAST(next_retry_time AS CHAR) FROM internal_pay_flow
         WHERE {condition} AND status = 'PAYING' AND version = 2"
    );
    let mut due = BTreeMap::new();
    let patience = Patience::of(LIMIT);
    while u64::try_from(due.len())? < payments {
        let rows: Vec<(i64, String)> =
            sqlx::query_as(AssertSqlSafe(sql.clone())).fetch_all(&mut *database).await?;
        due.extend(rows);
        anyhow::ensure!(!patience.is_over(), "{} of {payments} answers were lost", due.len());
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(due)
}

async fn ends(database: &mut MySqlConnection, condition: &str, payments: u64) -> anyhow::Result<()> {
    let sql = format!("SELECT COUNT(*) FROM internal_pay_flow WHERE {condition} AND status = 'BIZ_SUCCESS'");
    let patience = Patience::of(LIMIT);
    loop {
        let ended: i64 = sqlx::query_scalar(AssertSqlSafe(sql.clone()))
            .fetch_one(&mut *database)
            .await
            .context("no count")?;
        if u64::try_from(ended)? == payments {
            return Ok(());
        }
        anyhow::ensure!(!patience.is_over(), "{ended} of {payments} have ended");
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
