//! `[channels.NAME]`

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::problems::Problems;
use crate::reader::Table;
use crate::secret::Secret;

/// A channel that sends callbacks, and how they are known to be its own.
#[derive(Debug, Clone)]
pub struct ChannelConfig {
    /// How its callbacks are signed.
    pub scheme: SchemeConfig,
    /// How far its clock and ours may be apart, and how long a callback may be on its way, in seconds.
    pub tolerance_s: u64,
}

/// How callbacks are signed.
#[derive(Debug, Clone)]
pub enum SchemeConfig {
    /// HMAC-SHA256 by the Standard Webhooks specification.
    StandardWebhooks {
        /// Every secret that is accepted: while one replaces another, both.
        secrets: Vec<WebhookSecret>,
    },
    /// RSA with SHA-256, PKCS #1 v1.5.
    RsaSha256 {
        /// PEM file of the channel's public key; several blocks while one replaces another.
        public_key_file: PathBuf,
        /// What is signed, and where the signature is.
        layout: RsaLayout,
    },
}

/// What an RSA channel signs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RsaLayout {
    /// Time, nonce and body, each followed by a line feed; all but the body, and the signature, in headers.
    TimestampNonceBody {
        /// Header with the time, in seconds since 1970.
        timestamp_header: String,
        /// Header with the nonce.
        nonce_header: String,
        /// Header with the signature.
        signature_header: String,
    },
    /// The parameters of a form, sorted by name and joined as `a=1&b=2`, without `sign` and `sign_type`.
    SortedForm,
}

/// A secret of the Standard Webhooks specification. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookSecret(Vec<u8>);

impl WebhookSecret {
    /// Shortest and longest accepted secret, in bytes, as the specification has it.
    const BYTES: std::ops::RangeInclusive<usize> = 24..=64;

    /// The bytes. Do not log them.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

/// Why a text is no secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be whsec_ and the base64 of 24 to 64 random bytes")]
pub struct NoWebhookSecret;

impl FromStr for WebhookSecret {
    type Err = NoWebhookSecret;
    fn from_str(text: &str) -> Result<WebhookSecret, NoWebhookSecret> {
        let encoded = text.strip_prefix("whsec_").ok_or(NoWebhookSecret)?;
        let bytes = STANDARD.decode(encoded).map_err(|_| NoWebhookSecret)?;
        if Self::BYTES.contains(&bytes.len()) { Ok(WebhookSecret(bytes)) } else { Err(NoWebhookSecret) }
    }
}

/// Most secrets of one channel: each is tried on every callback.
const MAX_SECRETS: usize = 8;

struct Word(&'static str);

#[derive(Debug)]
struct NoWord(&'static [&'static str]);

impl fmt::Display for NoWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "must be {}", self.0.join(" or "))
    }
}

const STANDARD_WEBHOOKS: &str = "standard-webhooks";
const RSA_SHA256: &str = "rsa-sha256";
const TIMESTAMP_NONCE_BODY: &str = "timestamp-nonce-body";
const SORTED_FORM: &str = "sorted-form";
const SCHEMES: &[&str] = &[STANDARD_WEBHOOKS, RSA_SHA256];
const LAYOUTS: &[&str] = &[TIMESTAMP_NONCE_BODY, SORTED_FORM];

fn word(table: &mut Table<'_>, key: &str, words: &'static [&'static str]) -> Option<Word> {
    let text = table.parsed::<String>(key)?;
    let found = words.iter().find(|word| **word == text);
    if found.is_none() {
        table.note(key, NoWord(words).to_string());
    }
    found.map(|word| Word(word))
}

impl ChannelConfig {
    pub(crate) fn read(table: &mut Table<'_>) -> Option<ChannelConfig> {
        let scheme = word(table, "scheme", SCHEMES);
        let tolerance_s = table.whole_or("tolerance_s", 300, 1..=86_400);
        let scheme = match scheme?.0 {
            STANDARD_WEBHOOKS => {
                read_secrets(table).map(|secrets| SchemeConfig::StandardWebhooks { secrets })
            }
            _ => read_rsa(table),
        };
        Some(ChannelConfig { scheme: scheme?, tolerance_s: tolerance_s? })
    }

    pub(crate) fn validate(&self, path: &str, problems: &mut Problems) {
        match &self.scheme {
            SchemeConfig::StandardWebhooks { secrets } => {
                if secrets.is_empty() || secrets.len() > MAX_SECRETS {
                    let text = format!("must be 1 to {MAX_SECRETS} secrets, are {}", secrets.len());
                    problems.note(format!("{path}.secrets"), text);
                }
            }
            SchemeConfig::RsaSha256 { layout, .. } => match layout {
                RsaLayout::TimestampNonceBody { timestamp_header, nonce_header, signature_header } => {
                    let is_name = |name: &String| {
                        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
                    };
                    for (key, name) in [
                        ("timestamp_header", timestamp_header),
                        ("nonce_header", nonce_header),
                        ("signature_header", signature_header),
                    ] {
                        if !is_name(name) {
                            problems.note(format!("{path}.{key}"), "must be the name of a header");
                        }
                    }
                }
                RsaLayout::SortedForm => {}
            },
        }
    }
}

fn read_secrets(table: &mut Table<'_>) -> Option<Vec<WebhookSecret>> {
    let texts: Vec<Secret> = table.secret_list("secrets")?;
    let secrets: Result<Vec<WebhookSecret>, _> = texts.iter().map(|text| text.expose().parse()).collect();
    match secrets {
        Ok(secrets) => Some(secrets),
        // The value is not shown: it may be a secret all but for a slip.
        Err(error) => {
            let error: NoWebhookSecret = error;
            table.note("secrets", format!("each {error}"));
            None
        }
    }
}

fn read_rsa(table: &mut Table<'_>) -> Option<SchemeConfig> {
    let public_key_file = table.parsed::<PathBuf>("public_key_file");
    let layout = word(table, "layout", LAYOUTS)?;
    let layout = match layout.0 {
        TIMESTAMP_NONCE_BODY => {
            let mut header = |key, default: &str| {
                table.parsed_if_given::<String>(key).map(|name| name.unwrap_or_else(|| default.to_owned()))
            };
            let timestamp_header = header("timestamp_header", "Wechatpay-Timestamp");
            let nonce_header = header("nonce_header", "Wechatpay-Nonce");
            let signature_header = header("signature_header", "Wechatpay-Signature");
            RsaLayout::TimestampNonceBody {
                timestamp_header: timestamp_header?,
                nonce_header: nonce_header?,
                signature_header: signature_header?,
            }
        }
        _ => RsaLayout::SortedForm,
    };
    Some(SchemeConfig::RsaSha256 { public_key_file: public_key_file?, layout })
}
