//! A server that takes no more writes, as after a fail-over to its successor: clients are told that nothing was recorded,
//! reads go on, and so do writes once they are taken again.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::{Crowd, Database, Flavor, Manners, Site};
use xtask::db::{Server, ServerOptions};
use xtask::stack::{Payment, Tuning};

e2e::on_both_servers! {
    under_load within 90 s;
}

async fn under_load(flavor: Flavor) -> anyhow::Result<()> {
    let options = ServerOptions { buffer_pool_mib: 64, ..ServerOptions::new(flavor) };
    let mut server = Server::start(options).await?;
    let tuning = Tuning { claim_ms: 1_000, round_interval_ms: 100, ..Tuning::default() };
    let mut site = Site::open(Database::on(&server, "readonly").await?, tuning, 1, 1).await?;
    let pids = site.service_pids();
    let body = Payment::new(1, "before").body();
    let known = site.client().pay("before", &body, Some(20)).await?;
    let manners = Manners { name: "ro", clients: 16, pause: Duration::ZERO, wait_s: 1 };
    let crowd = Crowd::start(&[site.client()], manners);
    let ways: &[(&str, &str)] = match flavor {
        Flavor::MySql => &[
            ("SET GLOBAL read_only = ON", "SET GLOBAL read_only = OFF"),
            ("SET GLOBAL super_read_only = ON", "SET GLOBAL super_read_only = OFF, GLOBAL read_only = OFF"),
        ],
        Flavor::MariaDb => &[("SET GLOBAL read_only = ON", "SET GLOBAL read_only = OFF")],
    };
    // Twice each: writes of another kind may be under way at that moment.
    for (on, off) in ways.iter().chain(ways) {
        crowd.ends(20).await.context("while writes are taken")?;
        let before = crowd.tally();
        server.run_sql(on).await?;
        crowd.refusals(40).await.with_context(|| format!("after {on}"))?;
        let read = site.client().get(&format!("/payment-flows/{}", known.flow_id())).await?;
        ensure!(read.status == 200, "a read on a read-only server: HTTP {} {}", read.status, read.body);
        let replay = site.client().pay("before", &body, Some(0)).await?;
        ensure!(replay.flow_id() == known.flow_id(), "a replay: HTTP {} {}", replay.status, replay.body);
        server.run_sql(off).await?;
        let recovered = crowd.ends(20).await.with_context(|| format!("after {off}"))?;
        let since = crowd.tally().since(&before);
        eprintln!(
            "{on}: {} refused, {} unknown; 20 payments ended well {recovered:.1?} after its end",
            since.refused, since.unknown,
        );
        // A server that is read-only says so; whether it has committed is never in doubt.
        ensure!(since.unknown == 0, "a read-only server's refusal is definite");
    }
    crowd.reckon(&site, "read-only").await?;
    ensure!(site.service_pids() == pids, "a service has ended");
    site.close().await?;
    Ok(server.stop().await?)
}
