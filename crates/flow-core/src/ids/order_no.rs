//! The wallet's order numbers: derived from the row, never random, so that a crash recovers the very same ones.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{FlowId, IdError, IdProblem, UserId};

/// Appends a positive number.
fn push_base36(text: &mut String, mut number: i64) {
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    // The largest number has 13 digits.
    let (mut reversed, mut count) = ([b'0'; 13], 0);
    while number > 0 || count == 0 {
        // The remainder of a division by 36 indexes the 36 digits.
        reversed[count] = DIGITS[(number % 36) as usize];
        number /= 36;
        count += 1;
    }
    text.extend(reversed[..count].iter().rev().map(|digit| char::from(*digit)));
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
        // Prefix, separator and two numbers: made for every row that is read.
        let mut text = String::with_capacity(31);
        text.push_str("h2r_");
        push_base36(&mut text, user_id.get());
        text.push('_');
        push_base36(&mut text, flow_id.get());
        TradeOrderNo(text)
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
        RefundOrderNo(["r_", trade_order_no.as_str()].concat())
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

    fn base36(number: i64) -> String {
        let mut text = String::new();
        push_base36(&mut text, number);
        text
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
}
