//! Identities: business target, attempt, wallet order numbers, callers and their request keys.
//!
//! Every identity is a type of its own that can only be made from checked text, binds to SQL as a string and never
//! as a number, and holds visible ASCII alone, so that no collation can fold two of them together.

mod fingerprint;
mod order_no;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use fingerprint::Fingerprint;
pub use order_no::{RefundOrderNo, TradeOrderNo};

/// Why a text is no identity of the wanted kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {problem}")]
pub struct IdError {
    /// The kind of identity that was wanted, in the field's own name (`biz_key`, `trade_order_no`, …).
    pub kind: &'static str,
    /// What is wrong, as the end of a sentence that begins with the kind.
    pub problem: IdProblem,
}

/// The ways an identity can be wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdProblem {
    /// Nothing there.
    #[error("is empty")]
    Empty,
    /// Longer than its column.
    #[error("is longer than {max_chars} characters")]
    TooLong {
        /// The limit, in characters (bytes: the text is ASCII).
        max_chars: usize,
    },
    /// A character outside the allowed set.
    #[error("has the character {found:?} at position {position}; {allowed}")]
    BadCharacter {
        /// The offending character.
        found: char,
        /// Its position, counted from 0 in characters.
        position: usize,
        /// What is allowed instead.
        allowed: &'static str,
    },
    /// Not a whole number in the accepted range.
    #[error("is not a whole number from 1 to 9223372036854775807")]
    NotANumber,
    /// Not shaped as its derivation rule says.
    #[error("is not of the form {form}")]
    BadForm {
        /// The rule.
        form: &'static str,
    },
}

fn check_text(
    kind: &'static str,
    text: &str,
    max_chars: usize,
    allowed: &'static str,
    ok: impl Fn(char) -> bool,
) -> Result<(), IdError> {
    if text.is_empty() {
        return Err(IdError { kind, problem: IdProblem::Empty });
    }
    let is_fine = text.bytes().all(|byte| byte.is_ascii() && ok(char::from(byte)));
    if !is_fine && let Some((position, found)) = text.chars().enumerate().find(|(_, c)| !ok(*c)) {
        return Err(IdError { kind, problem: IdProblem::BadCharacter { found, position, allowed } });
    }
    if text.len() > max_chars {
        return Err(IdError { kind, problem: IdProblem::TooLong { max_chars } });
    }
    Ok(())
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $max:literal, $allowed:literal, $ok:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Longest accepted text, in characters.
            pub const MAX_CHARS: usize = $max;

            /// Checks the text and makes the identity.
            ///
            /// # Errors
            /// [`IdError`] naming the kind and the first thing that is wrong.
            pub fn new(text: impl Into<String>) -> Result<Self, IdError> {
                let text = text.into();
                check_text($kind, &text, $max, $allowed, $ok)?;
                Ok(Self(text))
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::new(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(text: String) -> Result<Self, IdError> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0
            }
        }
    };
}

fn is_visible(c: char) -> bool {
    c.is_ascii_graphic()
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')
}

text_id!(
    /// The long-lived business goal within a user and a scene, e.g. `R:{user}:{round}:{break_date}`.
    BizKey, "biz_key", 160, "only visible ASCII characters are allowed", is_visible
);
text_id!(
    /// The kind of purchase. Configuration maps it to the wallet and the business system that serve it.
    Scene, "scene", 32, "only letters, digits, '_', '-' and '.' are allowed", is_name
);
text_id!(
    /// Configured name of a wallet or business system; frozen on the flow at creation.
    DownstreamName, "downstream name", 32, "only letters, digits, '_', '-' and '.' are allowed", is_name
);
text_id!(
    /// The calling application, as authenticated.
    CallerId, "caller", 64, "only letters, digits, '_', '-' and '.' are allowed", is_name
);
text_id!(
    /// A client's `Idempotency-Key`: unique per caller, bound to one fingerprint for ever.
    IdempotencyKey, "Idempotency-Key", 255, "only visible ASCII characters are allowed", is_visible
);
text_id!(
    /// Correlates everything done for one request; shown to callers as `request_id`.
    TraceId, "trace_id", 64, "only letters, digits, '_', '-' and '.' are allowed", is_name
);
text_id!(
    /// A person or program that holds, releases or cancels a flow.
    Actor, "actor", 64, "only visible ASCII characters are allowed", is_visible
);
text_id!(
    /// A downstream's own id for a request or a transaction. Kept as evidence, never decided upon.
    DownstreamRef, "downstream reference", 128, "only visible ASCII characters are allowed", is_visible
);
text_id!(
    /// Configured name of a channel that sends callbacks.
    ChannelName, "channel name", 32, "only letters, digits, '_', '-' and '.' are allowed", is_name
);
text_id!(
    /// A channel's own id of an event: the same for every repetition of it.
    EventId, "event id", 128, "only visible ASCII characters are allowed", is_visible
);
text_id!(
    /// An order number as somebody else wrote it, e.g. the owner that a business fact names. Never called with.
    OrderRef, "order number", 96, "only visible ASCII characters are allowed", is_visible
);

macro_rules! number_id {
    ($(#[$doc:meta])* $name:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(i64);

        impl $name {
            /// Checks the range (1 to 2^63-1) and makes the identity.
            ///
            /// # Errors
            /// [`IdError`] when the number is out of range.
            pub fn new(number: i64) -> Result<Self, IdError> {
                if number < 1 {
                    return Err(IdError { kind: $kind, problem: IdProblem::NotANumber });
                }
                Ok(Self(number))
            }

            /// The number as the database holds it.
            pub const fn get(self) -> i64 {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                let wrong = IdError { kind: $kind, problem: IdProblem::NotANumber };
                // `i64::from_str` also takes a sign and leading zeros; an id has one spelling only.
                if !text.bytes().all(|b| b.is_ascii_digit()) || text.starts_with('0') {
                    return Err(wrong);
                }
                text.parse().map_err(|_| wrong).and_then(Self::new)
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(text: String) -> Result<Self, IdError> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.to_string()
            }
        }
    };
}

number_id!(
    /// Primary key of a flow. Written in JSON as a string: it may exceed 2^53.
    FlowId, "flow_id"
);
number_id!(
    /// The paying user. Written in JSON as a string: it may exceed 2^53.
    UserId, "user_id"
);

number_id!(
    /// Primary key of a stored event.
    InboxId, "inbox id"
);
number_id!(
    /// Primary key of a reconciliation ticket.
    TicketId, "ticket id"
);
number_id!(
    /// Number of a reconciliation batch.
    BatchId, "batch number"
);

/// Ordinal of a payment attempt at one business target, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AttemptNo(pub u32);

impl AttemptNo {
    /// The first attempt.
    pub const FIRST: AttemptNo = AttemptNo(1);

    /// The attempt after this one.
    pub const fn next(self) -> AttemptNo {
        AttemptNo(self.0 + 1)
    }
}

/// Version of a flow row: grows by exactly one with every write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Version(pub u64);

impl Version {
    /// The version that a row is created with.
    pub const FIRST: Version = Version(0);

    /// The version that the next write produces.
    pub const fn next(self) -> Version {
        Version(self.0 + 1)
    }
}

/// What was asked for, independent of who is asking and with which key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Target {
    /// The paying user.
    pub user_id: UserId,
    /// The kind of purchase.
    pub scene: Scene,
    /// The business goal.
    pub biz_key: BizKey,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_identities_accept_visible_ascii_up_to_their_column() {
        assert!(BizKey::new("R:1:2").is_ok());
        assert!(BizKey::new("x".repeat(160)).is_ok());
        for wrong in ["", " ", "a b", "a\n", "é", "a\u{0}", "续签"] {
            assert!(BizKey::new(wrong).is_err(), "{wrong:?}");
        }
        assert_eq!(
            BizKey::new("x".repeat(161)).unwrap_err().to_string(),
            "biz_key is longer than 160 characters"
        );
        assert!(Scene::new("renew:1").is_err());
        assert!(IdempotencyKey::new("k".repeat(255)).is_ok());
        assert!(IdempotencyKey::new("k".repeat(256)).is_err());
    }

    #[test]
    fn number_identities_have_one_spelling() {
        assert_eq!("9007199254740993".parse::<FlowId>().unwrap().get(), 9_007_199_254_740_993);
        for wrong in ["", "0", "-1", "+1", "01", "1.0", "1e3", " 1", "9223372036854775808", "abc", "１"] {
            assert!(wrong.parse::<FlowId>().is_err(), "{wrong:?}");
        }
    }
}
