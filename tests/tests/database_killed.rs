//! The database server killed under load, several times, and started again over what the kill left on disk: what was
//! acknowledged is there, nothing is doubled, and the services go on by themselves.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::{Crowd, Database, Flavor, Manners, Site};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use xtask::db::{Server, ServerOptions};
use xtask::stack::{Patience, Tuning};

const SEED: u64 = 20_261_130;
const SETTLE: Duration = Duration::from_secs(60);

e2e::on_both_servers! {
    killed_again_and_again within 150 s;
}

async fn killed_again_and_again(flavor: Flavor) -> anyhow::Result<()> {
    let options = ServerOptions { buffer_pool_mib: 64, ..ServerOptions::new(flavor) };
    let mut server = Server::start(options).await?;
    let tuning = Tuning { claim_ms: 1_000, round_interval_ms: 100, ..Tuning::default() };
    let mut site = Site::open(Database::on(&server, "killed").await?, tuning, 2, 1).await?;
    let pids = site.service_pids();
    let kills = kills_on(flavor);
    let manners = Manners { name: "killed", clients: 16, pause: Duration::ZERO, wait_s: 1 };
    let crowd = Crowd::start(&[site.stack.api(0), site.stack.api(1)], manners);
    let mut random = StdRng::seed_from_u64(SEED);
    crowd.ends(20).await.context("before any kill")?;
    for kill in 1..=kills {
        // In the middle of whatever is going on.
        tokio::time::sleep(Duration::from_millis(random.random_range(0..400))).await;
        let before = crowd.tally();
        server.kill().await?;
        // Sometimes for long enough that everybody notices, sometimes hardly.
        tokio::time::sleep(Duration::from_millis(random.random_range(100..1_000))).await;
        let starting = Patience::of(SETTLE);
        server.restart().await?;
        let up = starting.elapsed();
        let recovered = crowd.ends(20).await.with_context(|| format!("after kill {kill}"))?;
        let since = crowd.tally().since(&before);
        eprintln!(
            "kill {kill}: {} refused, {} unknown; the server was up after {up:.1?}, 20 payments ended well {recovered:.1?} later",
            since.refused, since.unknown,
        );
    }
    crowd.reckon(&site, "{kills} kills").await?;
    ensure!(site.service_pids() == pids, "a service has ended");
    site.close_expecting(&["round failed; the next one starts over", "error returned from after_connect"])
        .await?;
    Ok(server.stop().await?)
}

/// The reference server gets all of it; the other one shows that it is no different.
fn kills_on(flavor: Flavor) -> u32 {
    match flavor {
        Flavor::MySql => 4,
        Flavor::MariaDb => 2,
    }
}
