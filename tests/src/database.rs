//! One suite's schema with the two accounts of the product, on the shared server or on one of the suite's own.

use std::collections::BTreeMap;

use anyhow::Context as _;
use sqlx::{AssertSqlSafe, Connection as _, MySqlConnection, Row as _};
use xtask::db::{Flavor, Server};

/// A schema and who may use it.
#[derive(Debug, Clone)]
pub struct Database {
    /// Which server.
    pub flavor: Flavor,
    /// The schema.
    pub schema: String,
    root_url: String,
    password: String,
}

impl Database {
    /// A schema of its own on the server that `cargo xtask test` provides.
    ///
    /// # Errors
    /// Not run by `cargo xtask test`, or the server does not answer.
    pub async fn shared(flavor: Flavor, suite: &str) -> anyhow::Result<Database> {
        let variable = flavor.test_url_variable();
        let root_url = std::env::var(variable).ok().filter(|url| !url.is_empty()).with_context(|| {
            format!("{variable} is not set: these suites need servers and binaries; run `cargo xtask test`")
        })?;
        Database::create(flavor, root_url, suite).await
    }

    /// A schema on a server that the suite started.
    ///
    /// # Errors
    /// The server does not answer.
    pub async fn on(server: &Server, suite: &str) -> anyhow::Result<Database> {
        Database::create(server.flavor(), server.root_url(), suite).await
    }

    async fn create(flavor: Flavor, root_url: String, suite: &str) -> anyhow::Result<Database> {
        let schema = format!("e2e_{suite}_{}", std::process::id());
        let database = Database { flavor, root_url, password: format!("pw_{schema}"), schema };
        let Database { schema, password, .. } = &database;
        let mut server =
            MySqlConnection::connect(&database.root_url).await.context("the server does not answer")?;
        let (app, migrate) = (database.account("app"), database.account("mig"));
        // The rights that docs/database.md asks for: see there for SUPER.
        let sql = format!(
            "DROP DATABASE IF EXISTS `{schema}`; CREATE DATABASE `{schema}` CHARACTER SET utf8mb4;
             CREATE USER IF NOT EXISTS '{app}'@'%' IDENTIFIED BY '{password}';
             CREATE USER IF NOT EXISTS '{migrate}'@'%' IDENTIFIED BY '{password}';
             GRANT ALL PRIVILEGES ON `{schema}`.* TO '{migrate}'@'%';
             GRANT SUPER ON *.* TO '{migrate}'@'%';"
        );
        sqlx::raw_sql(AssertSqlSafe(sql))
            .execute(&mut server)
            .await
            .context("can not make schema and accounts")?;
        server.close().await?;
        Ok(database)
    }

    /// Gives the services' account what it needs at run time, and nothing else. After the migrations.
    ///
    /// # Errors
    /// A table is missing.
    pub async fn grant_run_time_rights(&self) -> anyhow::Result<()> {
        let (schema, app) = (&self.schema, self.account("app"));
        let sql = format!(
            "GRANT SELECT, INSERT, UPDATE ON `{schema}`.internal_pay_flow TO '{app}'@'%';
             GRANT SELECT, INSERT ON `{schema}`.pay_request_key TO '{app}'@'%';
             GRANT SELECT ON `{schema}`.pay_flow_event TO '{app}'@'%';
             GRANT SELECT, UPDATE ON `{schema}`.flow_id_block TO '{app}'@'%';
             GRANT SELECT ON `{schema}`._sqlx_migrations TO '{app}'@'%';
             GRANT EXECUTE ON FUNCTION `{schema}`.flow_guard_triggers TO '{app}'@'%';"
        );
        self.execute(&sql).await.context("can not grant the run-time rights")
    }

    /// The account of this schema for a purpose; MariaDB and MySQL both allow 32 characters.
    fn account(&self, purpose: &str) -> String {
        let name: String = self.schema.chars().skip(4).take(26).collect();
        format!("{name}_{purpose}")
    }

    /// The schema as the services see it.
    pub fn app_url(&self) -> String {
        self.url_of("app")
    }

    /// The schema as whoever migrates sees it.
    pub fn migrate_url(&self) -> String {
        self.url_of("mig")
    }

    fn url_of(&self, purpose: &str) -> String {
        let server = self.root_url.rsplit('@').next().unwrap_or(&self.root_url);
        format!("mysql://{}:{}@{server}/{}", self.account(purpose), self.password, self.schema)
    }

    /// A connection as root, inside the schema.
    ///
    /// # Errors
    /// The server does not answer.
    pub async fn connect(&self) -> anyhow::Result<MySqlConnection> {
        let url = format!("{}/{}", self.root_url, self.schema);
        MySqlConnection::connect(&url).await.context("the server does not answer")
    }

    /// Runs statements as root, inside the schema.
    ///
    /// # Errors
    /// The server's refusal.
    pub async fn execute(&self, sql: &str) -> anyhow::Result<()> {
        let mut root = self.connect().await?;
        sqlx::raw_sql(AssertSqlSafe(sql))
            .execute(&mut root)
            .await
            .with_context(|| format!("refused: {sql}"))?;
        Ok(root.close().await?)
    }

    /// A single whole number.
    ///
    /// # Errors
    /// The server's refusal.
    pub async fn number(&self, sql: &str) -> anyhow::Result<i64> {
        let mut root = self.connect().await?;
        let row = sqlx::query(AssertSqlSafe(sql))
            .fetch_one(&mut root)
            .await
            .with_context(|| format!("refused: {sql}"))?;
        let number = row.try_get(0)?;
        root.close().await?;
        Ok(number)
    }

    /// How many rows each table has.
    ///
    /// # Errors
    /// The server does not answer.
    pub async fn row_counts(&self) -> anyhow::Result<BTreeMap<String, i64>> {
        let mut root = self.connect().await?;
        let tables: Vec<String> = sqlx::query_scalar(
            "SELECT CAST(table_name AS CHAR) FROM information_schema.tables
             WHERE table_schema = DATABASE() AND table_type = 'BASE TABLE'",
        )
        .fetch_all(&mut root)
        .await?;
        let mut counts = BTreeMap::new();
        for table in tables {
            let sql = format!("SELECT COUNT(*) FROM `{table}`");
            let count: i64 = sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&mut root).await?;
            counts.insert(table, count);
        }
        root.close().await?;
        Ok(counts)
    }

    /// Flows that neither ended nor wait for people.
    ///
    /// # Errors
    /// The server does not answer.
    pub async fn open_flows(&self) -> anyhow::Result<i64> {
        self.number("SELECT COUNT(*) FROM internal_pay_flow WHERE is_open = 1 AND hold_reason IS NULL").await
    }

    /// Drops the schema and its accounts.
    ///
    /// # Errors
    /// The server does not answer.
    pub async fn remove(self) -> anyhow::Result<()> {
        let (schema, app, migrate) = (&self.schema, self.account("app"), self.account("mig"));
        self.execute(&format!("DROP DATABASE `{schema}`; DROP USER '{app}'@'%', '{migrate}'@'%';")).await
    }
}
