//! Decimal text to integers, exactly. No float comes near an amount.

use std::fmt;

use memchr::memchr2;

/// Most digits a number may have, so that nothing below overflows unseen.
const MAX_DIGITS: usize = 30;
/// Most digits of a whole number that is read without a second look: far more than an amount has.
const PLAIN_DIGITS: usize = 18;
/// Decimals of a [`Sum`]: more than any bill writes, WeChat's fees with five included.
const SUM_DECIMALS: u32 = 8;

/// How a number is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Notation {
    /// What stands before the decimals.
    pub point: char,
    /// What may group the digits before the point.
    pub grouping: Option<char>,
}

impl Notation {
    /// `1234.56`
    pub(crate) const PLAIN: Self = Self { point: '.', grouping: None };
}

/// Why a text is no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotANumber {
    /// `1.23E+15`: a number once, before a spreadsheet had it.
    Spreadsheet,
    /// Anything else.
    Other,
}

/// A decimal number as written: `-1.50` is −150 with two decimals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decimal {
    mantissa: i128,
    decimals: u32,
}

/// Why a decimal is no amount of minor units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotMinor {
    /// It has decimals that are finer than the smallest unit.
    TooFine,
    /// It is beyond what an amount may be.
    TooLarge,
}

impl Decimal {
    /// Reads digits with an optional sign, point and grouping; blanks around must be gone already.
    ///
    /// Groups are checked: `1,234.50` is a number where `,` groups, `12,34` is not.
    pub(crate) fn parse(text: &str, notation: Notation) -> Result<Self, NotANumber> {
        if text.len() <= PLAIN_DIGITS
            && text.bytes().all(|byte| byte.is_ascii_digit())
            && let Ok(whole) = text.parse::<u64>()
        {
            return Ok(Self { mantissa: i128::from(whole), decimals: 0 });
        }
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        if is_scientific(unsigned) {
            return Err(NotANumber::Spreadsheet);
        }
        let (whole, fraction) = match unsigned.split_once(notation.point) {
            Some((whole, fraction)) if !fraction.is_empty() => (whole, fraction),
            Some(_) => return Err(NotANumber::Other),
            None => (unsigned, ""),
        };
        if !groups_are_sound(whole, notation.grouping) {
            return Err(NotANumber::Other);
        }
        let mut mantissa: i128 = 0;
        let mut digits = 0;
        for digit in whole.chars().filter(|c| Some(*c) != notation.grouping).chain(fraction.chars()) {
            let value = digit.to_digit(10).ok_or(NotANumber::Other)?;
            digits += 1;
            if digits > MAX_DIGITS {
                return Err(NotANumber::Other);
            }
            mantissa = mantissa * 10 + i128::from(value);
        }
        if digits == 0 || whole.is_empty() {
            return Err(NotANumber::Other);
        }
        let decimals = u32::try_from(fraction.len()).map_err(|_| NotANumber::Other)?;
        let mantissa = if text.starts_with('-') { -mantissa } else { mantissa };
        Ok(Self { mantissa, decimals })
    }

    /// The number in units of 10^-`exponent`, sign kept.
    pub(crate) fn to_minor(self, exponent: u32) -> Result<i128, NotMinor> {
        if self.decimals <= exponent {
            let scale = 10i128.checked_pow(exponent - self.decimals).ok_or(NotMinor::TooLarge)?;
            return self.mantissa.checked_mul(scale).ok_or(NotMinor::TooLarge);
        }
        let scale = 10i128.checked_pow(self.decimals - exponent).ok_or(NotMinor::TooFine)?;
        if self.mantissa % scale == 0 { Ok(self.mantissa / scale) } else { Err(NotMinor::TooFine) }
    }

    /// Whether it is below zero.
    pub(crate) fn is_negative(self) -> bool {
        self.mantissa < 0
    }
}

/// Whether a spreadsheet wrote it: a mantissa with a point, or an exponent with a sign (`1.2E15`, `1E+15`). `12E5` may be a number of somebody's.
pub(crate) fn is_scientific(text: &str) -> bool {
    let Some(at) = memchr2(b'E', b'e', text.as_bytes()) else { return false };
    let (mantissa, exponent) = (&text[..at], &text[at + 1..]);
    let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    let plain = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let fraction = mantissa.split_once('.');
    let sound = match fraction {
        Some((whole, fraction)) => plain(whole) && plain(fraction),
        None => plain(mantissa),
    };
    sound && plain(digits) && (fraction.is_some() || digits.len() < exponent.len())
}

fn groups_are_sound(whole: &str, grouping: Option<char>) -> bool {
    let Some(grouping) = grouping else { return true };
    let mut groups = whole.split(grouping);
    let first = groups.next().unwrap_or_default();
    let mut rest = groups.peekable();
    rest.peek().is_none() || ((1..=3).contains(&first.len()) && rest.all(|group| group.len() == 3))
}

/// An exact sum of decimals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum(i128);

impl Sum {
    /// Adds; false when the number has more decimals than a sum keeps or would overflow it.
    #[must_use]
    pub(crate) fn add(&mut self, number: Decimal) -> bool {
        let total = number.to_minor(SUM_DECIMALS).ok().and_then(|units| self.0.checked_add(units));
        self.0 = total.unwrap_or(self.0);
        total.is_some()
    }

    /// A trailer's number as a sum.
    pub(crate) fn of(number: Decimal) -> Option<Self> {
        number.to_minor(SUM_DECIMALS).ok().map(Self)
    }

    /// The same without its sign.
    pub(crate) fn unsigned(self) -> Self {
        Self(self.0.abs())
    }
}

impl std::ops::Add for Sum {
    type Output = Self;

    /// For two sums of one file, which are far from overflowing.
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scale = 10u128.pow(SUM_DECIMALS);
        let (units, sign) = (self.0.unsigned_abs(), if self.0 < 0 { "-" } else { "" });
        let fraction = format!("{:0width$}", units % scale, width = SUM_DECIMALS as usize);
        let kept = fraction.trim_end_matches('0');
        let kept = if kept.len() < 2 { &fraction[..2] } else { kept };
        write!(f, "{sign}{}.{kept}", units / scale)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn minor(text: &str, exponent: u32) -> Result<i128, NotMinor> {
        Decimal::parse(text, Notation::PLAIN).expect("the table holds numbers").to_minor(exponent)
    }

    #[test]
    fn text_becomes_minor_units_exactly() {
        for (text, exponent, expected) in [
            ("0.01", 2, Ok(1)),
            ("19.90", 2, Ok(1990)),
            ("19.9", 2, Ok(1990)),
            ("19.900", 2, Ok(1990)),
            ("-0.40", 2, Ok(-40)),
            ("+1", 2, Ok(100)),
            ("500", 0, Ok(500)),
            ("500.00", 0, Ok(500)),
            ("1.234", 3, Ok(1234)),
            ("0.29", 2, Ok(29)),
            ("1.15", 2, Ok(115)),
            ("1.005", 2, Err(NotMinor::TooFine)),
            ("500.5", 0, Err(NotMinor::TooFine)),
            ("90071992547409.93", 2, Ok(9_007_199_254_740_993)),
        ] {
            assert_eq!(minor(text, exponent), expected, "{text} with exponent {exponent}");
        }
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in
            ["", "-", ".", ".5", "5.", "1..2", "1.2.3", "1,00", "--1", "0x1", "1 0", "１", "NaN", "-.5"]
        {
            assert_eq!(Decimal::parse(text, Notation::PLAIN), Err(NotANumber::Other), "{text}");
        }
        for text in ["1.23E+15", "1E+15", "1.2e15", "-4E-2"] {
            assert_eq!(Decimal::parse(text, Notation::PLAIN), Err(NotANumber::Spreadsheet), "{text}");
        }
        let long = "9".repeat(MAX_DIGITS);
        assert!(Decimal::parse(&long, Notation::PLAIN).is_ok());
        assert_eq!(Decimal::parse(&(long + "9"), Notation::PLAIN), Err(NotANumber::Other));
    }

    #[test]
    fn groups_count_where_they_may_stand() {
        let european = Notation { point: ',', grouping: Some('.') };
        let read = |text| Decimal::parse(text, european).map(|number| number.to_minor(2));
        assert_eq!(read("1.234,50"), Ok(Ok(123_450)));
        assert_eq!(read("1234,50"), Ok(Ok(123_450)));
        assert_eq!(read("12.34,50"), Err(NotANumber::Other));
        assert_eq!(read("1.234.5"), Err(NotANumber::Other));
        assert_eq!(read(".234,50"), Err(NotANumber::Other));
    }

    #[test]
    fn order_numbers_that_only_look_scientific_stay() {
        for (text, expected) in [
            ("1.23E+15", true),
            ("4.2E15", true),
            ("1E+15", true),
            ("12E5", false),
            ("E5", false),
            ("1E", false),
            ("h2r_1e_2", false),
            ("2020E", false),
        ] {
            assert_eq!(is_scientific(text), expected, "{text}");
        }
    }

    #[test]
    fn sums_print_as_people_write_them() {
        let of = |text| Sum::of(Decimal::parse(text, Notation::PLAIN).expect("a number")).expect("it fits");
        assert_eq!(of("-0.02000").to_string(), "-0.02");
        assert_eq!(of("7.79123").to_string(), "7.79123");
        assert_eq!(of("3").to_string(), "3.00");
    }

    proptest! {
        #[test]
        fn minor_units_survive_writing_and_reading(units in any::<i64>(), exponent in 0u32..=6) {
            let scale = 10u64.pow(exponent);
            let (whole, rest) = (units.unsigned_abs() / scale, units.unsigned_abs() % scale);
            let sign = if units < 0 { "-" } else { "" };
            let text = match exponent {
                0 => format!("{sign}{whole}"),
                _ => format!("{sign}{whole}.{rest:0width$}", width = exponent as usize),
            };
            prop_assert_eq!(minor(&text, exponent), Ok(i128::from(units)));
        }

        #[test]
        fn no_text_panics(text in ".{0,40}") {
            let _outcome = Decimal::parse(&text, Notation::PLAIN).map(|number| number.to_minor(2));
            let _outcome = is_scientific(&text);
        }
    }
}
