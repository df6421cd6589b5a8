//! A page of the scanner with millions of terminal rows present: a page must cost the page.

use std::time::Duration;

use chrono::NaiveDateTime;
use serde_json::{Value, json};
use sqlx::mysql::MySqlConnection;
use sqlx::{AssertSqlSafe, Connection as _, Row as _};
use xtask::db::Server;
use xtask::progress::{Phase, Stopwatch};
use xtask::stack::Schema;

use super::PROFILE;
use super::statements::Statements;

/// Rows inserted by one statement.
const CHUNK_ROWS: u64 = 100_000;
/// Rows of a page, as in the comparison that the design was chosen by.
const PAGE_ROWS: u32 = 100;
/// Rows of a page when a whole sweep is timed.
const SWEEP_PAGE_ROWS: u32 = 1_000;
/// Pages measured; the median and the worst are shown.
const PAGES: usize = 200;

/// Fills the table, then measures three shapes of what is due.
///
/// # Errors
/// The server refuses.
pub(super) async fn run(server: &Server, rows: u64) -> anyhow::Result<Value> {
    let statements = Statements::read()?;
    Schema::prepare(&server.root_url(), "scan", PROFILE).await?;
    let mut database = MySqlConnection::connect(&server.url("scan")).await?;
    fill(&mut database, rows).await?;
    let mut shapes = Vec::new();
    println!(
        "\nOne page of {PAGE_ROWS} due rows, {rows} rows in the table; and a whole sweep in pages of {SWEEP_PAGE_ROWS}."
    );
    println!(
        "{:<34} {:>12} {:>12} {:>12} {:>14}",
        "due", "median ms", "worst ms", "rows found", "sweep rows/s"
    );
    for shape in [Shape::Few, Shape::Spread, Shape::Newest] {
        shape.make(&mut database, rows).await?;
        let pages = measure_pages(&mut database, &statements).await?;
        let sweep = measure_sweep(&mut database, &statements).await?;
        println!(
            "{:<34} {:>12} {:>12} {:>12} {:>14}",
            shape.title(),
            ms(pages.median),
            ms(pages.worst),
            sweep.rows,
            sweep.rows_per_s
        );
        shapes.push(json!({
            "due": shape.title(), "median_us": micros(pages.median), "worst_us": micros(pages.worst),
            "rows": sweep.rows, "sweep_rows_per_s": sweep.rows_per_s,
        }));
    }
    Ok(Value::from(shapes))
}

/// Terminal rows, made by the server itself; the triggers are away meanwhile, since they would audit every row.
async fn fill(database: &mut MySqlConnection, rows: u64) -> anyhow::Result<()> {
    let phase = Phase::start(format!("filling the table with {rows} terminal rows"));
    let triggers: Vec<String> = sqlx::query(
        "SELECT CAST(trigger_name AS CHAR) AS name FROM information_schema.triggers
         WHERE trigger_schema = DATABASE() AND event_object_table = 'internal_pay_flow'",
    )
    .fetch_all(&mut *database)
    .await?
    .iter()
    .map(|row| row.try_get("name"))
    .collect::<Result<_, _>>()?;
    for trigger in triggers {
        sqlx::raw_sql(AssertSqlSafe(format!("DROP TRIGGER `{trigger}`"))).execute(&mut *database).await?;
    }
    sqlx::raw_sql("CREATE TABLE digits (d INT PRIMARY KEY); INSERT INTO digits VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9)")
        .execute(&mut *database)
        .await?;
    let mut done = 0;
    while done < rows {
        sqlx::raw_sql(AssertSqlSafe(chunk(done, CHUNK_ROWS.min(rows - done))))
            .execute(&mut *database)
            .await?;
        done += CHUNK_ROWS;
        phase.note(&format!("{} of {rows}", done.min(rows)));
    }
    sqlx::raw_sql("ANALYZE TABLE internal_pay_flow").execute(&mut *database).await?;
    phase.done();
    Ok(())
}

fn chunk(done: u64, rows: u64) -> String {
    format!(
        "INSERT INTO internal_pay_flow
           (id, user_id, scene, biz_key, attempt_no, trade_order_no, refund_order_no, status, version, amount, currency,
            biz_deadline_time, wallet_name, business_name, caller_id, idempotency_key, request_fingerprint,
            next_retry_time, finished_at, state_entered_at, created_at, update_time, ev_trigger)
         SELECT n, n, 'renew', CONCAT('R:', n), 1, CONCAT('h2r_', LOWER(CONV(n, 10, 36)), '_', LOWER(CONV(n, 10, 36))),
            CONCAT('r_h2r_', LOWER(CONV(n, 10, 36)), '_', LOWER(CONV(n, 10, 36))), 'BIZ_SUCCESS', 3, 1990, 'CNY',
            NOW(3), 'main', 'main', 'bench', n, REPEAT('0', 64), NOW(3) - INTERVAL 1 DAY, NOW(3), NOW(3), NOW(3), NOW(3),
            'SYNC'
         FROM (SELECT {done} + 1 + a.d + 10 * b.d + 100 * c.d + 1000 * d.d + 10000 * e.d AS n
               FROM digits a, digits b, digits c, digits d, digits e) numbers
         WHERE n <= {done} + {rows} ORDER BY n"
    )
}

#[derive(Clone, Copy)]
enum Shape {
    /// 100 due rows and 5 000 that are open but not due.
    Few,
    /// 200 000 due rows all over the id space.
    Spread,
    /// 200 000 due rows with the newest ids.
    Newest,
}

impl Shape {
    fn title(self) -> &'static str {
        match self {
            Shape::Few => "100 due, 5 000 not due",
            Shape::Spread => "200 000 due, spread",
            Shape::Newest => "200 000 due, newest ids",
        }
    }

    async fn make(self, database: &mut MySqlConnection, rows: u64) -> anyhow::Result<()> {
        let phase = Phase::start(format!("preparing: {}", self.title()));
        let close =
            "UPDATE internal_pay_flow SET status = 'BIZ_SUCCESS', finished_at = NOW(3) WHERE is_open = 1";
        sqlx::raw_sql(close).execute(&mut *database).await?;
        let open = |condition: String, due: &str| {
            format!(
                "UPDATE internal_pay_flow SET status = 'PAYING', finished_at = NULL, next_retry_time = NOW(3) {due}
                 WHERE {condition}"
            )
        };
        let due = "- INTERVAL 1 HOUR";
        let made = match self {
            Shape::Few => vec![
                open(format!("MOD(id, {}) = 7", (rows / 100).max(1)), due),
                open(format!("MOD(id, {}) = 11", (rows / 5_000).max(1)), "+ INTERVAL 1 HOUR"),
            ],
            Shape::Spread => vec![open(format!("MOD(id, {}) = 3", (rows / 200_000).max(1)), due)],
            Shape::Newest => vec![open(format!("id > {}", rows.saturating_sub(200_000)), due)],
        };
        for statement in made {
            sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut *database).await?;
        }
        phase.done();
        Ok(())
    }
}

struct Pages {
    median: Duration,
    worst: Duration,
}

struct Sweep {
    rows: usize,
    rows_per_s: u64,
}

/// The one "now" of a round, as the scanner takes it.
async fn round_now(database: &mut MySqlConnection) -> anyhow::Result<NaiveDateTime> {
    Ok(sqlx::query_scalar("SELECT NOW(3)").fetch_one(database).await?)
}

async fn page(
    database: &mut MySqlConnection,
    list_due: &str,
    now: NaiveDateTime,
    after: i64,
    limit_rows: u32,
) -> anyhow::Result<Vec<i64>> {
    Ok(sqlx::query_scalar(AssertSqlSafe(list_due.to_owned()))
        .bind(after)
        .bind(now)
        .bind(1)
        .bind(0)
        .bind(limit_rows)
        .fetch_all(database)
        .await?)
}

async fn measure_pages(database: &mut MySqlConnection, statements: &Statements) -> anyhow::Result<Pages> {
    let now = round_now(database).await?;
    let mut took = Vec::new();
    let mut after = 0;
    for _ in 0..PAGES {
        let watch = Stopwatch::start();
        let ids = page(database, &statements.list_due, now, after, PAGE_ROWS).await?;
        took.push(watch.elapsed());
        after = ids.last().copied().unwrap_or(0);
    }
    took.sort_unstable();
    Ok(Pages { median: took[took.len() / 2], worst: took[took.len() - 1] })
}

async fn measure_sweep(database: &mut MySqlConnection, statements: &Statements) -> anyhow::Result<Sweep> {
    let watch = Stopwatch::start();
    let now = round_now(database).await?;
    let (mut after, mut rows) = (0, 0);
    loop {
        let ids = page(database, &statements.list_due, now, after, SWEEP_PAGE_ROWS).await?;
        rows += ids.len();
        match ids.last() {
            Some(last) => after = *last,
            None => break,
        }
    }
    let per_s = u128::try_from(rows).unwrap_or(0) * 1_000_000 / watch.elapsed().as_micros().max(1);
    Ok(Sweep { rows, rows_per_s: u64::try_from(per_s).unwrap_or(u64::MAX) })
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn ms(time: Duration) -> String {
    let us = micros(time);
    format!("{}.{:02}", us / 1_000, us % 1_000 / 10)
}
