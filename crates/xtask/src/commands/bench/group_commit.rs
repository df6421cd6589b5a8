//! The other ceiling: a bare program that writes what queued meanwhile in one transaction of multi-row statements, with
//! one committer, over a table of its own without the product's checks. The most that sharing commits gives here.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sqlx::mysql::{MySqlConnectOptions, MySqlConnection};
use sqlx::{AssertSqlSafe, Connection as _};
use tokio::sync::{mpsc, oneshot};

use super::load::Worker;

/// Most writes of one transaction.
const MAX_BATCH_ROWS: usize = 64;

const SCHEMA: &str = "
    CREATE TABLE bare_flow (
      id BIGINT NOT NULL PRIMARY KEY, user_id BIGINT NOT NULL, biz_key VARCHAR(160) NOT NULL,
      trade_order_no VARCHAR(96) NOT NULL, status VARCHAR(24) NOT NULL, version BIGINT NOT NULL,
      amount BIGINT NOT NULL, next_retry_time DATETIME(3) NOT NULL, update_time DATETIME(3) NOT NULL,
      UNIQUE KEY uk_trade (trade_order_no), UNIQUE KEY uk_target (user_id, biz_key)
    ) ENGINE = InnoDB;
    CREATE TABLE bare_event (
      flow_id BIGINT NOT NULL, version BIGINT NOT NULL, status VARCHAR(24) NOT NULL, at DATETIME(3) NOT NULL,
      PRIMARY KEY (flow_id, version)
    ) ENGINE = InnoDB;
    CREATE TRIGGER bare_audit AFTER UPDATE ON bare_flow FOR EACH ROW
      INSERT INTO bare_event VALUES (NEW.id, NEW.version, NEW.status, NOW(3));";

struct Write {
    id: i64,
    /// 0 creates, 1 to 3 take the next edge.
    version: i64,
    done: oneshot::Sender<()>,
}

/// A worker that hands its writes to the one committer.
pub(super) struct Shared {
    queue: mpsc::Sender<Write>,
    ids: Arc<AtomicU64>,
}

/// Makes the tables and starts the committer; workers are made from the returned queue. The committer ends when the
/// last of them is dropped.
///
/// # Errors
/// The server refuses.
pub(super) async fn start(
    options: &MySqlConnectOptions,
) -> anyhow::Result<(Shared, tokio::task::JoinHandle<anyhow::Result<()>>)> {
    let mut connection = MySqlConnection::connect_with(options).await?;
    sqlx::raw_sql("DROP TABLE IF EXISTS bare_flow, bare_event").execute(&mut connection).await?;
    sqlx::raw_sql(SCHEMA).execute(&mut connection).await?;
    sqlx::raw_sql("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED").execute(&mut connection).await?;
    let (queue, writes) = mpsc::channel(1_024);
    let committer = tokio::spawn(commit(connection, writes));
    Ok((Shared { queue, ids: Arc::new(AtomicU64::new(1)) }, committer))
}

impl Shared {
    /// Another worker over the same queue.
    pub(super) fn another(&self) -> Shared {
        Shared { queue: self.queue.clone(), ids: Arc::clone(&self.ids) }
    }
}

impl Worker for Shared {
    async fn once(&mut self) -> anyhow::Result<()> {
        let id = i64::try_from(self.ids.fetch_add(1, Ordering::Relaxed))?;
        for version in 0..=3 {
            let (done, wait) = oneshot::channel();
            self.queue
                .send(Write { id, version, done })
                .await
                .map_err(|_| anyhow::anyhow!("the committer ended"))?;
            wait.await?;
        }
        Ok(())
    }
}

async fn commit(mut connection: MySqlConnection, mut writes: mpsc::Receiver<Write>) -> anyhow::Result<()> {
    let mut batch = Vec::with_capacity(MAX_BATCH_ROWS);
    while writes.recv_many(&mut batch, MAX_BATCH_ROWS).await > 0 {
        batch.sort_by_key(|write| write.id);
        let statements = [insert(&batch), update(&batch)];
        let many = batch.len() > 1;
        if many {
            sqlx::raw_sql("BEGIN").execute(&mut connection).await?;
        }
        for statement in statements.into_iter().flatten() {
            sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut connection).await?;
        }
        if many {
            sqlx::raw_sql("COMMIT").execute(&mut connection).await?;
        }
        for write in batch.drain(..) {
            // A worker that has ended does not wait any more.
            let _ = write.done.send(());
        }
    }
    Ok(())
}

fn insert(batch: &[Write]) -> Option<String> {
    let rows: Vec<String> = batch
        .iter()
        .filter(|write| write.version == 0)
        .map(|Write { id, .. }| {
            format!("({id},{},'bench-{id}','h2r_{id}','WAIT_PAY',0,1990,NOW(3),NOW(3))", 1 + id % 1_000_000)
        })
        .collect();
    (!rows.is_empty()).then(|| format!("INSERT INTO bare_flow VALUES {}", rows.join(",")))
}

fn update(batch: &[Write]) -> Option<String> {
    const STATES: [&str; 4] = ["WAIT_PAY", "PAYING", "PAYED", "BIZ_SUCCESS"];
    let rows: Vec<String> = batch
        .iter()
        .filter(|write| write.version > 0)
        .map(|Write { id, version, .. }| {
            let at = usize::try_from(*version).unwrap_or(0).min(3);
            format!("SELECT {id} AS id, {} AS old_version, '{}' AS to_status", version - 1, STATES[at])
        })
        .collect();
    (!rows.is_empty()).then(|| {
        format!(
            "UPDATE ({}) v STRAIGHT_JOIN bare_flow f ON f.id = v.id AND f.version = v.old_version
             SET f.status = v.to_status, f.version = f.version + 1, f.next_retry_time = NOW(3), f.update_time = NOW(3)",
            rows.join(" UNION ALL ")
        )
    })
}
