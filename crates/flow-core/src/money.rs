//! Money: an integer of minor units and the code of its currency or asset. No float, no exponent, no conversion.
//!
//! How many minor units make a major one is the wallet's business (it need not follow ISO 4217), so nothing here
//! knows of major units.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::{IdError, IdProblem};

/// Code of a currency or account asset, e.g. `CNY` or `POINTS`; 1 to 16 of `A-Z`, `0-9`, `_`, starting with a letter.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Currency(String);

impl Currency {
    /// Longest code, in characters.
    pub const MAX_CHARS: usize = 16;

    /// Checks the code.
    ///
    /// # Errors
    /// [`IdError`] naming the first thing that is wrong.
    pub fn new(code: impl Into<String>) -> Result<Currency, IdError> {
        let code = code.into();
        let kind = "currency";
        let allowed = "only A-Z, 0-9 and '_' are allowed, and the first must be a letter";
        let ok = |i: usize, c: char| c.is_ascii_uppercase() || (i > 0 && (c.is_ascii_digit() || c == '_'));
        if code.is_empty() {
            return Err(IdError { kind, problem: IdProblem::Empty });
        }
        if let Some((position, found)) = code.chars().enumerate().find(|(i, c)| !ok(*i, *c)) {
            return Err(IdError { kind, problem: IdProblem::BadCharacter { found, position, allowed } });
        }
        if code.len() > Self::MAX_CHARS {
            return Err(IdError { kind, problem: IdProblem::TooLong { max_chars: Self::MAX_CHARS } });
        }
        Ok(Currency(code))
    }

    /// The code.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Currency {
    type Error = IdError;
    fn try_from(code: String) -> Result<Self, IdError> {
        Currency::new(code)
    }
}

impl From<Currency> for String {
    fn from(currency: Currency) -> String {
        currency.0
    }
}

/// A positive amount of one currency, frozen on the flow at creation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct Money {
    amount: i64,
    currency: Currency,
}

/// Money as it was written down somewhere, before the amount is checked.
#[derive(Deserialize)]
struct Unchecked {
    amount: i64,
    currency: Currency,
}

impl TryFrom<Unchecked> for Money {
    type Error = AmountError;
    fn try_from(read: Unchecked) -> Result<Money, AmountError> {
        Money::new(read.amount, read.currency)
    }
}

/// Why a number is no amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("amount must be a whole number of minor units from 1 to 9223372036854775807")]
pub struct AmountError;

impl Money {
    /// Checks that the amount, in minor units, is positive.
    ///
    /// # Errors
    /// [`AmountError`] for zero and below: a payment of nothing and a negative payment are both refused.
    pub fn new(amount: i64, currency: Currency) -> Result<Money, AmountError> {
        if amount < 1 { Err(AmountError) } else { Ok(Money { amount, currency }) }
    }

    /// Minor units.
    pub const fn amount(&self) -> i64 {
        self.amount
    }

    /// Currency or asset.
    pub const fn currency(&self) -> &Currency {
        &self.currency
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.amount, self.currency)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn currency_codes() {
        for good in ["CNY", "JPY", "POINTS", "A", "USDT_TRC20", "ABCDEFGHIJKLMNOP"] {
            assert!(Currency::new(good).is_ok(), "{good}");
        }
        for bad in ["", "cny", "1A", "_A", "C-Y", "CNY ", "ABCDEFGHIJKLMNOPQ", "人民币"] {
            assert!(Currency::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn amounts_are_positive() {
        let cny = Currency::new("CNY").unwrap();
        assert!(Money::new(1, cny.clone()).is_ok());
        assert!(Money::new(i64::MAX, cny.clone()).is_ok());
        for bad in [0, -1, i64::MIN] {
            assert_eq!(Money::new(bad, cny.clone()), Err(AmountError));
            let written = format!(r#"{{"amount":{bad},"currency":"CNY"}}"#);
            assert!(serde_json::from_str::<Money>(&written).is_err(), "{written}");
        }
    }
}
