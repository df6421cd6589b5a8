//! A closed loop of so many workers for so long, and what came of it; and one payment as bare statements.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Serialize;
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection};
use sqlx::{AssertSqlSafe, Connection as _};
use xtask::progress::Stopwatch;

use super::calls::Calls;
use super::statements::Statements;

/// What a load came to.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Outcome {
    pub(super) concurrency: usize,
    pub(super) per_s: u64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
}

/// Runs `work` over and over in `concurrency` tasks for `seconds`. `make` gives each task its own worker.
///
/// # Errors
/// The first error of any worker ends the load.
pub(super) async fn closed_loop<W>(
    concurrency: usize,
    seconds: u64,
    make: impl AsyncFn(usize) -> anyhow::Result<W>,
) -> anyhow::Result<Outcome>
where
    W: Worker,
{
    let mut workers = Vec::new();
    for index in 0..concurrency {
        workers.push(make(index).await?);
    }
    let limit = Duration::from_secs(seconds);
    let watch = Stopwatch::start();
    let mut tasks = tokio::task::JoinSet::new();
    for mut worker in workers {
        tasks.spawn(async move {
            let mut took_us = Vec::new();
            while watch.elapsed() < limit {
                let one = Stopwatch::start();
                worker.once().await?;
                took_us.push(u64::try_from(one.elapsed().as_micros()).unwrap_or(u64::MAX));
            }
            Ok::<_, anyhow::Error>(took_us)
        });
    }
    let mut took_us = Vec::new();
    while let Some(task) = tasks.join_next().await {
        took_us.extend(task??);
    }
    let elapsed = watch.elapsed();
    took_us.sort_unstable();
    let at = |permille: usize| {
        let index = (took_us.len() * permille / 1000).min(took_us.len().saturating_sub(1));
        took_us.get(index).copied().unwrap_or(0)
    };
    let count = u64::try_from(took_us.len()).unwrap_or(0);
    Ok(Outcome {
        concurrency,
        per_s: count * 1_000 / u64::try_from(elapsed.as_millis()).unwrap_or(1).max(1),
        p50_ms: tenths(at(500)),
        p99_ms: tenths(at(990)),
    })
}

/// Microseconds as milliseconds with one digit after the point.
#[allow(clippy::float_arithmetic, clippy::cast_precision_loss, reason = "for display; no money is involved")]
fn tenths(us: u64) -> f64 {
    ((us + 50) / 100) as f64 / 10.0
}

/// One task's work, repeated.
pub(super) trait Worker: Send + 'static {
    /// Does it once.
    fn once(&mut self) -> impl Future<Output = anyhow::Result<()>> + Send;
}

/// The product's statements for one payment, issued one after the other on a connection of its own: one read, one
/// insert, three compare-and-swaps, each its own commit. With `calls`, the three downstream calls stand between them
/// where the product makes them.
pub(super) struct BareLoop {
    connection: MySqlConnection,
    statements: Arc<Statements>,
    ids: Arc<AtomicU64>,
    calls: Option<Calls>,
}

impl BareLoop {
    pub(super) async fn connect(
        options: &MySqlConnectOptions,
        statements: &Arc<Statements>,
        ids: &Arc<AtomicU64>,
        calls: Option<&Calls>,
    ) -> anyhow::Result<BareLoop> {
        let mut connection = MySqlConnection::connect_with(options).await?;
        sqlx::raw_sql("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
            .execute(&mut connection)
            .await?;
        Ok(BareLoop {
            connection,
            statements: Arc::clone(statements),
            ids: Arc::clone(ids),
            calls: calls.cloned(),
        })
    }

    async fn look_up(&mut self, user: i64, key: &str) -> anyhow::Result<()> {
        let query = sqlx::query(AssertSqlSafe(self.statements.look_up.clone()));
        let query = query.bind("bench").bind(key.to_owned()).bind(user).bind("renew").bind(key.to_owned());
        query.fetch_all(&mut self.connection).await?;
        Ok(())
    }

    async fn create(&mut self, id: i64, user: i64, key: &str) -> anyhow::Result<()> {
        let trade = trade_order_no(user, id);
        let query = sqlx::query(AssertSqlSafe(self.statements.create.clone()))
            .bind(id)
            .bind(user)
            .bind("renew")
            .bind(key.to_owned())
            .bind(1)
            .bind(trade.clone())
            .bind(format!("r_{trade}"))
            .bind(1_990)
            .bind("CNY")
            .bind("2037-01-01 00:00:00.000")
            .bind("main")
            .bind("main")
            .bind(None::<String>)
            .bind("bench")
            .bind(key.to_owned())
            .bind("0".repeat(64))
            .bind(15_000)
            .bind("trace");
        query.execute(&mut self.connection).await?;
        Ok(())
    }

    async fn cas(
        &mut self,
        id: i64,
        from: &'static str,
        to: &'static str,
        version: i64,
    ) -> anyhow::Result<()> {
        let (pays, finishes) = (u8::from(to == "PAYED"), u8::from(to == "BIZ_SUCCESS"));
        let none = None::<String>;
        let query = sqlx::query(AssertSqlSafe(self.statements.cas.clone()))
            .bind(to)
            .bind(version + 1)
            .bind(15_000)
            .bind(0)
            .bind(1)
            .bind(none.clone())
            .bind("request")
            .bind(none.clone())
            .bind(none.clone())
            .bind(0)
            .bind(none.clone())
            .bind(0)
            .bind(none.clone())
            .bind(0)
            .bind(none.clone())
            .bind(none.clone())
            .bind(none.clone())
            .bind(none.clone())
            .bind(pays)
            .bind("txn")
            .bind(0)
            .bind(none.clone())
            .bind(pays)
            .bind(finishes)
            .bind(1)
            .bind(version + 1)
            .bind("SYNC")
            .bind("DEBIT")
            .bind("SUCCESS")
            .bind("request")
            .bind(1)
            .bind("trace")
            .bind(none)
            .bind(id)
            .bind(from)
            .bind(version);
        let done = query.execute(&mut self.connection).await?;
        anyhow::ensure!(done.rows_affected() == 1, "the reference lost a compare-and-swap");
        Ok(())
    }
}

impl Worker for BareLoop {
    async fn once(&mut self) -> anyhow::Result<()> {
        let id = i64::try_from(self.ids.fetch_add(1, Ordering::Relaxed))?;
        // Other users than the API's payments have: the simulator knows both.
        let user = 5_000_001 + id % 1_000_000;
        let key = format!("bench-{id}");
        self.look_up(user, &key).await?;
        self.create(id, user, &key).await?;
        self.cas(id, "WAIT_PAY", "PAYING", 0).await?;
        let trade = trade_order_no(user, id);
        if let Some(calls) = &self.calls {
            calls.debit(&trade, user).await?;
        }
        self.cas(id, "PAYING", "PAYED", 1).await?;
        if let Some(calls) = &self.calls {
            calls.execute_then_read_fact(&trade, user, &key).await?;
        }
        self.cas(id, "PAYED", "BIZ_SUCCESS", 2).await
    }
}

/// The derivation rule of the order numbers, once more: the schema checks it, so a mistake here fails the run.
pub(super) fn trade_order_no(user: i64, id: i64) -> String {
    format!("h2r_{}_{}", base36(user), base36(id))
}

fn base36(mut number: i64) -> String {
    let mut digits = Vec::new();
    while number > 0 {
        let digit = u32::try_from(number % 36).unwrap_or(0);
        digits.push(char::from_digit(digit, 36).unwrap_or('0'));
        number /= 36;
    }
    digits.into_iter().rev().collect()
}
