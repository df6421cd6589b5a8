//! One suite's schema, migrated, with the two accounts of the product, on the shared server or on one of the suite's own.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use anyhow::Context as _;
use sqlx::{AssertSqlSafe, Connection as _, MySqlConnection, Row as _};
use xtask::db::{Flavor, Server};
use xtask::stack::{Profile, Schema};

/// A schema and who may use it.
#[derive(Debug, Clone)]
pub struct Database {
    /// Which server.
    pub flavor: Flavor,
    /// The schema.
    pub schema: String,
    /// Its URL as the services' own account sees it.
    pub app_url: String,
    /// Its URL as the migration account sees it.
    pub migrate_url: String,
    root_url: String,
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
        let Schema { app_url, migrate_url } = Schema::prepare(&root_url, &schema, Profile::Debug).await?;
        Ok(Database { flavor, schema, app_url, migrate_url, root_url })
    }

    /// The same schema on another server that has it, too.
    #[must_use]
    pub fn moved_to(&self, server: &Server) -> Database {
        Database { root_url: server.root_url(), ..self.clone() }
    }

    /// The server's address.
    ///
    /// # Errors
    /// The URL names none.
    pub fn address(&self) -> anyhow::Result<SocketAddr> {
        let text = self.root_url.rsplit('@').next().unwrap_or_default();
        text.parse().with_context(|| format!("the server's URL ends in no address: {text}"))
    }

    /// The URL as the services' own account sees it, with the server at another address and without TLS, which no
    /// proxy could look into.
    ///
    /// # Errors
    /// The URL names no server.
    pub fn app_url_at(&self, address: SocketAddr) -> anyhow::Result<String> {
        let (account, rest) = self.app_url.split_once('@').context("the URL names no account")?;
        let (_, schema) = rest.split_once('/').context("the URL names no schema")?;
        Ok(format!("{account}@{address}/{schema}?ssl-mode=DISABLED"))
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

    /// The first column of every row where it is not NULL, as text.
    ///
    /// # Errors
    /// The server's refusal.
    pub async fn texts(&self, sql: &str) -> anyhow::Result<Vec<String>> {
        let mut root = self.connect().await?;
        let rows = sqlx::query(AssertSqlSafe(sql))
            .fetch_all(&mut root)
            .await
            .with_context(|| format!("refused: {sql}"))?;
        root.close().await?;
        let texts: Vec<Option<String>> = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
        Ok(texts.into_iter().flatten().collect())
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
        self.number(
            "SELECT COUNT(*) FROM internal_pay_flow \
             WHERE status NOT IN ('PAY_FAIL', 'BIZ_SUCCESS', 'REFUNDED') AND hold_reason IS NULL",
        )
        .await
    }

    /// Drops the schema and its accounts.
    ///
    /// # Errors
    /// The server does not answer.
    pub async fn remove(self) -> anyhow::Result<()> {
        let schema = &self.schema;
        let users = format!("DROP USER '{schema}_run'@'%', '{schema}_migrate'@'%'");
        self.execute(&format!("DROP DATABASE `{schema}`; {users};")).await
    }
}
