//! The database stopped, killed and frozen under load: clients are told so in bounded time, nothing is lost or doubled,
//! and everything goes on by itself once it is back.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::{Crowd, Database, Flavor, Manners, Site};
use xtask::db::{Server, ServerOptions};
use xtask::stack::{ApiClient, Patience, Tuning, wait_until};

const CROWD: Manners = Manners { name: "away", clients: 16, pause: Duration::ZERO, wait_s: 1 };
const OUTAGE_END: Duration = Duration::from_secs(40);
/// Longer than the services let a statement run.
const FROZEN: Duration = Duration::from_secs(7);
/// Payments that must get through after each outage.
const FRESH_PAYMENTS: u32 = 40;

e2e::on_both_servers! {
    stopped_killed_and_frozen within 240 s;
}

async fn stopped_killed_and_frozen(flavor: Flavor) -> anyhow::Result<()> {
    let options = ServerOptions { buffer_pool_mib: 64, ..ServerOptions::new(flavor) };
    let mut server = Server::start(options).await?;
    let tuning = Tuning { claim_ms: 1_500, ..Tuning::default() };
    let mut site = Site::open(Database::on(&server, "away").await?, tuning, 1, 1).await?;
    let pids = site.service_pids();
    let api = site.client();
    let crowd = Crowd::start(std::slice::from_ref(&api), CROWD);
    outages(&mut server, &api, &crowd).await?;
    let accounts = crowd.reckon(&site, "away").await?;
    ensure!(site.service_pids() == pids, "a service has ended: {pids:?}, {:?}", site.service_pids());
    ensure!(accounts.given_up() > 0, "no client was told that nothing was recorded");
    site.close_expecting(&["round failed; the next one starts over", "a transaction could not be ended"])
        .await?;
    Ok(server.stop().await?)
}

/// Graceful stop, crash, freeze, each under load, each followed by fresh payments.
async fn outages(server: &mut Server, api: &ApiClient, crowd: &Crowd) -> anyhow::Result<()> {
    crowd.fresh(FRESH_PAYMENTS).await.context("before any outage")?;
    server.stop().await?;
    told_so(api, crowd).await.context("while the server is stopped")?;
    server.restart().await?;
    crowd.fresh(FRESH_PAYMENTS).await.context("after a graceful stop")?;
    server.kill().await?;
    told_so(api, crowd).await.context("while the server is killed")?;
    server.restart().await?;
    crowd.fresh(FRESH_PAYMENTS).await.context("after a crash")?;
    server.pause().await?;
    let frozen = Patience::of(FROZEN);
    let thawed = || async { Ok(frozen.is_over().then_some(())) };
    wait_until("the server to have been frozen for a while", OUTAGE_END, thawed).await?;
    server.resume().await?;
    crowd.fresh(FRESH_PAYMENTS).await.context("after a freeze")?;
    Ok(())
}

/// Several clients have been told that nothing was recorded, and readiness says so while liveness does not.
async fn told_so(api: &ApiClient, crowd: &Crowd) -> anyhow::Result<()> {
    crowd.refusals(20).await?;
    let (ready, live) = (api.get("/readyz").await?, api.get("/healthz").await?);
    ensure!((ready.status, live.status) == (503, 200), "readyz {}, healthz {}", ready.status, live.status);
    Ok(())
}
