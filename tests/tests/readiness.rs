//! A service whose schema is not the one it was built for says so, and does not die of it.

use std::time::Duration;

use anyhow::ensure;
use e2e::{Database, Flavor, Site};
use xtask::stack::{Payment, Tuning, wait_until};

/// A readiness that is looked up now and then may lag behind a little.
const NOTICED: Duration = Duration::from_secs(15);

e2e::on_both_servers! {
    follows_the_schema within 90 s;
}

async fn follows_the_schema(flavor: Flavor) -> anyhow::Result<()> {
    let site = Site::open(Database::shared(flavor, "ready").await?, Tuning::default(), 1, 1).await?;
    becomes(&site, 200).await?;
    let last = site.database.number("SELECT MAX(version) FROM _sqlx_migrations").await?;
    site.database
        .execute(&format!(
            "CREATE TABLE kept_migration AS SELECT * FROM _sqlx_migrations WHERE version = {last};
             DELETE FROM _sqlx_migrations WHERE version = {last};"
        ))
        .await?;
    becomes(&site, 503).await?;
    site.database.execute("INSERT INTO _sqlx_migrations SELECT * FROM kept_migration;").await?;
    becomes(&site, 200).await?;
    let one_more = last + 1;
    site.database
        .execute(&format!(
            "UPDATE kept_migration SET version = {one_more};
             INSERT INTO _sqlx_migrations SELECT * FROM kept_migration;"
        ))
        .await?;
    becomes(&site, 503).await?;
    site.database
        .execute(&format!(
            "DELETE FROM _sqlx_migrations WHERE version = {one_more}; DROP TABLE kept_migration;"
        ))
        .await?;
    becomes(&site, 200).await?;
    let paid = site.client().pay("ready-1", &Payment::new(1, "ready").body(), Some(10)).await?;
    ensure!(paid.status == 201, "{} {}", paid.status, paid.body);
    site.settle(NOTICED).await?;
    site.close().await
}

/// Both services come to answer `/readyz` with this status; alive they are all the while.
async fn becomes(site: &Site, status: u16) -> anyhow::Result<()> {
    let api = site.client();
    let scanner = api.at(site.stack.scanner_url(0));
    for service in [&api, &scanner] {
        let noticed = || async { Ok((service.get("/readyz").await?.status == status).then_some(())) };
        wait_until(&format!("{}/readyz to become {status}", service.url()), NOTICED, noticed).await?;
        let live = service.get("/healthz").await?;
        ensure!(live.status == 200, "{}/healthz: {}", service.url(), live.status);
    }
    Ok(())
}
