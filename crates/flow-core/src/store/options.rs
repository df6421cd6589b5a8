//! What an operator decides about the store. Plain data: how it is read from files is `flow-config`'s business.

use std::fmt;

use super::checks::Setting;

/// How the store connects and how much it takes on.
#[derive(Clone)]
pub struct StoreOptions {
    /// `mysql://user:password@host:port/schema`, with `?ssl-mode=…&ssl-ca=…` or `?socket=…` where wanted.
    pub url: String,
    /// Connections for reads.
    pub read_connections: u32,
    /// Tasks that carry out writes, each with a connection of its own. One commit runs on one thread of the server, so
    /// that a second task uses a second one: half as much again at 64 callers; more tasks made commits smaller, not faster.
    pub committers: u32,
    /// Most writes that share one commit.
    pub max_batch_rows: usize,
    /// Most writes that wait; a write beyond that is refused at once.
    pub queue_rows: usize,
    /// Longest wait for a connection, in milliseconds.
    pub acquire_timeout_ms: u64,
    /// Longest run of one statement, or of the statements of one commit, in milliseconds.
    pub statement_timeout_ms: u64,
    /// Ids that one process takes at a time.
    pub id_block_rows: u32,
    /// Names of the settings (see [`Setting`]) whose weakness the operator accepts: said loudly, not refused.
    pub insist_on: Vec<String>,
}

/// Why options are no options.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// A number outside its range.
    #[error("store option {option} is {value}; allowed are {min} to {max}")]
    OutOfRange {
        /// The option.
        option: &'static str,
        /// Its value.
        value: u64,
        /// The least.
        min: u64,
        /// The most.
        max: u64,
    },
    /// `insist_on` names something that is not checked.
    #[error("store option insist_on names {name:?}, which is not checked; known are {known}")]
    UnknownSetting {
        /// What was given.
        name: String,
        /// What may be given.
        known: String,
    },
    /// The URL is not one of a schema on a MySQL or MariaDB server.
    #[error("the store's URL is not of the form mysql://user:password@host:port/schema ({problem})")]
    BadUrl {
        /// What is wrong with it; never the URL itself, which holds a password.
        problem: &'static str,
    },
}

impl StoreOptions {
    /// The defaults, for one URL.
    pub fn new(url: impl Into<String>) -> StoreOptions {
        StoreOptions {
            url: url.into(),
            read_connections: 8,
            committers: 2,
            max_batch_rows: 64,
            queue_rows: 4096,
            acquire_timeout_ms: 2_000,
            statement_timeout_ms: 10_000,
            id_block_rows: 1_000,
            insist_on: Vec::new(),
        }
    }

    /// Checks every number and name.
    ///
    /// # Errors
    /// [`OptionsError`] naming the first option that is wrong.
    pub fn check(&self) -> Result<(), OptionsError> {
        let ranges: [(&'static str, u64, u64, u64); 7] = [
            ("read_connections", self.read_connections.into(), 1, 256),
            ("committers", self.committers.into(), 1, 16),
            ("max_batch_rows", self.max_batch_rows as u64, 1, 1_000),
            ("queue_rows", self.queue_rows as u64, 1, 1_000_000),
            ("acquire_timeout_ms", self.acquire_timeout_ms, 10, 60_000),
            ("statement_timeout_ms", self.statement_timeout_ms, 100, 600_000),
            ("id_block_rows", self.id_block_rows.into(), 1, 1_000_000),
        ];
        for (option, value, min, max) in ranges {
            if !(min..=max).contains(&value) {
                return Err(OptionsError::OutOfRange { option, value, min, max });
            }
        }
        self.accepted().map(|_| ())
    }

    /// The settings that the operator insists on.
    pub(super) fn accepted(&self) -> Result<Vec<Setting>, OptionsError> {
        self.insist_on
            .iter()
            .map(|name| {
                Setting::parse(name).ok_or_else(|| OptionsError::UnknownSetting {
                    name: name.clone(),
                    known: Setting::ALL.map(Setting::as_str).join(", "),
                })
            })
            .collect()
    }
}

impl fmt::Debug for StoreOptions {
    /// Without the URL: it holds a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreOptions")
            .field("read_connections", &self.read_connections)
            .field("committers", &self.committers)
            .field("max_batch_rows", &self.max_batch_rows)
            .field("queue_rows", &self.queue_rows)
            .field("acquire_timeout_ms", &self.acquire_timeout_ms)
            .field("statement_timeout_ms", &self.statement_timeout_ms)
            .field("id_block_rows", &self.id_block_rows)
            .field("insist_on", &self.insist_on)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_allowed_and_show_no_password() {
        let options = StoreOptions::new("mysql://pay:secret@db/pay");
        assert_eq!(options.check(), Ok(()));
        assert!(!format!("{options:?}").contains("secret"));
    }

    #[test]
    fn what_is_out_of_range_is_named() {
        let mut options = StoreOptions::new("");
        options.committers = 0;
        assert_eq!(
            options.check().unwrap_err().to_string(),
            "store option committers is 0; allowed are 1 to 16"
        );
        let mut options = StoreOptions::new("");
        options.insist_on = vec!["fsync".to_owned()];
        let message = options.check().unwrap_err().to_string();
        assert!(message.contains("\"fsync\"") && message.contains("sync_binlog"), "{message}");
    }
}
