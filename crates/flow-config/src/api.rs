//! `[api]` and `[[api.keys]]`

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use chrono::{DateTime, Utc};
use flow_core::ids::CallerId;

use crate::problems::Problems;
use crate::reader::Table;
use crate::secret::KeyHash;

/// The API server.
#[derive(Debug, Clone)]
pub struct ApiConfig {
    /// Address and port to listen on.
    pub listen: SocketAddr,
    /// How long a creating request waits for a terminal state unless it says otherwise.
    pub default_wait_ms: u64,
    /// Longest wait that a request may ask for.
    pub max_wait_ms: u64,
    /// Largest accepted body.
    pub max_body_bytes: usize,
    /// Most connections; more wait in the listen queue.
    pub max_connections: usize,
    /// Longest time for a request's head; an idle connection is closed after it, too.
    pub header_read_timeout_ms: u64,
    /// Longest time for a request's body.
    pub body_read_timeout_ms: u64,
    /// Longest time that a client may need to take what is waiting for it.
    pub write_timeout_ms: u64,
    /// Most requests at once; more are refused with 429.
    pub max_in_flight_requests: usize,
    /// Longest time between the signal to stop and the end of the process.
    pub shutdown_drain_ms: u64,
    /// Who may call.
    pub keys: Vec<ApiKey>,
}

/// One API key, known by its hash alone.
#[derive(Debug, Clone)]
pub struct ApiKey {
    /// The calling application. Two keys of one name are one caller: that is how a key is replaced.
    pub name: CallerId,
    /// What it may do.
    pub role: Role,
    /// SHA-256 of the key.
    pub sha256: KeyHash,
    /// Refused from then on.
    pub expires_at: Option<DateTime<Utc>>,
}

/// What a caller may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Makes payments and sees its own.
    Client,
    /// Sees every flow.
    OnCall,
    /// Sees every flow, and holds, releases and cancels.
    Operator,
}

impl Role {
    /// All roles.
    pub const ALL: [Role; 3] = [Role::Client, Role::OnCall, Role::Operator];

    /// The spelling used in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Role::Client => "client",
            Role::OnCall => "on_call",
            Role::Operator => "operator",
        }
    }
}

#[derive(Debug)]
struct NoRole;

impl fmt::Display for NoRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("must be client, on_call or operator")
    }
}

struct ParsedRole(Role);

impl FromStr for ParsedRole {
    type Err = NoRole;
    fn from_str(text: &str) -> Result<ParsedRole, NoRole> {
        Role::ALL.into_iter().find(|role| role.as_str() == text).map(ParsedRole).ok_or(NoRole)
    }
}

impl ApiConfig {
    pub(crate) fn read(table: &mut Table<'_>) -> Option<ApiConfig> {
        let listen = table.parsed("listen");
        let default_wait_ms = table.whole("default_wait_ms", 0..=120_000);
        let max_wait_ms = table.whole("max_wait_ms", 0..=120_000);
        let max_body_bytes = table.whole("max_body_bytes", 1_024..=65_536);
        let max_connections = table.whole("max_connections", 1..=1_000_000);
        let header_read_timeout_ms = table.whole("header_read_timeout_ms", 100..=60_000);
        let body_read_timeout_ms = table.whole("body_read_timeout_ms", 100..=60_000);
        let write_timeout_ms = table.whole("write_timeout_ms", 100..=60_000);
        let max_in_flight_requests = table.whole("max_in_flight_requests", 1..=1_000_000);
        let shutdown_drain_ms = table.whole("shutdown_drain_ms", 0..=600_000);
        let keys = table.list("keys", ApiKey::read);
        Some(ApiConfig {
            listen: listen?,
            default_wait_ms: default_wait_ms?,
            max_wait_ms: max_wait_ms?,
            max_body_bytes: max_body_bytes?,
            max_connections: max_connections?,
            header_read_timeout_ms: header_read_timeout_ms?,
            body_read_timeout_ms: body_read_timeout_ms?,
            write_timeout_ms: write_timeout_ms?,
            max_in_flight_requests: max_in_flight_requests?,
            shutdown_drain_ms: shutdown_drain_ms?,
            keys,
        })
    }

    pub(crate) fn validate(&self, problems: &mut Problems) {
        if self.default_wait_ms > self.max_wait_ms {
            problems.note(
                "api.default_wait_ms",
                format!("must be at most max_wait_ms ({}), is {}", self.max_wait_ms, self.default_wait_ms),
            );
        }
        let mut hashes = BTreeSet::new();
        let mut roles = BTreeMap::new();
        for (i, key) in self.keys.iter().enumerate() {
            if !hashes.insert(key.sha256) {
                problems
                    .note(format!("api.keys[{i}].sha256"), "is given twice; a key must stand for one caller");
            }
            if *roles.entry(&key.name).or_insert(key.role) != key.role {
                problems.note(
                    format!("api.keys[{i}].role"),
                    format!("differs from the role of another key of the same name, {}", key.name),
                );
            }
        }
    }
}

impl ApiKey {
    fn read(table: &mut Table<'_>) -> Option<ApiKey> {
        let name = table.parsed("name");
        let role = table.parsed::<ParsedRole>("role");
        let sha256 = table.secret("sha256").and_then(|text| {
            let hash = KeyHash::from_hex(text.expose());
            if hash.is_none() {
                table.note("sha256", "must be 64 hexadecimal digits: the SHA-256 of the key");
            }
            hash
        });
        let expires_at = table.parsed_if_given("expires_at");
        Some(ApiKey { name: name?, role: role?.0, sha256: sha256?, expires_at: expires_at? })
    }
}
