//! Time as a few moments: only these can make a difference to a decision, so a world's clock steps from one to the next.

use chrono::{DateTime, TimeDelta, Utc};

/// How long after a deadline a refund waits.
pub const SETTLE_MARGIN_MS: u64 = 1_000;
/// How long after a deadline "no such order" becomes final at a wallet that cannot close.
pub const GRACE_MS: u64 = 2_000;
/// How long after the settle margin the fact may stay unreadable.
pub const UNREADABLE_HOLD_MS: u64 = 1_000;

/// A moment of the database's clock, in the order of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Moment {
    /// Before every deadline.
    Start,
    /// The first deadline, exactly.
    Deadline,
    /// The settle margin of the first deadline has passed.
    Settled,
    /// The grace of the first deadline has passed, and the fact was unreadable for too long.
    Late,
    /// The second deadline, exactly.
    SecondDeadline,
    /// The settle margin of the second deadline has passed.
    SecondSettled,
    /// The grace of the second deadline has passed.
    SecondLate,
}

/// One of the two deadlines that attempts may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Deadline {
    /// At [`Moment::Deadline`].
    First,
    /// At [`Moment::SecondDeadline`].
    Second,
}

impl Moment {
    const ALL: [Moment; 7] = [
        Moment::Start,
        Moment::Deadline,
        Moment::Settled,
        Moment::Late,
        Moment::SecondDeadline,
        Moment::SecondSettled,
        Moment::SecondLate,
    ];

    /// The moment as a time.
    pub fn at(self) -> DateTime<Utc> {
        let seconds = match self {
            Moment::Start => 0,
            Moment::Deadline => 1,
            Moment::Settled => 2,
            Moment::Late => 3,
            Moment::SecondDeadline => 4,
            Moment::SecondSettled => 5,
            Moment::SecondLate => 6,
        };
        DateTime::UNIX_EPOCH + TimeDelta::days(20_000) + TimeDelta::seconds(seconds)
    }

    /// The latest moment that is not after this time.
    pub fn of(time: DateTime<Utc>) -> Moment {
        Moment::ALL.into_iter().rev().find(|moment| moment.at() <= time).unwrap_or(Moment::Start)
    }

    /// The next one.
    pub fn next(self) -> Option<Moment> {
        Moment::ALL.into_iter().find(|moment| *moment > self)
    }

    /// How a story says that it has come.
    pub const fn as_str(self) -> &'static str {
        match self {
            Moment::Start => "the start",
            Moment::Deadline => "the deadline",
            Moment::Settled => "the deadline plus the settle margin",
            Moment::Late => "the deadline plus the wallet's grace",
            Moment::SecondDeadline => "the second attempt's deadline",
            Moment::SecondSettled => "the second attempt's deadline plus the settle margin",
            Moment::SecondLate => "the second attempt's deadline plus the wallet's grace",
        }
    }
}

impl Deadline {
    /// When it is.
    pub const fn moment(self) -> Moment {
        match self {
            Deadline::First => Moment::Deadline,
            Deadline::Second => Moment::SecondDeadline,
        }
    }

    /// When no clock can be before it any more.
    pub const fn settled(self) -> Moment {
        match self {
            Deadline::First => Moment::Settled,
            Deadline::Second => Moment::SecondSettled,
        }
    }

    /// When no debit that was begun before it can still be under way to a wallet that cannot close.
    pub const fn late(self) -> Moment {
        match self {
            Deadline::First => Moment::Late,
            Deadline::Second => Moment::SecondLate,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_where_the_rules_change_their_mind() {
        let ms = |later: Moment, earlier: Moment| {
            u64::try_from((later.at() - earlier.at()).num_milliseconds()).unwrap()
        };
        for deadline in [Deadline::First, Deadline::Second] {
            assert_eq!(ms(deadline.settled(), deadline.moment()), SETTLE_MARGIN_MS);
            assert_eq!(ms(deadline.late(), deadline.moment()), GRACE_MS);
            assert_eq!(ms(deadline.late(), deadline.settled()), UNREADABLE_HOLD_MS);
        }
        for moment in Moment::ALL {
            assert_eq!(Moment::of(moment.at()), moment);
        }
    }
}
