//! A schema with the product's two accounts, made by `docs/grants.sql` as it stands, so that what the document tells an
//! administrator to do is what every demo and benchmark has done.

use std::path::Path;

use anyhow::Context as _;
use sqlx::{AssertSqlSafe, Connection as _, MySqlConnection};
use tokio::process::Command;

use super::Profile;

/// A migrated schema.
#[derive(Debug, Clone)]
pub struct Schema {
    /// Its URL as the services' own account sees it.
    pub app_url: String,
    /// Its URL as the migration account sees it.
    pub migrate_url: String,
}

/// Where the second part of `docs/grants.sql` begins: what needs the tables.
const AFTER_MIGRATION: &str = "\n-- 2.";

/// Held while a schema is prepared: two at once would take each other's right to create triggers away.
const SERVER_LOCK: &str = "prepare_schema";
const SERVER_LOCK_WAIT_S: u32 = 60;

impl Schema {
    /// Makes the schema on the server at `root_url`, its accounts and rights, and migrates it.
    ///
    /// # Errors
    /// The server refuses, or the migration fails.
    pub async fn prepare(root_url: &str, name: &str, profile: Profile) -> anyhow::Result<Schema> {
        let path = crate::workspace_root().join("docs/grants.sql");
        let grants =
            std::fs::read_to_string(&path).with_context(|| format!("can not read {}", path.display()))?;
        let grants = for_schema(&grants, name);
        let (before, after) = grants.split_once(AFTER_MIGRATION).context("docs/grants.sql has no part 2")?;
        let server = root_url.rsplit('@').next().unwrap_or(root_url);
        let schema = Schema {
            app_url: format!("mysql://{name}_run:change-me-2@{server}/{name}"),
            migrate_url: format!("mysql://{name}_migrate:change-me-1@{server}/{name}"),
        };
        let mut root = MySqlConnection::connect(root_url).await.context("the server does not answer")?;
        let mut run = async |sql: &str| -> anyhow::Result<()> {
            sqlx::raw_sql(AssertSqlSafe(sql.to_owned()))
                .execute(&mut root)
                .await
                .map(|_| ())
                .with_context(|| format!("the server refuses:\n{sql}"))
        };
        // The variable below is the whole server's; the lock goes with the connection.
        run(&format!("DO GET_LOCK('{SERVER_LOCK}', {SERVER_LOCK_WAIT_S})")).await?;
        run(&format!("DROP DATABASE IF EXISTS `{name}`; CREATE DATABASE `{name}` CHARACTER SET utf8mb4"))
            .await?;
        run(before).await?;
        run("SET GLOBAL log_bin_trust_function_creators = 1").await?;
        let migrated = migrate(&profile.binary("pay-api"), &schema.migrate_url).await;
        run("SET GLOBAL log_bin_trust_function_creators = 0").await?;
        migrated?;
        run(&format!("-- 2.{after}")).await?;
        root.close().await?;
        Ok(schema)
    }
}

/// The document names the schema `pay` and the accounts `pay_migrate` and `pay_run`.
fn for_schema(grants: &str, name: &str) -> String {
    grants
        .replace("`pay`", &format!("`{name}`"))
        .replace("'pay_migrate'", &format!("'{name}_migrate'"))
        .replace("'pay_run'", &format!("'{name}_run'"))
}

/// Runs `pay-api migrate`.
///
/// # Errors
/// It fails; the error carries what it said.
pub async fn migrate(pay_api: &Path, url: &str) -> anyhow::Result<()> {
    let output = Command::new(pay_api)
        .args(["migrate", "--url", url])
        .output()
        .await
        .with_context(|| format!("can not run {} migrate; was it built?", pay_api.display()))?;
    anyhow::ensure!(
        output.status.success(),
        "pay-api migrate failed:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}
