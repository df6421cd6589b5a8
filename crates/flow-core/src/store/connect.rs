//! Connections: what every session is set to, and the pool of those that read.
//!
//! Knows no statement of the domain.

use std::str::FromStr as _;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::mysql::{MySqlConnectOptions, MySqlPool, MySqlPoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _, MySqlConnection};

use super::options::{OptionsError, StoreOptions};
use crate::crash::{Spot, around};
use crate::ports::{Clock as _, SystemClock};

/// A connection that was idle for longer is asked for a sign of life before it is used.
pub(super) const IDLE_BEFORE_PING: Duration = Duration::from_secs(10);

/// How long the server keeps a writing or lock-holding session that says nothing. Where the network loses a connection
/// without telling the server, what it held (rows of a transaction, a sweep's lock) is free again after that; by its own
/// default the server waits for hours. Longer than [`IDLE_BEFORE_PING`], so that no write runs into it.
const SILENCE_LIMIT_S: u64 = 20;
/// How often a session that must not be ended by that says something.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// The same for a session that reads: it holds nothing but its place among the server's connections. Longer than the
/// pool keeps an idle one.
const READER_SILENCE_LIMIT_S: u64 = 900;

/// What a connection is for. Decides how long it waits for a row lock and whether the server bounds its statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Single reads.
    Read,
    /// Writes that share a commit: a locked row must not hold up its neighbours for long.
    Commit,
    /// Writes that go one by one, among them those whose row was locked.
    Redo,
    /// Named locks, migrations and checks.
    Hold,
}

/// Opens connections of one store.
#[derive(Debug, Clone)]
pub(super) struct Connector {
    options: MySqlConnectOptions,
    connect_limit: Duration,
    statement_limit: Duration,
}

impl Connector {
    /// Reads the URL.
    ///
    /// # Errors
    /// [`OptionsError::BadUrl`].
    pub(super) fn new(options: &StoreOptions) -> Result<Connector, OptionsError> {
        let bad = |problem| OptionsError::BadUrl { problem };
        let parsed = MySqlConnectOptions::from_str(&options.url).map_err(|_| bad("it can't be parsed"))?;
        if parsed.get_database().is_none_or(str::is_empty) {
            return Err(bad("it names no schema"));
        }
        Ok(Connector {
            // sql_mode is set below, as a whole; statements are not logged by the driver.
            options: parsed.pipes_as_concat(false).no_engine_substitution(false).disable_statement_logging(),
            connect_limit: Duration::from_millis(options.acquire_timeout_ms),
            statement_limit: Duration::from_millis(options.statement_timeout_ms),
        })
    }

    /// Longest run of one statement.
    pub(super) const fn statement_limit(&self) -> Duration {
        self.statement_limit
    }

    /// Opens one connection, in bounded time.
    pub(super) async fn open(&self, purpose: Purpose) -> Result<MySqlConnection, sqlx::Error> {
        let opening = async {
            let mut connection = self.options.connect().await?;
            let session = AssertSqlSafe(self.session(purpose));
            around!(Spot::Session, connection.execute(session).await)?;
            Ok(connection)
        };
        tokio::time::timeout(self.connect_limit, opening).await.unwrap_or(Err(sqlx::Error::PoolTimedOut))
    }

    /// The pool of reading connections. Nothing on it ever begins a transaction, so that none can come back open, and
    /// every use of it runs in a task that no caller can cancel (`reads`).
    pub(super) fn read_pool(&self, connections: u32) -> MySqlPool {
        self.pool(Purpose::Read, connections)
    }

    /// A pool of connections for single statements, which alone go over it. None is made before it is needed.
    pub(super) fn pool(&self, purpose: Purpose, connections: u32) -> MySqlPool {
        let session = self.session(purpose);
        MySqlPoolOptions::new()
            .max_connections(connections)
            .acquire_timeout(self.connect_limit)
            .test_before_acquire(false)
            .before_acquire(|connection, meta| {
                Box::pin(async move {
                    if meta.idle_for > IDLE_BEFORE_PING {
                        connection.ping().await?;
                    }
                    Ok(true)
                })
            })
            .after_connect(move |connection, _| {
                let session = AssertSqlSafe(session.clone());
                Box::pin(async move {
                    around!(Spot::PoolSession, connection.execute(session).await)?;
                    Ok(())
                })
            })
            .connect_lazy_with(self.options.clone())
    }

    /// What a session is set to. Two statements in one packet.
    fn session(&self, purpose: Purpose) -> String {
        let statement_ms = u64::try_from(self.statement_limit.as_millis()).unwrap_or(u64::MAX);
        let lock_wait_s = match purpose {
            Purpose::Commit => 1,
            Purpose::Read | Purpose::Redo | Purpose::Hold => (statement_ms / 2000).clamp(1, 5),
        };
        let silence_s = match purpose {
            Purpose::Read => READER_SILENCE_LIMIT_S,
            Purpose::Commit | Purpose::Redo | Purpose::Hold => SILENCE_LIMIT_S,
        };
        // A table's lock is waited for no longer than a row's: a statement that we have given up would go on waiting at the
        // server, connection and all, for up to a year. Migrations wait as long as the server lets them.
        let table_wait = match purpose {
            Purpose::Read | Purpose::Commit | Purpose::Redo => format!(", lock_wait_timeout = {lock_wait_s}"),
            Purpose::Hold => String::new(),
        };
        // Each server reads its own half of the version comments. MariaDB's limit counts seconds and covers writes
        // too, which must never be ended by the server in the middle: reads alone have it.
        let limit = match purpose {
            Purpose::Read => format!(
                " /*!80000 , max_execution_time = {statement_ms} */ /*M!100100 , max_statement_time = {}.{:03} */",
                statement_ms / 1000,
                statement_ms % 1000,
            ),
            Purpose::Commit | Purpose::Redo | Purpose::Hold => String::new(),
        };
        format!(
            "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; \
             SET SESSION autocommit = 1, time_zone = '+00:00', innodb_lock_wait_timeout = {lock_wait_s}, \
             wait_timeout = {silence_s}{table_wait}, \
             sql_mode = 'STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,\
             NO_ENGINE_SUBSTITUTION'{limit}"
        )
    }
}

/// The database's clock between two readings of it: the last reading plus the monotonic time since. Never ahead of the
/// real one, since a reading is older than the moment at which it arrives. For display and for "now" right after a
/// write; a due date or a deadline is always decided by a fresh reading.
#[derive(Debug, Default)]
pub(super) struct DatabaseClock {
    ahead_of_monotonic_ms: AtomicI64,
}

impl DatabaseClock {
    /// Keeps a reading that has just arrived.
    pub(super) fn seen(&self, now: DateTime<Utc>) {
        self.ahead_of_monotonic_ms.store(now.timestamp_millis() - monotonic_ms(), Ordering::Relaxed);
    }

    /// The estimate.
    pub(super) fn estimate(&self) -> DateTime<Utc> {
        let ms = self.ahead_of_monotonic_ms.load(Ordering::Relaxed) + monotonic_ms();
        DateTime::from_timestamp_millis(ms).unwrap_or_default()
    }
}

fn monotonic_ms() -> i64 {
    i64::try_from(SystemClock.monotonic_ms()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_without_a_schema_is_refused_without_showing_it() {
        for url in ["mysql://pay:secret@db", "mysql://pay:secret@db/", "secret"] {
            let message = Connector::new(&StoreOptions::new(url)).unwrap_err().to_string();
            assert!(!message.contains("secret"), "{message}");
        }
        assert!(Connector::new(&StoreOptions::new("mysql://pay:secret@db:3306/pay")).is_ok());
    }

    #[test]
    fn only_reads_are_ended_by_the_server() {
        let connector = Connector::new(&StoreOptions::new("mysql://db/pay")).unwrap();
        assert!(connector.session(Purpose::Read).contains("max_statement_time = 10.000"));
        for purpose in [Purpose::Commit, Purpose::Redo, Purpose::Hold] {
            assert!(!connector.session(purpose).contains("max_"), "{purpose:?}");
        }
    }

    #[test]
    fn no_session_is_ended_for_silence_before_it_would_be_asked_for_a_sign_of_life() {
        let connector = Connector::new(&StoreOptions::new("mysql://db/pay")).unwrap();
        for purpose in [Purpose::Commit, Purpose::Redo, Purpose::Hold] {
            assert!(connector.session(purpose).contains("wait_timeout = 20,"), "{purpose:?}");
        }
        assert!(IDLE_BEFORE_PING.as_secs() < SILENCE_LIMIT_S && 2 * KEEP_ALIVE.as_secs() < SILENCE_LIMIT_S);
        assert!(!connector.session(Purpose::Hold).contains(" lock_wait_timeout"));
    }
}
