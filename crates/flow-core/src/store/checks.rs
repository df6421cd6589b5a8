//! What a server must be before the service trusts it with money: settings that keep its promises, and the guards of
//! the schema in place.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use sqlx::MySqlConnection;

use super::migrate::MIGRATIONS;
use crate::crash::{Spot, around};

/// Something about a server that is checked at start. Its name is what `insist_on` takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Setting {
    /// Product and version.
    Version,
    /// Strictness.
    SqlMode,
    /// Durability of the storage engine.
    FlushLogAtCommit,
    /// Durability of the binary log.
    SyncBinlog,
    /// Format of the binary log.
    BinlogFormat,
    /// Whether writes are taken.
    ReadOnly,
    /// Multi-writer replication.
    Galera,
    /// The schema's triggers.
    GuardTriggers,
}

impl Setting {
    /// All of them.
    pub const ALL: [Setting; 8] = [
        Setting::Version,
        Setting::SqlMode,
        Setting::FlushLogAtCommit,
        Setting::SyncBinlog,
        Setting::BinlogFormat,
        Setting::ReadOnly,
        Setting::Galera,
        Setting::GuardTriggers,
    ];

    /// The server's own name of the setting, where it has one.
    pub const fn as_str(self) -> &'static str {
        match self {
            Setting::Version => "version",
            Setting::SqlMode => "sql_mode",
            Setting::FlushLogAtCommit => "innodb_flush_log_at_trx_commit",
            Setting::SyncBinlog => "sync_binlog",
            Setting::BinlogFormat => "binlog_format",
            Setting::ReadOnly => "read_only",
            Setting::Galera => "wsrep_on",
            Setting::GuardTriggers => "guard_triggers",
        }
    }

    /// The setting called so.
    pub fn parse(name: &str) -> Option<Setting> {
        Setting::ALL.into_iter().find(|setting| setting.as_str() == name)
    }

    const fn why(self) -> &'static str {
        match self {
            Setting::Version => "MySQL 8.0.19 or MariaDB 10.11 is the oldest that has what the schema uses",
            Setting::SqlMode => {
                "without a strict mode, a writer's wrong value is stored cut or as zero instead of refused"
            }
            Setting::FlushLogAtCommit => {
                "at any value but 1, a crash loses payments that were answered as recorded"
            }
            Setting::SyncBinlog => "at any value but 1, a crash makes replicas differ from what was answered",
            Setting::BinlogFormat => {
                "READ COMMITTED needs ROW or MIXED: statements are refused or replicate differently"
            }
            Setting::ReadOnly => "the service can't write here; is this the replica?",
            Setting::Galera => "with several writers a commit can be taken back; one writer is supported",
            Setting::GuardTriggers => {
                "without them, anybody may change a terminal payment or the audit log unnoticed"
            }
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A setting that breaks a promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Weakness {
    /// Which.
    pub setting: Setting,
    /// What it is.
    pub value: String,
}

impl fmt::Display for Weakness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Weakness { setting, value } = self;
        write!(f, "{setting} is {value:?}: {}", setting.why())
    }
}

/// A server that must not be trusted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the database server is refused: {}; change it there, or insist by configuration: insist_on = [{}]",
    .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
    .0.iter().map(|weakness| format!("\"{}\"", weakness.setting)).collect::<Vec<_>>().join(", "),
)]
pub struct ServerRefused(pub Vec<Weakness>);

/// What a server says of itself, as text.
#[derive(Debug, Clone)]
struct Facts {
    version: String,
    sql_mode: String,
    flush_log: String,
    sync_binlog: String,
    log_bin: String,
    binlog_format: String,
    read_only: String,
    /// `OFF` where the server was built without.
    galera: String,
}

/// Everything that is weak about the server behind a connection.
pub(super) async fn weaknesses(connection: &mut MySqlConnection) -> Result<Vec<Weakness>, sqlx::Error> {
    let told = around!(
        Spot::StartSettings,
        sqlx::query!(
            "SELECT VERSION() AS `version!`, @@GLOBAL.sql_mode AS `sql_mode!: String`, \
           CAST(@@GLOBAL.innodb_flush_log_at_trx_commit AS CHAR) AS `flush_log!: String`, \
           CAST(@@GLOBAL.sync_binlog AS CHAR) AS `sync_binlog!: String`, \
           CAST(@@GLOBAL.log_bin AS CHAR) AS `log_bin!: String`, \
           CAST(@@GLOBAL.binlog_format AS CHAR) AS `binlog_format!: String`, \
           CAST(@@GLOBAL.read_only AS CHAR) AS `read_only!: String`"
        )
        .fetch_one(&mut *connection)
        .await
    )?;
    // Exists on servers built with Galera alone.
    let galera = around!(
        Spot::StartGalera,
        sqlx::query!("SHOW GLOBAL VARIABLES LIKE 'wsrep_on'").fetch_optional(&mut *connection).await
    )?;
    let mut weak = judge(Facts {
        version: told.version,
        sql_mode: told.sql_mode,
        flush_log: told.flush_log,
        sync_binlog: told.sync_binlog,
        log_bin: told.log_bin,
        binlog_format: told.binlog_format,
        read_only: told.read_only,
        galera: galera.and_then(|row| row.Value).unwrap_or_else(|| "OFF".to_owned()),
    });
    if let Some(value) = guards_wrong(connection).await? {
        weak.push(Weakness { setting: Setting::GuardTriggers, value });
    }
    Ok(weak)
}

/// What is weak about a server that says this of itself.
fn judge(facts: Facts) -> Vec<Weakness> {
    let strict =
        facts.sql_mode.split(',').any(|mode| matches!(mode, "STRICT_TRANS_TABLES" | "STRICT_ALL_TABLES"));
    let writes_binlog = facts.log_bin != "0";
    let replicates_rows = matches!(facts.binlog_format.as_str(), "ROW" | "MIXED");
    let found = [
        (Setting::Version, old_enough(&facts.version), facts.version.clone()),
        (Setting::SqlMode, strict, facts.sql_mode),
        (Setting::FlushLogAtCommit, facts.flush_log == "1", facts.flush_log),
        (Setting::SyncBinlog, !writes_binlog || facts.sync_binlog == "1", facts.sync_binlog),
        (Setting::BinlogFormat, !writes_binlog || replicates_rows, facts.binlog_format),
        (Setting::ReadOnly, matches!(facts.read_only.as_str(), "0" | "OFF"), facts.read_only),
        (Setting::Galera, facts.galera == "OFF", facts.galera),
    ];
    found
        .into_iter()
        .filter(|(_, fine, _)| !fine)
        .map(|(setting, _, value)| Weakness { setting, value })
        .collect()
}

/// `9.7.4`, `8.0.36-28`, `10.11.6-MariaDB-log`, `5.5.5-10.11.6-MariaDB`.
fn old_enough(version: &str) -> bool {
    let maria = version.contains("MariaDB");
    let version = if maria { version.strip_prefix("5.5.5-").unwrap_or(version) } else { version };
    let mut parts = version.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse::<u32>().unwrap_or(0));
    let found = [parts.next().unwrap_or(0), parts.next().unwrap_or(0), parts.next().unwrap_or(0)];
    found >= if maria { [10, 11, 0] } else { [8, 0, 19] }
}

/// A trigger as the database describes it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct GuardTrigger {
    name: String,
    table: String,
    timing: String,
    event: String,
    sha256: String,
}

/// The guard triggers that the migrations create, by name.
fn expected_guards() -> BTreeMap<String, GuardTrigger> {
    MIGRATIONS
        .iter()
        .flat_map(|migration| guards_in(migration.sql.as_str()))
        .map(|guard| (guard.name.clone(), guard))
        .collect()
}

/// Reads `CREATE TRIGGER name TIMING EVENT ON table FOR EACH ROW`, then the body from BEGIN to an END at the margin.
fn guards_in(sql: &str) -> Vec<GuardTrigger> {
    sql.split("\nCREATE TRIGGER ")
        .skip(1)
        .filter_map(|text| {
            let (head, rest) = text.split_once(" FOR EACH ROW\n")?;
            let (body, _) = rest.split_once("\nEND;")?;
            let mut words = head.split(' ');
            let (name, timing, event) = (words.next()?, words.next()?, words.next()?);
            let table = words.nth(1)?;
            Some(GuardTrigger {
                name: name.to_owned(),
                table: table.to_owned(),
                timing: timing.to_owned(),
                event: event.to_owned(),
                sha256: hex::encode(Sha256::digest(format!("{body}\nEND").as_bytes())),
            })
        })
        .collect()
}

/// What is wrong with the guard triggers, if anything.
async fn guards_wrong(connection: &mut MySqlConnection) -> Result<Option<String>, sqlx::Error> {
    let listing = around!(
        Spot::StartGuards,
        sqlx::query_scalar!("SELECT flow_guard_triggers() AS `listing: String`").fetch_one(connection).await
    );
    let listing = match listing {
        Ok(listing) => listing.unwrap_or_default(),
        Err(error @ sqlx::Error::Database(_)) => {
            return Ok(Some(format!("unknown, since flow_guard_triggers() can't be called: {error}")));
        }
        Err(error) => return Err(error),
    };
    let found: Vec<GuardTrigger> = serde_json::from_str(&listing).unwrap_or_default();
    let found: BTreeMap<String, GuardTrigger> =
        found.into_iter().map(|guard| (guard.name.clone(), guard)).collect();
    let wrong: Vec<String> = expected_guards()
        .into_iter()
        .filter_map(|(name, expected)| match found.get(&name) {
            None => Some(format!("{name} missing")),
            Some(guard) if *guard != expected => Some(format!("{name} altered")),
            Some(_) => None,
        })
        .collect();
    Ok(if wrong.is_empty() { None } else { Some(wrong.join(", ")) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_both_servers() {
        for fine in
            ["8.0.19", "8.4.0", "9.7.4-2", "10.11.2-MariaDB", "5.5.5-10.11.6-MariaDB-log", "12.1.0-MariaDB"]
        {
            assert!(old_enough(fine), "{fine}");
        }
        for old in ["8.0.18", "5.7.44-log", "10.6.22-MariaDB", "5.5.5-10.3.39-MariaDB", ""] {
            assert!(!old_enough(old), "{old}");
        }
    }

    fn sound() -> Facts {
        Facts {
            version: "9.7.4".to_owned(),
            sql_mode: "STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION".to_owned(),
            flush_log: "1".to_owned(),
            sync_binlog: "1".to_owned(),
            log_bin: "1".to_owned(),
            binlog_format: "ROW".to_owned(),
            read_only: "0".to_owned(),
            galera: "OFF".to_owned(),
        }
    }

    #[test]
    fn every_weak_setting_is_named_and_a_sound_server_has_none() {
        assert_eq!(judge(sound()), []);
        let no_binlog = |facts: Facts| Facts { log_bin: "0".to_owned(), ..facts };
        let weak_log =
            Facts { sync_binlog: "0".to_owned(), binlog_format: "STATEMENT".to_owned(), ..sound() };
        assert_eq!(judge(no_binlog(weak_log)), [], "nothing about a log that is not written");
        let cases = [
            (Setting::Version, Facts { version: "8.0.18".to_owned(), ..sound() }),
            (Setting::SqlMode, Facts { sql_mode: "NO_ENGINE_SUBSTITUTION".to_owned(), ..sound() }),
            (Setting::FlushLogAtCommit, Facts { flush_log: "2".to_owned(), ..sound() }),
            (Setting::SyncBinlog, Facts { sync_binlog: "0".to_owned(), ..sound() }),
            (Setting::BinlogFormat, Facts { binlog_format: "STATEMENT".to_owned(), ..sound() }),
            (Setting::ReadOnly, Facts { read_only: "1".to_owned(), ..sound() }),
            (Setting::Galera, Facts { galera: "ON".to_owned(), ..sound() }),
        ];
        for (setting, facts) in cases {
            let named: Vec<Setting> = judge(facts).into_iter().map(|weakness| weakness.setting).collect();
            assert_eq!(named, [setting]);
        }
    }

    #[test]
    fn the_guards_are_those_of_the_migrations() {
        let names: Vec<String> = expected_guards().into_keys().collect();
        assert_eq!(
            names,
            [
                "event_before_delete",
                "event_before_update",
                "flow_after_insert",
                "flow_after_update",
                "flow_after_update_outbox",
                "flow_before_delete",
                "flow_before_update",
                "id_block_before_delete",
                "id_block_before_update",
                "outbox_after_update",
                "outbox_attempt_before_update",
                "outbox_before_delete",
                "outbox_before_update",
                "recon_batch_before_delete",
                "recon_batch_before_update",
                "request_key_before_delete",
                "request_key_before_update",
                "ticket_after_insert",
                "ticket_after_update",
                "ticket_before_delete",
                "ticket_before_update",
                "trail_before_delete",
                "trail_before_update",
            ]
        );
    }

    #[test]
    fn a_refusal_names_setting_value_reason_and_the_way_to_insist() {
        let refused = ServerRefused(vec![Weakness { setting: Setting::SyncBinlog, value: "0".to_owned() }]);
        let message = refused.to_string();
        assert!(message.contains("sync_binlog is \"0\""), "{message}");
        assert!(message.ends_with("insist_on = [\"sync_binlog\"]"), "{message}");
    }
}
