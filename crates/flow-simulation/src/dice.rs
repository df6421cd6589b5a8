//! Every random choice of a run, from its one seed.
//!
//! A choice is drawn at a [`Point`]: what it is about, and the how-many-eth choice about that it is. Points do not
//! share a sequence, so that leaving one choice out (see [`crate::shrink`]) leaves all the others as they were.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Mutex, PoisonError};

use rand::{RngExt as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

/// What a choice is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Topic {
    /// The shape of the world.
    World,
    /// What a client does.
    Client,
    /// What a person on call does.
    Person,
    /// Stops, stalls and outages that are planned ahead.
    Upheaval,
    /// The jitter of a process.
    Jitter,
    /// A call of the wallet: debit.
    Debit,
    /// A call of the wallet: query.
    Query,
    /// A call of the wallet: close.
    Close,
    /// A call of the wallet: refund.
    Refund,
    /// A call of the wallet: query a refund.
    QueryRefund,
    /// A call of the business system: execute.
    Execute,
    /// A call of the business system: read the fact.
    Fact,
    /// A statement: the clock.
    Now,
    /// A statement: read a row.
    Load,
    /// A statement: what a creation must know.
    LookUp,
    /// A statement: insert.
    Create,
    /// A statement: bind a key.
    BindKey,
    /// A statement: compare-and-swap.
    Cas,
    /// A statement: a page of due rows.
    ListDue,
    /// A lease on a partition.
    Lease,
    /// A wake-up that is asked for.
    Wake,
    /// What the wallet says of its own accord.
    Callback,
    /// A statement: keep, claim or settle what it said.
    InboxWrite,
    /// A statement: what of it is due.
    InboxList,
    /// A statement: take or settle what applications are told.
    OutboxWrite,
    /// A call of an application: tell it of a flow.
    Notify,
    /// The entry lock.
    Entry,
}

impl Topic {
    /// The name in stories.
    pub const fn name(self) -> &'static str {
        match self {
            Topic::World => "world",
            Topic::Client => "client",
            Topic::Person => "person",
            Topic::Upheaval => "upheaval",
            Topic::Jitter => "jitter",
            Topic::Debit => "debit",
            Topic::Query => "query",
            Topic::Close => "close",
            Topic::Refund => "refund",
            Topic::QueryRefund => "query_refund",
            Topic::Execute => "execute",
            Topic::Fact => "fact",
            Topic::Now => "now",
            Topic::Load => "load",
            Topic::LookUp => "look_up",
            Topic::Create => "create",
            Topic::BindKey => "bind_key",
            Topic::Cas => "cas",
            Topic::ListDue => "list_due",
            Topic::Lease => "lease",
            Topic::Wake => "wake",
            Topic::Callback => "callback",
            Topic::InboxWrite => "inbox_write",
            Topic::InboxList => "inbox_list",
            Topic::OutboxWrite => "outbox_write",
            Topic::Notify => "notify",
            Topic::Entry => "entry",
        }
    }
}

/// One choice of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Point {
    /// What it is about.
    pub topic: Topic,
    /// Of which flow, target, client or process.
    pub subject: i64,
    /// The how-many-eth about that, from 0.
    pub nth: u32,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.topic.name(), self.subject, self.nth)
    }
}

/// The dice of one run.
#[derive(Debug)]
pub struct Dice {
    seed: u64,
    counts: Mutex<HashMap<(Topic, i64), u32>>,
    left_out: BTreeSet<Point>,
}

impl Dice {
    /// The dice of this seed, without the incidents at these points.
    pub fn new(seed: u64, left_out: BTreeSet<Point>) -> Dice {
        Dice { seed, counts: Mutex::default(), left_out }
    }

    /// The next choice about a subject.
    pub fn draw(&self, topic: Topic, subject: i64) -> Draw {
        let nth = {
            let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
            let count = counts.entry((topic, subject)).or_default();
            *count += 1;
            *count - 1
        };
        self.at(Point { topic, subject, nth })
    }

    /// The choice at a point.
    pub fn at(&self, point: Point) -> Draw {
        let mixed = [point.topic as u64, point.subject.cast_unsigned(), u64::from(point.nth)]
            .into_iter()
            .fold(mix(self.seed), |state, part| mix(state ^ mix(part)));
        let left_out = self.left_out.contains(&point);
        Draw { point, left_out, rng: Xoshiro256PlusPlus::seed_from_u64(mixed) }
    }
}

/// The finaliser of `SplitMix64`: every bit of the input changes half of the output's.
const fn mix(state: u64) -> u64 {
    let state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

/// One choice: as many numbers as it takes.
#[derive(Debug)]
pub struct Draw {
    /// Where it is drawn.
    pub point: Point,
    /// The run is repeated without the incident at this point.
    pub left_out: bool,
    rng: Xoshiro256PlusPlus,
}

impl Draw {
    /// True so many times in a thousand.
    pub fn chance(&mut self, permille: u32) -> bool {
        self.rng.random_range(0..1000) < permille
    }

    /// From `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        self.rng.random_range(low..=high.max(low))
    }

    /// From `low` to `high`, both included, where small numbers are as likely as large ones: each doubling of the
    /// range gets the same share.
    pub fn spread(&mut self, low: u64, high: u64) -> u64 {
        let span = high.saturating_sub(low);
        let bits = u64::from(u64::BITS - span.leading_zeros());
        let kept = self.between(0, bits);
        low + self.between(0, span) % (1u64 << kept.min(63))
    }

    /// One of them.
    ///
    /// # Panics
    /// If there is none.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.rng.random_range(0..from.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_do_not_disturb_each_other() {
        let numbers = |dice: &Dice| {
            dice.draw(Topic::Debit, 1);
            let mut draw = dice.draw(Topic::Debit, 2);
            (draw.point.nth, draw.between(0, u64::MAX - 1))
        };
        let one = Dice::new(7, BTreeSet::new());
        let other = Dice::new(7, BTreeSet::new());
        other.draw(Topic::Cas, 9);
        assert_eq!(numbers(&one), numbers(&other));
        assert_ne!(numbers(&one), numbers(&Dice::new(8, BTreeSet::new())));
    }

    #[test]
    fn a_spread_stays_in_its_range() {
        let dice = Dice::new(1, BTreeSet::new());
        let mut small = 0;
        for _ in 0..1_000 {
            let number = dice.draw(Topic::World, 0).spread(10, 1_034);
            assert!((10..=1_034).contains(&number));
            small += u32::from(number < 42);
        }
        assert!(small > 300, "{small} of 1000 in the lowest 32 of 1024");
    }
}
