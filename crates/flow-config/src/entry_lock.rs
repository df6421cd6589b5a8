//! `[entry_lock]`

use std::fmt;
use std::str::FromStr;

use url::Url;

use crate::reader::Table;
use crate::secret::Secret;

/// The optional lock on user, scene and biz_key around the synchronous entry. Off unless `redis` is given.
#[derive(Debug, Clone)]
pub struct EntryLockConfig {
    /// Where the Redis or Valkey server is; `None`: no lock.
    pub redis: Option<RedisUrl>,
    /// How long a place stays taken whose holder has died.
    pub ttl_ms: u64,
    /// Longest wait behind somebody else; a request that wants to wait less for its answer waits less here, too.
    pub wait_ms: u64,
    /// Longest time of one call of the server, the connection included.
    pub timeout_ms: u64,
    /// How long the server is left alone after a call that failed; doubled with each further one, up to a minute.
    pub rest_ms: u64,
}

/// The address of a Redis or Valkey server, with its credentials: never shown.
#[derive(Debug, Clone)]
pub struct RedisUrl(Secret);

impl RedisUrl {
    /// The address. It may hold a password: do not log it.
    pub fn expose(&self) -> &str {
        self.0.expose()
    }
}

/// Not the address of such a server.
#[derive(Debug)]
pub struct NoRedisUrl;

impl fmt::Display for NoRedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "must be redis://… or rediss://… with a host, and at most the number of a database behind it",
        )
    }
}

impl FromStr for RedisUrl {
    type Err = NoRedisUrl;

    fn from_str(text: &str) -> Result<RedisUrl, NoRedisUrl> {
        let url = Url::parse(text).map_err(|_| NoRedisUrl)?;
        let database = url.path().trim_start_matches('/');
        let usable = matches!(url.scheme(), "redis" | "rediss")
            && url.host_str().is_some_and(|host| !host.is_empty())
            && (database.is_empty() || database.parse::<u16>().is_ok())
            && url.query().is_none()
            && url.fragment().is_none();
        if usable { Ok(RedisUrl(Secret::new(text.to_owned()))) } else { Err(NoRedisUrl) }
    }
}

impl EntryLockConfig {
    pub(crate) fn read(table: &mut Table<'_>) -> Option<EntryLockConfig> {
        // Not shown when wrong: it may hold a password.
        let redis = if table.has("redis") { table.parsed_hidden("redis").map(Some) } else { Some(None) };
        let ttl_ms = table.whole("ttl_ms", 100..=60_000);
        let wait_ms = table.whole("wait_ms", 0..=10_000);
        let timeout_ms = table.whole("timeout_ms", 1..=5_000);
        let rest_ms = table.whole("rest_ms", 10..=60_000);
        Some(EntryLockConfig {
            redis: redis?,
            ttl_ms: ttl_ms?,
            wait_ms: wait_ms?,
            timeout_ms: timeout_ms?,
            rest_ms: rest_ms?,
        })
    }
}
