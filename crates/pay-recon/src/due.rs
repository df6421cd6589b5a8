//! Which days the daemon compares now, and which are late. Pure.

use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use flow_core::ports::Batch;
use flow_core::recon::BatchState;

use crate::calendar::Calendar;

/// When a channel's days are compared.
#[derive(Debug, Clone, Copy)]
pub struct Timetable {
    /// The channel's calendar.
    pub calendar: Calendar,
    /// Hour of the next day at which the bill is there.
    pub hour: u32,
    /// Hour of the next day at which people are alerted.
    pub deadline_hour: u32,
    /// How many past days are caught up.
    pub catch_up_days: u32,
    /// How long after a failed run it is tried again, in milliseconds.
    pub retry_failed_ms: u64,
}

impl Timetable {
    /// Days whose bill is there by now, oldest first.
    pub fn days(&self, now: DateTime<Utc>) -> Vec<NaiveDate> {
        let today = self.calendar.date_of(now);
        let days = (1..=i64::from(self.catch_up_days)).rev();
        let days = days.filter_map(|back| today.checked_sub_signed(TimeDelta::days(back)));
        days.filter(|day| self.is_past(*day, self.hour, now)).collect()
    }

    fn is_past(&self, day: NaiveDate, hour: u32, now: DateTime<Utc>) -> bool {
        day.succ_opt().is_some_and(|next| self.calendar.at_hour(next, hour) <= now)
    }

    /// Whether a day is to be compared now, given its batch.
    pub fn is_to_run(&self, batch: Option<&Batch>, now: DateTime<Utc>) -> bool {
        let Some(batch) = batch else { return true };
        match batch.state {
            // One that runs is somebody's; one that died is claimed again, or refused.
            BatchState::Pending | BatchState::Running => true,
            BatchState::Done => false,
            BatchState::Failed => {
                let pause =
                    TimeDelta::milliseconds(i64::try_from(self.retry_failed_ms).unwrap_or(i64::MAX / 2));
                batch.finished_at.is_none_or(|at| at + pause <= now)
            }
        }
    }

    /// Whether a day without a finished batch is late.
    pub fn is_late(&self, day: NaiveDate, batch: Option<&Batch>, now: DateTime<Utc>) -> bool {
        let is_done = batch.is_some_and(|batch| batch.state == BatchState::Done);
        !is_done && self.is_past(day, self.deadline_hour, now)
    }
}

#[cfg(test)]
mod tests {
    use chrono_tz::Tz;
    use flow_core::ids::{BatchId, ChannelName};
    use flow_core::recon::Tally;

    use super::*;

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    fn date(text: &str) -> NaiveDate {
        text.parse().unwrap()
    }

    fn table() -> Timetable {
        Timetable {
            calendar: Calendar::new(Tz::Asia__Shanghai),
            hour: 10,
            deadline_hour: 14,
            catch_up_days: 3,
            retry_failed_ms: 60_000,
        }
    }

    fn batch(state: BatchState, finished_at: Option<&str>) -> Batch {
        Batch {
            id: BatchId::new(1).unwrap(),
            channel: ChannelName::new("main").unwrap(),
            day: date("2026-03-01"),
            state,
            parts: 1,
            parts_done: 0,
            runs: 1,
            tally: Tally::default(),
            bill: None,
            reason: None,
            started_at: None,
            finished_at: finished_at.map(at),
        }
    }

    #[test]
    fn yesterday_is_due_at_its_hour_in_the_channels_zone_and_missed_days_before_it() {
        // Ten in Shanghai is two in UTC.
        let missed = [date("2026-02-27"), date("2026-02-28"), date("2026-03-01")];
        assert_eq!(table().days(at("2026-03-02T02:00:00Z")), missed);
        assert_eq!(table().days(at("2026-03-02T01:59:59Z")), missed[..2]);
        // Still the second of March over there.
        assert_eq!(table().days(at("2026-03-02T15:59:59Z")), missed);
        assert_eq!(table().days(at("2026-03-02T16:00:00Z")), [date("2026-02-28"), date("2026-03-01")]);
    }

    #[test]
    fn a_day_is_run_until_it_is_done_and_a_failed_one_after_a_while() {
        let now = at("2026-03-02T03:00:00Z");
        let to_run = |batch: Option<Batch>| table().is_to_run(batch.as_ref(), now);
        assert!(to_run(None) && to_run(Some(batch(BatchState::Pending, None))));
        assert!(!to_run(Some(batch(BatchState::Done, Some("2026-03-02T02:30:00Z")))));
        assert!(!to_run(Some(batch(BatchState::Failed, Some("2026-03-02T02:59:01Z")))));
        assert!(to_run(Some(batch(BatchState::Failed, Some("2026-03-02T02:59:00Z")))));
    }

    #[test]
    fn a_day_is_late_from_the_deadline_on_unless_it_is_done() {
        let late = |batch: Option<Batch>, now| table().is_late(date("2026-03-01"), batch.as_ref(), at(now));
        assert!(!late(None, "2026-03-02T05:59:59Z") && late(None, "2026-03-02T06:00:00Z"));
        assert!(late(Some(batch(BatchState::Failed, None)), "2026-03-02T06:00:00Z"));
        assert!(!late(Some(batch(BatchState::Done, None)), "2026-03-09T06:00:00Z"));
    }
}
