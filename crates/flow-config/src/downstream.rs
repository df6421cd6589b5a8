//! What `[wallets.NAME]` and `[businesses.NAME]` have in common: how the system is reached, and how much we ask of it.

use std::fmt;
use std::str::FromStr;

use url::Url;

use crate::problems::Problems;
use crate::reader::Table;
use crate::secret::Secret;

/// How a downstream system is reached.
#[derive(Debug, Clone)]
pub struct TransportConfig {
    /// Where the contract's paths begin.
    pub base_url: Url,
    /// Longest time of one call, from connecting to the last byte of the answer.
    pub timeout_ms: u64,
    /// Longest time for making a connection; part of `timeout_ms`.
    pub connect_timeout_ms: u64,
    /// Most idle connections kept.
    pub max_idle_connections: usize,
    /// Sent as `Authorization: Bearer …`.
    pub bearer_token: Option<Secret>,
}

/// How much is asked of a downstream system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitsConfig {
    /// Most calls under way at once.
    pub max_concurrent_calls: u32,
    /// Calls per second in the long run.
    pub calls_per_s: u32,
    /// Calls that may be made at once after a pause.
    pub burst_calls: u32,
    /// Longest wait for one's turn; after it the call is postponed.
    pub queue_wait_ms: u64,
    /// Failures in a row that open the breaker.
    pub breaker_failures: u32,
    /// How long the breaker stays open the first time; doubles with each failed probe.
    pub breaker_open_ms: u64,
    /// Longest time that the breaker stays open.
    pub breaker_max_open_ms: u64,
}

struct BaseUrl(Url);

#[derive(Debug)]
struct NoBaseUrl;

impl fmt::Display for NoBaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("must be http://… or https://… with a host, and without user, query and fragment")
    }
}

impl FromStr for BaseUrl {
    type Err = NoBaseUrl;
    fn from_str(text: &str) -> Result<BaseUrl, NoBaseUrl> {
        let url = Url::parse(text).map_err(|_| NoBaseUrl)?;
        let plain = url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none();
        let usable = matches!(url.scheme(), "http" | "https") && url.has_host() && plain;
        if usable { Ok(BaseUrl(url)) } else { Err(NoBaseUrl) }
    }
}

impl TransportConfig {
    pub(crate) fn read(table: &mut Table<'_>) -> Option<TransportConfig> {
        // Not shown when wrong: somebody may have put a password into it.
        let base_url = table.parsed_hidden::<BaseUrl>("base_url");
        let timeout_ms = table.whole_or("timeout_ms", 3_000, 10..=60_000);
        let connect_timeout_ms = table.whole_or("connect_timeout_ms", 500, 10..=60_000);
        let max_idle_connections = table.whole_or("max_idle_connections", 64, 0..=10_000);
        let bearer_token = table.secret_if_given("bearer_token");
        Some(TransportConfig {
            base_url: base_url?.0,
            timeout_ms: timeout_ms?,
            connect_timeout_ms: connect_timeout_ms?,
            max_idle_connections: max_idle_connections?,
            bearer_token: bearer_token?,
        })
    }

    pub(crate) fn validate(&self, path: &str, problems: &mut Problems) {
        if self.connect_timeout_ms > self.timeout_ms {
            problems.note(
                format!("{path}.connect_timeout_ms"),
                format!("must be at most timeout_ms ({}), is {}", self.timeout_ms, self.connect_timeout_ms),
            );
        }
        let is_header_text = |token: &Secret| token.expose().bytes().all(|b| b.is_ascii_graphic());
        if self.bearer_token.as_ref().is_some_and(|token| !is_header_text(token)) {
            problems.note(format!("{path}.bearer_token"), "must consist of visible ASCII characters");
        }
    }
}

impl LimitsConfig {
    /// What a wallet or a business system bears unless the operator says otherwise.
    const DOWNSTREAM: LimitsConfig = LimitsConfig {
        max_concurrent_calls: 128,
        calls_per_s: 2_000,
        burst_calls: 200,
        queue_wait_ms: 100,
        breaker_failures: 10,
        breaker_open_ms: 1_000,
        breaker_max_open_ms: 30_000,
    };
    /// The same for an application that is told of its payments.
    pub(crate) const RECEIVER: LimitsConfig = LimitsConfig {
        max_concurrent_calls: 8,
        calls_per_s: 200,
        burst_calls: 50,
        queue_wait_ms: 1_000,
        ..LimitsConfig::DOWNSTREAM
    };

    pub(crate) fn read(table: &mut Table<'_>) -> Option<LimitsConfig> {
        LimitsConfig::read_with(table, LimitsConfig::DOWNSTREAM)
    }

    pub(crate) fn read_with(table: &mut Table<'_>, or: LimitsConfig) -> Option<LimitsConfig> {
        let max_concurrent_calls =
            table.whole_or("max_concurrent_calls", or.max_concurrent_calls, 1..=10_000);
        let calls_per_s = table.whole_or("calls_per_s", or.calls_per_s, 1..=1_000_000);
        let burst_calls = table.whole_or("burst_calls", or.burst_calls, 1..=1_000_000);
        let queue_wait_ms = table.whole_or("queue_wait_ms", or.queue_wait_ms, 0..=60_000);
        let breaker_failures = table.whole_or("breaker_failures", or.breaker_failures, 1..=100_000);
        let breaker_open_ms = table.whole_or("breaker_open_ms", or.breaker_open_ms, 1..=3_600_000);
        let breaker_max_open_ms =
            table.whole_or("breaker_max_open_ms", or.breaker_max_open_ms, 1..=3_600_000);
        Some(LimitsConfig {
            max_concurrent_calls: max_concurrent_calls?,
            calls_per_s: calls_per_s?,
            burst_calls: burst_calls?,
            queue_wait_ms: queue_wait_ms?,
            breaker_failures: breaker_failures?,
            breaker_open_ms: breaker_open_ms?,
            breaker_max_open_ms: breaker_max_open_ms?,
        })
    }

    pub(crate) fn validate(&self, path: &str, problems: &mut Problems) {
        if self.breaker_open_ms > self.breaker_max_open_ms {
            problems.note(
                format!("{path}.breaker_open_ms"),
                format!(
                    "must be at most breaker_max_open_ms ({}), is {}",
                    self.breaker_max_open_ms, self.breaker_open_ms
                ),
            );
        }
    }
}
