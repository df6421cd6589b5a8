//! Single cells to values, with the reason when they are none.

use std::collections::BTreeMap;

use chrono_tz::Tz;

use crate::decimal::{Decimal, NotANumber, NotMinor, Notation, is_scientific};
use crate::entry::{EntryKind, QuarantineReason};
use crate::times::{self, Instant, NotATime};

/// Longest identifier, in bytes.
const MAX_IDENTIFIER_BYTES: usize = 255;

/// A cell with the name of its column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell<'a> {
    /// The column, as the header writes it.
    pub column: &'a str,
    /// The value, blanks taken off.
    pub text: &'a str,
}

impl Cell<'_> {
    fn name(self) -> String {
        self.column.to_owned()
    }

    /// An identifier, which must be there.
    pub(crate) fn identifier(self) -> Result<String, QuarantineReason> {
        self.optional_identifier()?.ok_or_else(|| QuarantineReason::Empty { column: self.name() })
    }

    /// An identifier, if there is one.
    pub(crate) fn optional_identifier(self) -> Result<Option<String>, QuarantineReason> {
        let text = self.text;
        if text.is_empty() {
            return Ok(None);
        }
        if is_scientific(text) || text.bytes().all(|byte| byte == b'#') {
            return Err(QuarantineReason::SpreadsheetNumber { column: self.name() });
        }
        let is_sound = |c: char| !(c.is_control() || c.is_whitespace() || c == '\u{fffd}');
        let sound = text.len() <= MAX_IDENTIFIER_BYTES
            && (text.bytes().all(|byte| byte.is_ascii_graphic()) || text.chars().all(is_sound));
        if sound {
            Ok(Some(text.to_owned()))
        } else {
            Err(QuarantineReason::Identifier { column: self.name() })
        }
    }

    /// A decimal number, which must be there.
    pub(crate) fn decimal(self, notation: Notation) -> Result<Decimal, QuarantineReason> {
        if self.text.is_empty() {
            return Err(QuarantineReason::Empty { column: self.name() });
        }
        Decimal::parse(self.text, notation).map_err(|why| match why {
            NotANumber::Spreadsheet => QuarantineReason::SpreadsheetNumber { column: self.name() },
            NotANumber::Other => QuarantineReason::Amount { column: self.name() },
        })
    }

    /// A currency the channel has an exponent for, in upper case, and that exponent.
    pub(crate) fn currency(
        self,
        exponents: &BTreeMap<String, u32>,
    ) -> Result<(String, u32), QuarantineReason> {
        if self.text.is_empty() {
            return Err(QuarantineReason::Empty { column: self.name() });
        }
        let is_upper = self.text.bytes().all(|byte| byte.is_ascii_uppercase());
        let currency = if is_upper { self.text.to_owned() } else { self.text.to_uppercase() };
        match exponents.get(&currency) {
            Some(exponent) => Ok((currency, *exponent)),
            None => Err(QuarantineReason::Currency { column: self.name() }),
        }
    }

    /// A decimal of a currency as signed minor units.
    pub(crate) fn minor(
        self,
        notation: Notation,
        currency: &str,
        exponent: u32,
    ) -> Result<i128, QuarantineReason> {
        self.decimal(notation)?.to_minor(exponent).map_err(|why| match why {
            NotMinor::TooFine => QuarantineReason::TooManyDecimals {
                column: self.name(),
                currency: currency.to_owned(),
                exponent,
            },
            NotMinor::TooLarge => QuarantineReason::Amount { column: self.name() },
        })
    }

    /// Minor units of the sign that the kind must have here.
    pub(crate) fn amount(self, minor: i128, kind: EntryKind, sign: SignOf) -> Result<u64, QuarantineReason> {
        let directed = match sign {
            SignOf::Positive => minor,
            SignOf::Negative => -minor,
            SignOf::Either => minor.abs(),
        };
        if directed <= 0 {
            return Err(QuarantineReason::Sign { column: self.name(), kind });
        }
        u64::try_from(directed).map_err(|_| QuarantineReason::Amount { column: self.name() })
    }

    /// A local time of the plain form.
    pub(crate) fn local_time(self, zone: Tz) -> Result<Instant, QuarantineReason> {
        if self.text.is_empty() {
            return Err(QuarantineReason::Empty { column: self.name() });
        }
        let local = times::parse_local(self.text).ok_or(NotATime::Form);
        local.and_then(|local| times::resolve(local, zone)).map_err(|why| self.no_time(why))
    }

    /// The reason for a time that is none.
    pub(crate) fn no_time(self, why: NotATime) -> QuarantineReason {
        match why {
            NotATime::Form => QuarantineReason::Time { column: self.name() },
            NotATime::Skipped => QuarantineReason::TimeSkipped { column: self.name() },
        }
    }

    /// The reason for a kind or status that nobody knows.
    pub(crate) fn unknown_status(self) -> QuarantineReason {
        if self.text.is_empty() {
            QuarantineReason::Empty { column: self.name() }
        } else {
            QuarantineReason::Status { column: self.name() }
        }
    }
}

/// Which sign an amount is written with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignOf {
    /// Without one.
    Positive,
    /// With a minus.
    Negative,
    /// Either way.
    Either,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(text: &str) -> Cell<'_> {
        Cell { column: "c", text }
    }

    #[test]
    fn identifiers_are_whole_or_refused() {
        assert_eq!(cell("h2r_1_2").identifier(), Ok("h2r_1_2".to_owned()));
        assert_eq!(cell("订单1").identifier(), Ok("订单1".to_owned()));
        assert_eq!(cell("").identifier(), Err(QuarantineReason::Empty { column: "c".to_owned() }));
        for text in ["1.23E+15", "4.2E15", "####"] {
            let expected = QuarantineReason::SpreadsheetNumber { column: "c".to_owned() };
            assert_eq!(cell(text).identifier(), Err(expected), "{text}");
        }
        for text in ["a b", "a\tb", "a\u{0}", "a\u{fffd}", &"x".repeat(MAX_IDENTIFIER_BYTES + 1)] {
            let expected = QuarantineReason::Identifier { column: "c".to_owned() };
            assert_eq!(cell(text).identifier(), Err(expected), "{text}");
        }
    }

    #[test]
    fn an_amount_has_the_sign_of_its_kind() {
        let amount = |minor, kind, sign| cell("").amount(minor, kind, sign);
        let (payment, refund) = (EntryKind::Payment, EntryKind::Refund);
        assert_eq!(amount(5, payment, SignOf::Positive), Ok(5));
        assert_eq!(amount(-5, refund, SignOf::Negative), Ok(5));
        assert_eq!(amount(-5, refund, SignOf::Either), Ok(5));
        for (minor, kind, sign) in [
            (-5, payment, SignOf::Positive),
            (0, payment, SignOf::Positive),
            (5, refund, SignOf::Negative),
            (0, refund, SignOf::Either),
        ] {
            let expected = QuarantineReason::Sign { column: "c".to_owned(), kind };
            assert_eq!(amount(minor, kind, sign), Err(expected), "{minor}");
        }
        let too_large = i128::from(u64::MAX) + 1;
        let expected = QuarantineReason::Amount { column: "c".to_owned() };
        assert_eq!(amount(too_large, payment, SignOf::Positive), Err(expected));
    }
}
