//! Another client of the server takes all its connections: the services are refused theirs, say so, wait, and go on
//! once there are some again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::{Crowd, Database, Flavor, Manners, Site};
use sqlx::{AssertSqlSafe, Connection as _, MySqlConnection};
use xtask::db::{Server, ServerOptions};
use xtask::stack::Tuning;

/// Enough for the services, not for much else.
const CONNECTIONS: u32 = 40;
const ROUNDS: u32 = 1;
/// Tasks that take connections.
const MOUTHS: u32 = 6;

e2e::on_both_servers! {
    taken_by_somebody_else within 90 s;
}

async fn taken_by_somebody_else(flavor: Flavor) -> anyhow::Result<()> {
    let options =
        ServerOptions { buffer_pool_mib: 64, max_connections: CONNECTIONS, ..ServerOptions::new(flavor) };
    let mut server = Server::start(options).await?;
    let tuning = Tuning { claim_ms: 1_000, round_interval_ms: 100, ..Tuning::default() };
    let mut site = Site::open(Database::on(&server, "crowded").await?, tuning, 1, 1).await?;
    let pids = site.service_pids();
    server.run_sql("CREATE USER 'eater'@'%' IDENTIFIED BY 'hungry'").await?;
    let manners = Manners { name: "crowded", clients: 16, pause: Duration::ZERO, wait_s: 1 };
    let crowd = Crowd::start(&[site.client()], manners);
    crowd.ends(20).await.context("before it gets crowded")?;
    for _ in 0..ROUNDS {
        let before = crowd.tally();
        let eaten = eat_all(&server, &site).await?;
        crowd.refusals(40).await.context("while there are no connections")?;
        let count = eaten.len();
        for connection in eaten {
            connection.close().await?;
        }
        let recovered = crowd.ends(20).await.context("once there are connections again")?;
        let since = crowd.tally().since(&before);
        eprintln!(
            "{count} of {CONNECTIONS} connections taken by another: {} refused, {} unknown; 20 payments ended well \
             {recovered:.1?} after they were given back",
            since.refused, since.unknown,
        );
    }
    let accounts = crowd.reckon(&site, "too many connections").await?;
    ensure!(accounts.given_up() > 0, "no client was told that nothing was recorded");
    ensure!(site.service_pids() == pids, "a service has ended");
    site.close_expecting(&["round failed; the next one starts over", "error returned from after_connect"])
        .await?;
    Ok(server.stop().await?)
}

/// Takes every connection there is, those of the services included: an administrator ends them, and somebody else is
/// quicker to take what is free.
async fn eat_all(server: &Server, site: &Site) -> anyhow::Result<Vec<MySqlConnection>> {
    let (full, url) = (AtomicBool::new(false), format!("mysql://eater:hungry@127.0.0.1:{}", server.port()));
    let eating = futures_util::future::try_join_all((0..MOUTHS).map(|_| eat(&url, &full)));
    let clearing = async {
        let cleared = end_all_of_services(site).await;
        full.store(true, Ordering::Relaxed);
        cleared
    };
    let (eaten, ()) = tokio::try_join!(eating, clearing)?;
    Ok(eaten.into_iter().flatten().collect())
}

/// Takes one connection after the other until there are no others.
async fn eat(url: &str, full: &AtomicBool) -> anyhow::Result<Vec<MySqlConnection>> {
    let mut eaten = Vec::new();
    while !full.load(Ordering::Relaxed) {
        match MySqlConnection::connect(url).await {
            Ok(connection) => eaten.push(connection),
            Err(sqlx::Error::Database(refusal)) if refusal.message().contains("Too many") => {}
            Err(error) => return Err(error).context("not refused as one too many"),
        }
    }
    Ok(eaten)
}

/// Ends the services' connections until they have none.
async fn end_all_of_services(site: &Site) -> anyhow::Result<()> {
    // The one connection that is kept for administrators.
    let mut root = site.database.connect().await?;
    let schema = &site.database.schema;
    let sql =
        format!("SELECT CAST(id AS SIGNED) FROM information_schema.processlist WHERE user = '{schema}_run'");
    loop {
        let theirs: Vec<i64> = sqlx::query_scalar(AssertSqlSafe(sql.clone())).fetch_all(&mut root).await?;
        if theirs.is_empty() {
            return Ok(root.close().await?);
        }
        for id in theirs {
            // It may have gone meanwhile.
            let _ = sqlx::raw_sql(AssertSqlSafe(format!("KILL {id}"))).execute(&mut root).await;
        }
    }
}
