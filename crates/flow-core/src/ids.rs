//! Identities: business target, attempt, wallet order numbers, callers and their request keys.
//!
//! Every identity is a type of its own that can only be made from checked text, binds to SQL as a string and never
//! as a number, and holds visible ASCII alone, so that no collation can fold two of them together.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

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
    if let Some((position, found)) = text.chars().enumerate().find(|(_, c)| !ok(*c)) {
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

fn base36(mut number: i64) -> String {
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    if number == 0 {
        return "0".to_owned();
    }
    let mut reversed = Vec::with_capacity(13);
    while number > 0 {
        // The remainder of a division by 36 indexes the 36 digits.
        reversed.push(char::from(DIGITS[(number % 36) as usize]));
        number /= 36;
    }
    reversed.into_iter().rev().collect()
}

fn parse_base36(text: &str) -> Option<i64> {
    let canonical =
        text.bytes().all(|b| b.is_ascii_digit() || b.is_ascii_lowercase()) && !text.starts_with('0');
    if canonical { i64::from_str_radix(text, 36).ok() } else { None }
}

/// The wallet's number for the charge of one attempt, and its idempotency key:
/// `h2r_{base36(user_id)}_{base36(flow_id)}`. Derived, never random: a crash recovers the very same number.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TradeOrderNo(String);

impl TradeOrderNo {
    /// The number of the attempt stored under `flow_id`.
    pub fn derive(user_id: UserId, flow_id: FlowId) -> TradeOrderNo {
        TradeOrderNo(format!("h2r_{}_{}", base36(user_id.get()), base36(flow_id.get())))
    }

    /// Takes the number apart again.
    pub fn parts(&self) -> Option<(UserId, FlowId)> {
        let (user, flow) = self.0.strip_prefix("h2r_")?.split_once('_')?;
        Some((UserId::new(parse_base36(user)?).ok()?, FlowId::new(parse_base36(flow)?).ok()?))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TradeOrderNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for TradeOrderNo {
    type Error = IdError;
    fn try_from(text: String) -> Result<Self, IdError> {
        let number = TradeOrderNo(text);
        let form = "h2r_{base36 user_id}_{base36 flow_id}";
        match number.parts() {
            Some(_) => Ok(number),
            None => Err(IdError { kind: "trade_order_no", problem: IdProblem::BadForm { form } }),
        }
    }
}

impl From<TradeOrderNo> for String {
    fn from(number: TradeOrderNo) -> String {
        number.0
    }
}

/// The wallet's number for the one refund of one attempt: `r_{trade_order_no}`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RefundOrderNo(String);

impl RefundOrderNo {
    /// The refund number that belongs to a charge.
    pub fn derive(trade_order_no: &TradeOrderNo) -> RefundOrderNo {
        RefundOrderNo(format!("r_{trade_order_no}"))
    }

    /// The charge it belongs to.
    pub fn trade_order_no(&self) -> Option<TradeOrderNo> {
        TradeOrderNo::try_from(self.0.strip_prefix("r_")?.to_owned()).ok()
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RefundOrderNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for RefundOrderNo {
    type Error = IdError;
    fn try_from(text: String) -> Result<Self, IdError> {
        let number = RefundOrderNo(text);
        match number.trade_order_no() {
            Some(_) => Ok(number),
            None => Err(IdError {
                kind: "refund_order_no",
                problem: IdProblem::BadForm { form: "r_{trade_order_no}" },
            }),
        }
    }
}

impl From<RefundOrderNo> for String {
    fn from(number: RefundOrderNo) -> String {
        number.0
    }
}

/// SHA-256 over what a client asked for: a key used again with another fingerprint is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// Digest of the parts in order. Each part is preceded by its length, so that moving a byte from one part to the
    /// next gives another fingerprint.
    pub fn of(parts: &[&[u8]]) -> Fingerprint {
        let mut digest = Sha256::new();
        for part in parts {
            digest.update((part.len() as u64).to_be_bytes());
            digest.update(part);
        }
        Fingerprint(digest.finalize().into())
    }

    /// 64 lower-case hexadecimal digits, as stored.
    pub fn to_hex(self) -> String {
        hex::encode(self.0)
    }

    /// Reads what [`Fingerprint::to_hex`] wrote.
    pub fn from_hex(text: &str) -> Option<Fingerprint> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes).ok()?;
        Some(Fingerprint(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_numbers_are_those_of_the_requirements() {
        // u16 and p1 in base 36 are 38922 and 901: the example of the first requirements document.
        let trade = TradeOrderNo::derive(UserId::new(38922).unwrap(), FlowId::new(901).unwrap());
        assert_eq!(trade.as_str(), "h2r_u16_p1");
        assert_eq!(RefundOrderNo::derive(&trade).as_str(), "r_h2r_u16_p1");
        assert_eq!(trade.parts().unwrap().1.get(), 901);
    }

    #[test]
    fn base36_round_trips_at_the_edges() {
        for number in [1, 35, 36, 1295, 1296, (1 << 53) + 1, i64::MAX] {
            assert_eq!(parse_base36(&base36(number)), Some(number));
        }
        assert_eq!(base36(i64::MAX), "1y2p0ij32e8e7");
        for wrong in ["", "0", "01", "A", "1y2p0ij32e8e8", "-1", "+1", " 1"] {
            assert!(parse_base36(wrong).is_none_or(|n| n > 0 && base36(n) == wrong), "{wrong:?}");
        }
    }

    #[test]
    fn wrong_order_numbers_are_refused() {
        for wrong in [
            "",
            "h2r_",
            "h2r_1",
            "h2r_1_",
            "h2r__1",
            "H2R_1_1",
            "h2r_01_1",
            "h2r_1_1 ",
            "h2r_1_-1",
            "r_h2r_1_1",
        ] {
            assert!(TradeOrderNo::try_from(wrong.to_owned()).is_err(), "{wrong:?}");
        }
        for wrong in ["r_", "h2r_1_1", "r_r_h2r_1_1", "r_h2r_1"] {
            assert!(RefundOrderNo::try_from(wrong.to_owned()).is_err(), "{wrong:?}");
        }
    }

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

    #[test]
    fn fingerprint_tells_where_one_part_ends() {
        assert_ne!(Fingerprint::of(&[b"ab", b"c"]), Fingerprint::of(&[b"a", b"bc"]));
        assert_ne!(Fingerprint::of(&[b"a"]), Fingerprint::of(&[b"a", b""]));
        let print = Fingerprint::of(&[b"a"]);
        assert_eq!(Fingerprint::from_hex(&print.to_hex()), Some(print));
        assert_eq!(Fingerprint::from_hex("00"), None);
    }
}
