//! `[database]`

use crate::problems::Problems;
use crate::reader::Table;
use crate::secret::Secret;

/// The database and how it is used.
#[derive(Debug, Clone)]
pub struct DatabaseConfig {
    /// `mysql://user:password@host:port/schema`; secret for the password's sake.
    pub url: Secret,
    /// Connections for reads and single writes.
    pub read_connections: u32,
    /// Tasks that commit writes, each with a connection of its own.
    pub committers: u32,
    /// Most writes that share one commit.
    pub max_batch_rows: usize,
    /// Most writes that wait for a committer; more are refused.
    pub queue_rows: usize,
    /// Longest wait for a connection.
    pub acquire_timeout_ms: u64,
    /// Longest time of one statement.
    pub statement_timeout_ms: u64,
    /// Insist on a server that may lose acknowledged commits in a crash.
    pub accept_weak_durability: bool,
    /// Insist on a server that silently changes values that do not fit.
    pub accept_non_strict_sql_mode: bool,
    /// Insist on a schema without its guard triggers.
    pub accept_missing_guards: bool,
}

impl DatabaseConfig {
    pub(crate) fn read(table: &mut Table<'_>) -> Option<DatabaseConfig> {
        let url = table.secret("url");
        let read_connections = table.whole("read_connections", 1..=64);
        let committers = table.whole("committers", 1..=16);
        let max_batch_rows = table.whole("max_batch_rows", 1..=1_000);
        let queue_rows = table.whole("queue_rows", 1..=1_000_000);
        let acquire_timeout_ms = table.whole("acquire_timeout_ms", 10..=60_000);
        let statement_timeout_ms = table.whole("statement_timeout_ms", 100..=600_000);
        let accept_weak_durability = table.flag("accept_weak_durability");
        let accept_non_strict_sql_mode = table.flag("accept_non_strict_sql_mode");
        let accept_missing_guards = table.flag("accept_missing_guards");
        Some(DatabaseConfig {
            url: url?,
            read_connections: read_connections?,
            committers: committers?,
            max_batch_rows: max_batch_rows?,
            queue_rows: queue_rows?,
            acquire_timeout_ms: acquire_timeout_ms?,
            statement_timeout_ms: statement_timeout_ms?,
            accept_weak_durability: accept_weak_durability?,
            accept_non_strict_sql_mode: accept_non_strict_sql_mode?,
            accept_missing_guards: accept_missing_guards?,
        })
    }

    pub(crate) fn validate(&self, problems: &mut Problems) {
        let url = url::Url::parse(self.url.expose());
        let names_schema = |url: &url::Url| url.path().trim_matches('/').len() == url.path().len() - 1;
        match url {
            Ok(url) if matches!(url.scheme(), "mysql" | "mariadb") && url.path().len() > 1 && names_schema(&url) => {}
            Ok(_) | Err(_) => problems.note(
                "database.url",
                "must be mysql://user:password@host:port/schema; the value is not shown, as it holds the password",
            ),
        }
        if self.max_batch_rows > self.queue_rows {
            problems.note(
                "database.max_batch_rows",
                format!("must be at most queue_rows ({}), is {}", self.queue_rows, self.max_batch_rows),
            );
        }
    }
}
