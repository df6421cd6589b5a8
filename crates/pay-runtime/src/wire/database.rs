//! Opening the store: what the operator decides, how long it is tried, and what is never waited for.

use std::fmt;
use std::time::Duration;

use flow_config::DatabaseConfig;
use flow_core::store::{
    ConnectError, MySqlStore, OptionsError, SchemaMismatch, ServerRefused, Setting, StoreOptions,
};
use tokio_util::sync::CancellationToken;

use super::{Patience, Ready, WireError};
use crate::process::explain;
use crate::shutdown::Exit;

/// Pauses between tries: the first, and the longest.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(250);
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Why the database cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// `[database]` is wrong.
    #[error("[database] is not usable; nothing was started")]
    Options(#[source] OptionsError),
    /// The server must not be trusted with money.
    #[error("the database server is refused; nothing was started: {weak}; change it there{insist}", weak = list(.0), insist = Insisted::on(.0))]
    Refused(ServerRefused),
    /// It does not answer.
    #[error(transparent)]
    Away(ConnectError),
    /// It has another schema.
    #[error("{0}")]
    Schema(SchemaMismatch),
}

impl DatabaseError {
    pub(super) const fn exit(&self) -> Exit {
        match self {
            DatabaseError::Options(_) => Exit::BadConfig,
            DatabaseError::Refused(_) | DatabaseError::Schema(_) => Exit::Refused,
            DatabaseError::Away(_) => Exit::Failed,
        }
    }

    /// Whether waiting may help: the database comes back, is migrated, is promoted.
    fn may_pass(&self) -> bool {
        match self {
            DatabaseError::Away(_) => true,
            DatabaseError::Schema(mismatch) => match mismatch {
                // Half applied is also what a migration under way looks like.
                SchemaMismatch::Empty
                | SchemaMismatch::Behind { .. }
                | SchemaMismatch::HalfApplied { .. } => true,
                SchemaMismatch::Ahead { .. } | SchemaMismatch::Altered { .. } => false,
            },
            DatabaseError::Refused(refused) => {
                refused.0.iter().all(|weakness| weakness.setting == Setting::ReadOnly)
            }
            DatabaseError::Options(_) => false,
        }
    }
}

impl From<ConnectError> for DatabaseError {
    fn from(error: ConnectError) -> DatabaseError {
        match error {
            ConnectError::Options(options) => DatabaseError::Options(options),
            ConnectError::Refused(refused) => DatabaseError::Refused(refused),
            ConnectError::Schema(mismatch) => DatabaseError::Schema(mismatch),
            away @ ConnectError::Unreachable(_) => DatabaseError::Away(away),
        }
    }
}

fn list(refused: &ServerRefused) -> String {
    refused.0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// The configuration keys by which an operator insists on a weak server. Shown as the end of a sentence; empty when
/// nothing of it can be insisted on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Insisted(Vec<&'static str>);

impl Insisted {
    fn on(refused: &ServerRefused) -> Insisted {
        let mut keys: Vec<&'static str> =
            refused.0.iter().filter_map(|weak| acceptance(weak.setting)).map(|way| way.key).collect();
        keys.sort_unstable();
        keys.dedup();
        Insisted(keys)
    }
}

impl fmt::Display for Insisted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        let keys: Vec<String> = self.0.iter().map(|key| format!("database.{key} = true")).collect();
        write!(f, ", or insist on it by {}", keys.join(" and "))
    }
}

/// The key of `[database]` by which a setting's weakness is accepted.
struct Acceptance {
    key: &'static str,
    is_given: fn(&DatabaseConfig) -> bool,
}

/// How a setting's weakness is accepted. `None`: it never is.
const fn acceptance(setting: Setting) -> Option<Acceptance> {
    match setting {
        Setting::SqlMode => Some(Acceptance {
            key: "accept_non_strict_sql_mode",
            is_given: |config| config.accept_non_strict_sql_mode,
        }),
        Setting::FlushLogAtCommit | Setting::SyncBinlog => Some(Acceptance {
            key: "accept_weak_durability",
            is_given: |config| config.accept_weak_durability,
        }),
        Setting::GuardTriggers => {
            Some(Acceptance { key: "accept_missing_guards", is_given: |config| config.accept_missing_guards })
        }
        Setting::Version | Setting::BinlogFormat | Setting::ReadOnly | Setting::Galera => None,
    }
}

fn options(config: &DatabaseConfig) -> StoreOptions {
    let is_accepted = |setting: &Setting| acceptance(*setting).is_some_and(|way| (way.is_given)(config));
    let insist_on = Setting::ALL.into_iter().filter(is_accepted);
    StoreOptions {
        read_connections: config.read_connections,
        committers: config.committers,
        max_batch_rows: config.max_batch_rows,
        queue_rows: config.queue_rows,
        acquire_timeout_ms: config.acquire_timeout_ms,
        statement_timeout_ms: config.statement_timeout_ms,
        insist_on: insist_on.map(|setting| setting.as_str().to_owned()).collect(),
        ..StoreOptions::new(config.url.expose())
    }
}

/// Opens the store; what may pass is waited for as patience has it.
pub(super) async fn connect(
    config: &DatabaseConfig,
    patience: Patience,
    ready: &Ready,
    stop: &CancellationToken,
) -> Result<MySqlStore, WireError> {
    let mut pause = FIRST_PAUSE;
    loop {
        let tried = stop.run_until_cancelled(MySqlStore::connect(options(config))).await;
        let error = match tried {
            None => return Err(WireError::Stopped),
            Some(Ok(store)) => return Ok(store),
            Some(Err(error)) => DatabaseError::from(error),
        };
        match patience {
            Patience::OneTry => return Err(error.into()),
            Patience::Forever if !error.may_pass() => return Err(error.into()),
            Patience::Forever => {}
        }
        let why = explain(&error);
        tracing::warn!(error = why, next_try_in_ms = pause.as_millis(), "waiting for the database");
        ready.waits_for(why);
        if stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
            return Err(WireError::Stopped);
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use flow_core::store::Weakness;

    use super::*;

    fn refused(settings: &[Setting]) -> DatabaseError {
        let weak = |setting: &Setting| Weakness { setting: *setting, value: "0".to_owned() };
        DatabaseError::Refused(ServerRefused(settings.iter().map(weak).collect()))
    }

    #[test]
    fn a_refusal_names_the_setting_and_the_key_that_insists() {
        let message =
            refused(&[Setting::SyncBinlog, Setting::FlushLogAtCommit, Setting::SqlMode]).to_string();
        assert!(message.contains("sync_binlog is \"0\""), "{message}");
        let end = "or insist on it by database.accept_non_strict_sql_mode = true and \
            database.accept_weak_durability = true";
        assert!(message.ends_with(end), "{message}");
        let message = refused(&[Setting::Galera]).to_string();
        assert!(!message.contains("insist"), "{message}");
    }

    #[test]
    fn a_replica_is_waited_for_and_a_weak_server_is_not() {
        assert!(refused(&[Setting::ReadOnly]).may_pass());
        assert!(!refused(&[Setting::ReadOnly, Setting::SyncBinlog]).may_pass());
    }
}
