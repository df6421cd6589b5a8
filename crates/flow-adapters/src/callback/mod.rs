//! Callbacks as channels send them: whether one is signed by its channel, and what it says. Each scheme is a module; a
//! new one is a variant of [`SchemeConfig`](flow_config::SchemeConfig) and a module beside these.
//!
//! Signatures are over the raw bytes, and are compared in constant time. Knows no clock, no store and no flow.

mod payload;
mod rsa_sha256;
mod standard_webhooks;

use std::path::PathBuf;

use chrono::{DateTime, Utc};
use flow_config::{ChannelConfig, RsaLayout, SchemeConfig};
use flow_core::callback::{Claim, EventType};
use flow_core::ids::{EventId, TradeOrderNo};
use flow_core::money::Money;
use reqwest::header::HeaderMap;

use rsa_sha256::PublicKeys;
use standard_webhooks::Secrets;

pub use payload::NotAnEvent;

/// Why a callback is not taken for its channel's. Nothing of it may be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Forged {
    /// A header, or a parameter of the form, that the scheme needs is not there, there twice, or not of its form.
    #[error("{0} is missing, is there twice, or is not of its form")]
    Malformed(&'static str),
    /// Signed too long ago, or ahead of our clock.
    #[error("the signed time is too far from ours")]
    Expired,
    /// No signature in it is one of the channel's for these bytes.
    #[error("no signature of the channel's fits these bytes")]
    WrongSignature,
}

impl Forged {
    /// For metrics and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Forged::Malformed(_) => "malformed",
            Forged::Expired => "expired",
            Forged::WrongSignature => "wrong_signature",
        }
    }
}

/// Why a callback is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It is not its channel's.
    #[error(transparent)]
    Forged(#[from] Forged),
    /// It is its channel's, and is no event of the contract.
    #[error(transparent)]
    NotAnEvent(#[from] NotAnEvent),
}

/// What a callback says, its signature being good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// The channel's own id of the event.
    pub event_id: EventId,
    /// The charge's number.
    pub order_no: TradeOrderNo,
    /// Charge or refund.
    pub event_type: EventType,
    /// What is claimed of it.
    pub claim: Claim,
    /// How much, where it says.
    pub money: Option<Money>,
}

/// How a channel wants to be told that an event was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acknowledgement {
    /// Any 2xx; the body is ours.
    AnySuccess,
    /// The word `success` as plain text.
    WordSuccess,
}

/// A channel's key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// The file cannot be read.
    #[error("the public key file {} cannot be read", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It holds no public key.
    #[error("{} holds no RSA public key of 2048 to 8192 bits in PEM (BEGIN PUBLIC KEY)", path.display())]
    NoKey {
        /// The file.
        path: PathBuf,
    },
}

/// One configured channel.
#[derive(Debug)]
pub struct Channel {
    scheme: Scheme,
    tolerance_s: u64,
}

#[derive(Debug)]
enum Scheme {
    StandardWebhooks(Secrets),
    RsaSha256 { keys: PublicKeys, layout: RsaLayout },
}

impl Channel {
    /// Makes a channel, reading its key.
    ///
    /// # Errors
    /// [`ChannelError`].
    pub fn new(config: &ChannelConfig) -> Result<Channel, ChannelError> {
        let scheme = match &config.scheme {
            SchemeConfig::StandardWebhooks { secrets } => Scheme::StandardWebhooks(Secrets::new(secrets)),
            SchemeConfig::RsaSha256 { public_key_file, layout } => {
                let path = public_key_file.clone();
                let text = std::fs::read_to_string(&path)
                    .map_err(|source| ChannelError::Unreadable { path: path.clone(), source })?;
                let keys = PublicKeys::from_pem(&text).ok_or(ChannelError::NoKey { path })?;
                Scheme::RsaSha256 { keys, layout: layout.clone() }
            }
        };
        Ok(Channel { scheme, tolerance_s: config.tolerance_s })
    }

    /// What a callback says, if it is the channel's. `now` is the wall clock's.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn read(&self, headers: &HeaderMap, body: &[u8], now: DateTime<Utc>) -> Result<Told, Refused> {
        match &self.scheme {
            Scheme::StandardWebhooks(secrets) => {
                let event_id = secrets.verify(headers, body, self.fresh(now))?;
                Ok(payload::of_json(body, Some(event_id))?)
            }
            Scheme::RsaSha256 { keys, layout } => match layout {
                RsaLayout::TimestampNonceBody { timestamp_header, nonce_header, signature_header } => {
                    let names = rsa_sha256::HeaderNames {
                        timestamp: timestamp_header,
                        nonce: nonce_header,
                        signature: signature_header,
                    };
                    keys.verify_body(headers, &names, body, self.fresh(now))?;
                    Ok(payload::of_json(body, None)?)
                }
                RsaLayout::SortedForm => {
                    let form = keys.verify_form(body)?;
                    Ok(payload::of_form(&form)?)
                }
            },
        }
    }

    /// How it wants to be answered.
    pub const fn acknowledgement(&self) -> Acknowledgement {
        match &self.scheme {
            Scheme::StandardWebhooks(_)
            | Scheme::RsaSha256 { layout: RsaLayout::TimestampNonceBody { .. }, .. } => {
                Acknowledgement::AnySuccess
            }
            Scheme::RsaSha256 { layout: RsaLayout::SortedForm, .. } => Acknowledgement::WordSuccess,
        }
    }

    fn fresh(&self, now: DateTime<Utc>) -> Fresh {
        Fresh { now_s: now.timestamp(), tolerance_s: self.tolerance_s }
    }
}

/// Which signed times are accepted.
#[derive(Debug, Clone, Copy)]
struct Fresh {
    now_s: i64,
    tolerance_s: u64,
}

impl Fresh {
    /// Checks a time as it is signed: whole seconds since 1970.
    fn check(self, name: &'static str, text: &str) -> Result<(), Forged> {
        let is_number = !text.is_empty() && text.len() <= 12 && text.bytes().all(|b| b.is_ascii_digit());
        let signed_s: i64 = text.parse().ok().filter(|_| is_number).ok_or(Forged::Malformed(name))?;
        if self.now_s.abs_diff(signed_s) <= self.tolerance_s { Ok(()) } else { Err(Forged::Expired) }
    }
}

/// A header that must be there once, as text.
fn header<'h>(headers: &'h HeaderMap, name: &str, as_told: &'static str) -> Result<&'h str, Forged> {
    let mut values = headers.get_all(name).iter();
    let only = match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        (None, _) | (Some(_), Some(_)) => None,
    };
    only.filter(|text| !text.is_empty()).ok_or(Forged::Malformed(as_told))
}
