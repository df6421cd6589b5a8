//! `[notifications]` and `[notifications.applications.NAME]`

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flow_core::ids::CallerId;
use flow_core::notify::RetryPlan;
use ipnet::IpNet;
use url::Url;

use crate::downstream::LimitsConfig;
use crate::problems::Problems;
use crate::reader::Table;

/// How applications are told of their payments.
#[derive(Debug, Clone)]
pub struct NotificationsConfig {
    /// How long no other scanner takes what one is sending.
    pub claim_ms: u64,
    /// Pause between two looks for what is due, while nothing is.
    pub poll_interval_ms: u64,
    /// When a failed delivery is tried again, and how often.
    pub retry: RetryPlan,
    /// Whether receivers in private networks may be called.
    pub allow_private_targets: bool,
    /// Private networks that may be called all the same.
    pub allowed_targets: Vec<IpNet>,
    /// Who is told, by the application's name.
    pub applications: BTreeMap<CallerId, ApplicationConfig>,
}

/// One application that is told.
#[derive(Debug, Clone)]
pub struct ApplicationConfig {
    /// Whether it is told of changes from now on; what is in the outbox is delivered all the same.
    pub is_enabled: bool,
    /// Where.
    pub url: Url,
    /// What the messages are signed with.
    pub secret: SigningSecret,
    /// While a secret is being replaced: messages are signed with this one, too.
    pub previous_secret: Option<SigningSecret>,
    /// Longest time of one call, from connecting to the answer.
    pub timeout_ms: u64,
    /// Longest time for making a connection; part of `timeout_ms`.
    pub connect_timeout_ms: u64,
    /// How much is asked of it.
    pub limits: LimitsConfig,
}

/// A key of Standard Webhooks: never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningSecret(Vec<u8>);

impl SigningSecret {
    /// Takes the key's bytes as they are, for tests.
    pub const fn from_bytes(bytes: Vec<u8>) -> SigningSecret {
        SigningSecret(bytes)
    }

    /// The key's bytes. Do not log them.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

/// A text that is no key.
#[derive(Debug)]
pub struct NoSecret;

impl fmt::Display for NoSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("must be whsec_ and the base64 of 24 to 64 random bytes")
    }
}

impl FromStr for SigningSecret {
    type Err = NoSecret;

    fn from_str(text: &str) -> Result<SigningSecret, NoSecret> {
        let bytes = text.strip_prefix("whsec_").and_then(|rest| STANDARD.decode(rest).ok());
        bytes.filter(|bytes| (24..=64).contains(&bytes.len())).map(SigningSecret).ok_or(NoSecret)
    }
}

struct HookUrl(Url);

#[derive(Debug)]
struct NoHookUrl;

impl fmt::Display for NoHookUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("must be http://… or https://… with a host, and without user and fragment")
    }
}

impl FromStr for HookUrl {
    type Err = NoHookUrl;
    fn from_str(text: &str) -> Result<HookUrl, NoHookUrl> {
        let url = Url::parse(text).map_err(|_| NoHookUrl)?;
        let plain = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
        let usable = matches!(url.scheme(), "http" | "https") && url.has_host() && plain;
        if usable { Ok(HookUrl(url)) } else { Err(NoHookUrl) }
    }
}

/// Longer than the call by this much must a claim be: time for claiming before it and for settling after it.
pub(crate) const CLAIM_MARGIN_MS: u64 = 1_000;

impl NotificationsConfig {
    pub(crate) fn read(table: &mut Table<'_>) -> Option<NotificationsConfig> {
        let claim_ms = table.whole("claim_ms", 1_000..=600_000);
        let poll_interval_ms = table.whole("poll_interval_ms", 10..=60_000);
        let delays_ms = table.whole_list("retry_ms");
        let longest_retry_after_ms = table.whole("max_retry_after_ms", 0..=604_800_000);
        let allow_private_targets = table.flag("allow_private_targets");
        let allowed_targets = table.parsed_list("allowed_targets");
        let applications = table.named("applications", CallerId::new, ApplicationConfig::read);
        let retry = match RetryPlan::new(delays_ms?, longest_retry_after_ms?) {
            Ok(plan) => Some(plan),
            Err(error) => {
                table.note("retry_ms", error.to_string());
                None
            }
        };
        Some(NotificationsConfig {
            claim_ms: claim_ms?,
            poll_interval_ms: poll_interval_ms?,
            retry: retry?,
            allow_private_targets: allow_private_targets?,
            allowed_targets: allowed_targets?,
            applications,
        })
    }

    pub(crate) fn validate(&self, problems: &mut Problems) {
        for (name, application) in &self.applications {
            let path = format!("notifications.applications.{name}");
            application.limits.validate(&path, problems);
            if application.connect_timeout_ms > application.timeout_ms {
                problems.note(
                    format!("{path}.connect_timeout_ms"),
                    format!(
                        "must be at most timeout_ms ({}), is {}",
                        application.timeout_ms, application.connect_timeout_ms
                    ),
                );
            }
            // A call may wait for a place, and then for the rate budget.
            let wait_ms = 2 * application.limits.queue_wait_ms;
            let least_ms = application.timeout_ms + wait_ms + CLAIM_MARGIN_MS;
            if self.claim_ms < least_ms {
                problems.note(
                    format!("{path}.timeout_ms"),
                    format!(
                        "with twice queue_wait_ms and {CLAIM_MARGIN_MS} ms more it must be at most notifications.claim_ms \
                         ({}), or another scanner would send what one is still sending; is {}",
                        self.claim_ms, application.timeout_ms
                    ),
                );
            }
        }
    }
}

impl ApplicationConfig {
    fn read(table: &mut Table<'_>) -> Option<ApplicationConfig> {
        let is_enabled = table.flag_or("enabled", true);
        // Not shown when wrong: a receiver's address may carry a token.
        let url = table.parsed_hidden::<HookUrl>("url");
        let secret = table.parsed_hidden("secret");
        let previous_secret = if table.has("previous_secret") {
            table.parsed_hidden("previous_secret").map(Some)
        } else {
            Some(None)
        };
        let timeout_ms = table.whole_or("timeout_ms", 10_000, 10..=60_000);
        let connect_timeout_ms = table.whole_or("connect_timeout_ms", 3_000, 10..=60_000);
        let limits = LimitsConfig::read_with(table, LimitsConfig::RECEIVER);
        Some(ApplicationConfig {
            is_enabled: is_enabled?,
            url: url?.0,
            secret: secret?,
            previous_secret: previous_secret?,
            timeout_ms: timeout_ms?,
            connect_timeout_ms: connect_timeout_ms?,
            limits: limits?,
        })
    }
}
