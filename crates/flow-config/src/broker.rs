//! `[broker]`

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use flow_core::retry::Schedule;
use url::Url;

use crate::problems::Problems;
use crate::reader::Table;
use crate::scanner::ScannerConfig;
use crate::secret::Secret;

/// How wake-ups go through a message broker, if they do. Losing every one only costs time.
#[derive(Debug, Clone)]
pub struct BrokerConfig {
    /// Addresses of one NATS cluster, separated by commas; secret for the passwords' sake. `None`: no broker, and each
    /// API process wakes its flows by a timer of its own.
    pub url: Option<Secret>,
    /// A NATS credentials file (JWT and seed).
    pub credentials_file: Option<PathBuf>,
    /// Certificates (PEM) that the broker's own may be signed by, besides the machine's.
    pub ca_file: Option<PathBuf>,
    /// The stream, and the first word of its subjects.
    pub stream: StreamName,
    /// Copies of each message in a NATS cluster.
    pub replicas: u32,
    /// Most wake-ups that the broker holds; beyond that the oldest goes, and is the scanner's.
    pub max_messages: u64,
    /// Longest delay that is asked of the broker; what is due later is the scanner's.
    pub longest_delay_ms: u64,
    /// Most wake-ups that wait in one process for being published; more are the scanner's.
    pub queue_flows: usize,
    /// Most wake-ups being published at once by one process.
    pub max_parallel_publishes: usize,
    /// Longest time of one publication.
    pub publish_timeout_ms: u64,
    /// Most flows that one scanner advances at once on account of wake-ups.
    pub max_parallel_flows: usize,
    /// How long the broker waits for word of a delivery before it delivers again.
    pub ack_wait_ms: u64,
    /// Most deliveries of one wake-up; then it is a dead letter.
    pub max_deliveries: u32,
    /// Delays before each further delivery of one that failed.
    pub redelivery: Schedule,
}

/// Name of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamName(String);

impl StreamName {
    /// Most characters.
    pub const MAX_CHARS: usize = 64;

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for StreamName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A text that is no name of a stream.
#[derive(Debug)]
pub struct NoStreamName;

impl fmt::Display for NoStreamName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "must be 1 to {} of A-Z, a-z, 0-9, _ and -", StreamName::MAX_CHARS)
    }
}

impl FromStr for StreamName {
    type Err = NoStreamName;

    fn from_str(text: &str) -> Result<StreamName, NoStreamName> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        let usable = (1..=StreamName::MAX_CHARS).contains(&text.len()) && text.bytes().all(plain);
        if usable { Ok(StreamName(text.to_owned())) } else { Err(NoStreamName) }
    }
}

/// Longer than two advances by this much must the wait for word of a delivery be: one may be waiting for its turn behind
/// another.
pub(crate) const ACK_MARGIN_MS: u64 = 2_000;

impl BrokerConfig {
    pub(crate) fn read(table: &mut Table<'_>) -> Option<BrokerConfig> {
        let url = table.secret_if_given("url");
        let credentials_file = table.parsed_if_given("credentials_file");
        let ca_file = table.parsed_if_given("ca_file");
        let stream = table.parsed("stream");
        let replicas = table.whole("replicas", 1..=5);
        let max_messages = table.whole("max_messages", 1..=1_000_000_000);
        let longest_delay_ms = table.whole("longest_delay_ms", 1..=2 * Schedule::MAX_DELAY_MS);
        let queue_flows = table.whole("queue_flows", 1..=1_000_000);
        let max_parallel_publishes = table.whole("max_parallel_publishes", 1..=10_000);
        let publish_timeout_ms = table.whole("publish_timeout_ms", 10..=60_000);
        let max_parallel_flows = table.whole("max_parallel_flows", 1..=10_000);
        let ack_wait_ms = table.whole("ack_wait_ms", 1_000..=3_600_000);
        let max_deliveries = table.whole("max_deliveries", 1..=1_000);
        let redelivery = table.schedule("redelivery_ms");
        Some(BrokerConfig {
            url: url?,
            credentials_file: credentials_file?,
            ca_file: ca_file?,
            stream: stream?,
            replicas: replicas?,
            max_messages: max_messages?,
            longest_delay_ms: longest_delay_ms?,
            queue_flows: queue_flows?,
            max_parallel_publishes: max_parallel_publishes?,
            publish_timeout_ms: publish_timeout_ms?,
            max_parallel_flows: max_parallel_flows?,
            ack_wait_ms: ack_wait_ms?,
            max_deliveries: max_deliveries?,
            redelivery: redelivery?,
        })
    }

    pub(crate) fn validate(&self, scanner: &ScannerConfig, problems: &mut Problems) {
        // Without a broker the rest is not used.
        let Some(url) = &self.url else { return };
        if !url.expose().split(',').all(names_a_server) {
            problems.note(
                "broker.url",
                "must be nats://user:password@host:port or tls://…, several of them separated by commas; the value is \
                 not shown, as it may hold a password",
            );
        }
        let least_ms = 2 * scanner.budget_ms + ACK_MARGIN_MS;
        if self.ack_wait_ms < least_ms {
            problems.note(
                "broker.ack_wait_ms",
                format!(
                    "must be at least twice scanner.budget_ms ({}) and {ACK_MARGIN_MS} ms more, or the broker would \
                     deliver again what is still being worked on; is {}",
                    scanner.budget_ms, self.ack_wait_ms
                ),
            );
        }
    }
}

fn names_a_server(text: &str) -> bool {
    let Ok(url) = Url::parse(text.trim()) else { return false };
    let nothing_more = matches!(url.path(), "" | "/") && url.query().is_none() && url.fragment().is_none();
    matches!(url.scheme(), "nats" | "tls")
        && url.host_str().is_some_and(|host| !host.is_empty())
        && nothing_more
}
