//! Local times of a bill to instants.

use chrono::{DateTime, LocalResult, NaiveDate, NaiveDateTime, TimeZone as _, Utc};
use chrono_tz::Tz;

/// An instant, and whether the local time it came from was there twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instant {
    /// When.
    pub at: DateTime<Utc>,
    /// Clocks were set back: the first of the two was taken, the second may have been meant.
    pub ambiguous: bool,
}

/// Why a text is no instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotATime {
    /// Not of the form.
    Form,
    /// Clocks were set forward past it.
    Skipped,
}

/// Reads `2026-11-30 08:35:41`, to the second.
///
/// What channels are known to write instead and means the same is taken: full-width colons, any blank (a no-break or an ideographic one too), none at
/// all (`2026-11-3008：35：41`), a `T`. A spreadsheet's `2026/11/30 8:35` is refused: its seconds are gone.
pub(crate) fn parse_local(text: &str) -> Option<NaiveDateTime> {
    let (date, time) = (text.get(..10)?, text.get(10..)?);
    let time = time.strip_prefix('T').unwrap_or_else(|| time.trim_start());
    let mut parts = time.split([':', '：']);
    let (hour, minute, second) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    let mut date = date.split('-');
    let (year, month, day) = (date.next()?, date.next()?, date.next()?);
    let date =
        NaiveDate::from_ymd_opt(digits(year, 4)?.try_into().ok()?, digits(month, 2)?, digits(day, 2)?)?;
    date.and_hms_opt(digits(hour, 2)?, digits(minute, 2)?, digits(second, 2)?)
}

/// The form that [`parse_plain`] reads, as a format of chrono's.
pub(crate) const PLAIN_FORMAT: &str = "%Y-%m-%d %H:%M:%S";

/// Reads exactly `2026-11-30 08:35:41`; `None` says nothing about a text that a more patient reader may understand.
pub(crate) fn parse_plain(text: &str) -> Option<NaiveDateTime> {
    let is_plain = text.is_ascii() && text.len() == 19 && text.as_bytes()[10] == b' ';
    if is_plain { parse_local(text) } else { None }
}

/// The instant of a local time in the channel's zone.
pub(crate) fn resolve(local: NaiveDateTime, zone: Tz) -> Result<Instant, NotATime> {
    match zone.from_local_datetime(&local) {
        LocalResult::Single(at) => Ok(Instant { at: at.to_utc(), ambiguous: false }),
        LocalResult::Ambiguous(first, _) => Ok(Instant { at: first.to_utc(), ambiguous: true }),
        LocalResult::None => Err(NotATime::Skipped),
    }
}

fn digits(text: &str, count: usize) -> Option<u32> {
    let sound = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    if sound { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instant(text: &str, zone: Tz) -> Result<(String, bool), NotATime> {
        let local = parse_local(text).ok_or(NotATime::Form)?;
        resolve(local, zone).map(|instant| (instant.at.to_rfc3339(), instant.ambiguous))
    }

    #[test]
    fn what_means_the_same_reads_the_same() {
        for text in [
            "2019-07-25 08:35:41",
            "2019-07-25 08：35：41",
            "2019-07-2508：35：41",
            "2019-07-25\u{a0}08:35:41",
            "2019-07-25\u{3000}08:35:41",
            "2019-07-25T08:35:41",
        ] {
            let expected = ("2019-07-25T00:35:41+00:00".to_owned(), false);
            assert_eq!(instant(text, Tz::Asia__Shanghai), Ok(expected), "{text}");
        }
    }

    #[test]
    fn the_plain_reader_reads_what_the_patient_one_does_or_nothing() {
        for text in ["2019-07-25 08:35:41", "2000-02-29 23:59:59", "9999-12-31 00:00:00"] {
            assert!(parse_plain(text).is_some(), "{text}");
            assert_eq!(parse_plain(text), NaiveDateTime::parse_from_str(text, PLAIN_FORMAT).ok(), "{text}");
        }
        for text in [
            "",
            "2019-07-25",
            "2019-07-25T08:35:41",
            "2019-02-29 00:00:00",
            "2019-07-25 08:35:60",
            "2019-07-25 08:35:4x",
        ] {
            assert_eq!(parse_plain(text), None, "{text}");
        }
    }

    #[test]
    fn what_lost_something_is_refused() {
        for text in [
            "",
            "2019-07-25",
            "2019/7/25 8:35",
            "2019-07-25 08:35",
            "2019-07-25 8:35:41",
            "2019-13-25 08:35:41",
            "2019-02-30 08:35:41",
            "2019-07-25 24:00:00",
            "2019-07-25 08:35:41 PM",
            "2019-07-25 08:35:41:00",
            "43671.35811",
            "２019-07-25 08:35:41",
            "2019年07月25日 08:35:41",
        ] {
            assert_eq!(instant(text, Tz::Asia__Shanghai), Err(NotATime::Form), "{text}");
        }
    }

    #[test]
    fn changed_clocks_are_noticed() {
        let skipped = instant("2026-03-29 02:30:00", Tz::Europe__Berlin);
        assert_eq!(skipped, Err(NotATime::Skipped));
        let twice = instant("2026-10-25 02:30:00", Tz::Europe__Berlin);
        assert_eq!(twice, Ok(("2026-10-25T00:30:00+00:00".to_owned(), true)));
        let once = instant("2026-10-25 03:30:00", Tz::Europe__Berlin);
        assert_eq!(once, Ok(("2026-10-25T02:30:00+00:00".to_owned(), false)));
    }
}
