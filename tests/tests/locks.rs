//! Somebody else's locks: rows held for longer than a commit waits, rows locked in the opposite order, the table itself
//! locked. Writes are tried again where that helps; where it does not, clients are told that nothing was recorded.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::{Crowd, Database, Flavor, Manners, Site};
use serde_json::json;
use sqlx::{AssertSqlSafe, Connection as _, MySqlConnection};
use xtask::stack::{Payment, Tuning};

const SETTLE: Duration = Duration::from_secs(60);
/// Longer than a shared commit waits for a row; shorter than a write that goes by itself does.
const HELD: Duration = Duration::from_millis(1_500);
/// Longer than the services let any statement wait.
const TABLE_HELD: Duration = Duration::from_secs(4);
/// Deadlocks that the services must have met.
const DEADLOCKS: i64 = 6;
/// Flows that stay open and are rescheduled again and again, so that commits with many of them are always under way.
const RESCHEDULED: u64 = 40;
const SETTINGS: [(&str, &str); 1] = [("PAY__DATABASE__STATEMENT_TIMEOUT_MS", "2500")];

e2e::on_both_servers! {
    held_rows_and_tables within 120 s;
    opposite_order within 120 s;
}

fn tuning() -> Tuning {
    Tuning { retry_ms: vec![100], claim_ms: 300, round_interval_ms: 100, ..Tuning::default() }
}

async fn open(flavor: Flavor, suite: &str) -> anyhow::Result<Site> {
    let mut site = Site::open(Database::shared(flavor, suite).await?, tuning(), 0, 0).await?;
    site.stack.set_env(&SETTINGS);
    site.stack.start_api().await?;
    site.stack.start_scanner().await?;
    Ok(site)
}

async fn held_rows_and_tables(flavor: Flavor) -> anyhow::Result<()> {
    let mut site = open(flavor, "locks").await?;
    let pids = site.service_pids();
    let ids = "SELECT next_id FROM flow_id_block FOR UPDATE";
    let rows = "SELECT id FROM internal_pay_flow WHERE is_open = 1 FOR UPDATE";
    // Nobody has taken ids yet: the first payment needs a block.
    let mut thief = begin(&site, ids).await?;
    let refused = site.client().pay("first", &Payment::new(1, "first").body(), Some(0)).await?;
    ensure!(
        refused.status == 503 && refused.header("retry-after").is_some(),
        "HTTP {} {}",
        refused.status,
        refused.body
    );
    end(&mut thief).await?;
    let manners = Manners { name: "locks", clients: 16, pause: Duration::from_millis(10), wait_s: 1 };
    let crowd = Crowd::start(&[site.client()], manners);
    for (what, sql, held, rounds) in
        [("open flows", rows, HELD, 2), ("the table", "LOCK TABLES internal_pay_flow WRITE", TABLE_HELD, 1)]
    {
        for _ in 0..rounds {
            crowd.ends(10).await?;
            let before = crowd.tally();
            let mut thief = begin(&site, sql).await?;
            tokio::time::sleep(held).await;
            end(&mut thief).await?;
            let recovered = crowd.ends(10).await.with_context(|| format!("after {what} were locked"))?;
            let since = crowd.tally().since(&before);
            eprintln!(
                "{what} locked for {held:?}: {} refused, {} unknown; 10 payments ended well {recovered:.1?} after it",
                since.refused, since.unknown,
            );
        }
    }
    crowd.reckon(&site, "locks").await?;
    nobody_waits(&site).await?;
    ensure!(site.service_pids() == pids, "a service has ended");
    site.close_expecting(&["round failed; the next one starts over"]).await
}

/// The services lock rows in ascending order of id; somebody else does it the other way round, and weighs more, so that
/// the server ends the services' transaction each time.
async fn opposite_order(flavor: Flavor) -> anyhow::Result<()> {
    let mut site = open(flavor, "deadlocks").await?;
    let pids = site.service_pids();
    let outage = json!({ "calls": ["debit", "query"], "fault": { "kind": "processing" } });
    let outage = site.sim().fault(outage).await?;
    for user_id in 1..=RESCHEDULED {
        let body = Payment::new(5_000 + user_id, "rescheduled").body();
        let reply = site.client().pay(&format!("rescheduled-{user_id}"), &body, Some(0)).await?;
        ensure!(reply.status == 202, "HTTP {} {}", reply.status, reply.body);
    }
    let manners = Manners { name: "dead", clients: 8, pause: Duration::from_millis(10), wait_s: 0 };
    let crowd = Crowd::start(&[site.client()], manners);
    crowd.fresh(10).await?;
    let before = deadlocks(&site).await?;
    let (stop, theirs) = (AtomicBool::new(false), AtomicU32::new(0));
    let locking = lock_backwards(&site, &stop, &theirs);
    let watching = async {
        let enough = || async {
            let all = deadlocks(&site).await? - before;
            let ours = all - i64::from(theirs.load(Ordering::Relaxed));
            Ok((ours >= DEADLOCKS).then_some(ours))
        };
        let met = xtask::stack::wait_until("deadlocks", SETTLE, enough).await;
        stop.store(true, Ordering::Relaxed);
        met
    };
    let (locked, met) = tokio::join!(locking, watching);
    let (locked, met) = (locked?, met?);
    site.sim().remove_fault(outage).await?;
    let accounts = crowd.reckon(&site, "deadlocks").await?;
    eprintln!(
        "the services met {met} deadlocks in {locked} rounds, the other {}",
        theirs.load(Ordering::Relaxed)
    );
    ensure!(
        accounts.tally.refused + accounts.tally.unknown == 0,
        "a deadlock is no reason to refuse anything"
    );
    ensure!(site.service_pids() == pids, "a service has ended");
    site.close().await
}

/// Locks open flows from the highest id down, over and over; how often.
async fn lock_backwards(site: &Site, stop: &AtomicBool, lost: &AtomicU32) -> anyhow::Result<u32> {
    site.database.execute("CREATE TABLE ballast (id INT PRIMARY KEY, n INT NOT NULL)").await?;
    site.database
        .execute(
            "INSERT INTO ballast WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500) \
             SELECT i, 0 FROM n",
        )
        .await?;
    let mut root = site.database.connect().await?;
    let mut rounds = 0;
    while !stop.load(Ordering::Relaxed) {
        let backwards = [
            "BEGIN",
            "UPDATE ballast SET n = n + 1",
            "SELECT id FROM internal_pay_flow FORCE INDEX (PRIMARY) WHERE is_open = 1 ORDER BY id DESC FOR UPDATE",
            "COMMIT",
        ];
        for sql in backwards {
            match sqlx::raw_sql(sql).execute(&mut root).await {
                Ok(_) => {}
                Err(sqlx::Error::Database(error)) if error.message().contains("Deadlock") => {
                    lost.fetch_add(1, Ordering::Relaxed);
                    break;
                }
                Err(error) => return Err(error).context(sql),
            }
        }
        rounds += 1;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    root.close().await?;
    site.database.execute("DROP TABLE ballast").await?;
    Ok(rounds)
}

/// Deadlocks that the server has seen since it was started; the suites take turns, so nobody else's.
async fn deadlocks(site: &Site) -> anyhow::Result<i64> {
    let sql =
        "SELECT CAST(count AS SIGNED) FROM information_schema.innodb_metrics WHERE name = 'lock_deadlocks'";
    site.database.number(sql).await
}

/// A connection that holds what the statement locks; tried again while the services' locks are in its way.
async fn begin(site: &Site, sql: &str) -> anyhow::Result<MySqlConnection> {
    let mut root = site.database.connect().await?;
    sqlx::raw_sql("SET SESSION lock_wait_timeout = 30, innodb_lock_wait_timeout = 30")
        .execute(&mut root)
        .await?;
    loop {
        sqlx::raw_sql("BEGIN").execute(&mut root).await?;
        match sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut root).await {
            Ok(_) => return Ok(root),
            Err(sqlx::Error::Database(error)) if error.message().contains("Deadlock") => {}
            Err(error) => return Err(error).context(sql.to_owned()),
        }
    }
}

async fn end(thief: &mut MySqlConnection) -> anyhow::Result<()> {
    sqlx::raw_sql("ROLLBACK; UNLOCK TABLES").execute(thief).await?;
    Ok(())
}

/// No statement of the services waits at the server for ever.
async fn nobody_waits(site: &Site) -> anyhow::Result<()> {
    let schema = &site.database.schema;
    let sql = format!(
        "SELECT COUNT(*) FROM information_schema.processlist
         WHERE user = '{schema}_run' AND command IN ('Query', 'Execute') AND time > 3"
    );
    let waiting = site.database.number(&sql).await?;
    ensure!(waiting == 0, "{waiting} statements still wait at the server");
    Ok(())
}
