//! Business days: half-open, in a named zone. A day may have 23 or 25 hours, and a midnight may be skipped or come twice.

use chrono::{DateTime, NaiveDate, NaiveTime, TimeDelta, TimeZone as _, Utc};
use chrono_tz::Tz;
use flow_core::recon::Day;

/// A channel's calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Calendar {
    zone: Tz,
}

impl Calendar {
    /// Days of this zone.
    pub const fn new(zone: Tz) -> Calendar {
        Calendar { zone }
    }

    /// The first moment of a date: the earlier one where midnight comes twice, the first after the gap where it is skipped.
    fn start(self, date: NaiveDate) -> DateTime<Utc> {
        let midnight = date.and_time(NaiveTime::MIN);
        // No zone has ever skipped more than a day at once.
        for minutes in 0..=24 * 60 {
            let local = midnight + TimeDelta::minutes(minutes);
            if let Some(found) = self.zone.from_local_datetime(&local).earliest() {
                return found.with_timezone(&Utc);
            }
        }
        midnight.and_utc()
    }

    /// A day; `None` at the end of all dates.
    pub fn day(self, date: NaiveDate) -> Option<Day> {
        Some(Day { date, from: self.start(date), until: self.start(date.succ_opt()?) })
    }

    /// The date that a moment lies in.
    pub fn date_of(self, at: DateTime<Utc>) -> NaiveDate {
        at.with_timezone(&self.zone).date_naive()
    }

    /// The moment of an hour of a date; where clocks skip it, the first after it.
    pub fn at_hour(self, date: NaiveDate, hour: u32) -> DateTime<Utc> {
        let into_day = TimeDelta::hours(i64::from(hour));
        let local = date.and_time(NaiveTime::MIN) + into_day;
        let found = self.zone.from_local_datetime(&local).earliest();
        found.map_or_else(|| self.start(date) + into_day, |found| found.with_timezone(&Utc))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    fn date(text: &str) -> NaiveDate {
        text.parse().unwrap()
    }

    #[test]
    fn days_follow_each_other_without_gap_or_overlap() {
        for (zone, from, until, hours) in [
            (Tz::Asia__Shanghai, "2026-03-01T16:00:00Z", "2026-03-02T16:00:00Z", 24),
            (Tz::UTC, "2026-03-02T00:00:00Z", "2026-03-03T00:00:00Z", 24),
        ] {
            let day = Calendar::new(zone).day(date("2026-03-02")).unwrap();
            assert_eq!((day.from, day.until), (at(from), at(until)));
            assert_eq!((day.until - day.from).num_hours(), hours);
        }
        let berlin = Calendar::new(Tz::Europe__Berlin);
        let hours = |text| {
            let day = berlin.day(date(text)).unwrap();
            (day.until - day.from).num_hours()
        };
        assert_eq!((hours("2026-03-29"), hours("2026-10-25"), hours("2026-06-01")), (23, 25, 24));
    }

    #[test]
    fn a_midnight_that_is_skipped_begins_after_the_gap() {
        // Clocks went from 23:59:59 to 01:00:00.
        let beirut = Calendar::new(Tz::Asia__Beirut);
        let day = beirut.day(date("2022-03-27")).unwrap();
        let before = beirut.day(date("2022-03-26")).unwrap();
        assert_eq!(day.from, before.until);
        assert_eq!(beirut.date_of(day.from), day.date);
        assert_eq!(beirut.date_of(day.from - TimeDelta::milliseconds(1)), before.date);
    }

    #[test]
    fn every_moment_lies_in_the_day_of_its_date() {
        let shanghai = Calendar::new(Tz::Asia__Shanghai);
        let moment = at("2026-03-02T15:59:59.999Z");
        assert_eq!(shanghai.date_of(moment), date("2026-03-02"));
        assert!(shanghai.day(date("2026-03-02")).unwrap().contains(moment));
        assert_eq!(shanghai.at_hour(date("2026-03-03"), 10), at("2026-03-03T02:00:00Z"));
    }
}
