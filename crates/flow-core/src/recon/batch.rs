//! Batches: one per channel and business day; what was counted in one, and how parts of one add up.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

/// Where a batch, or a part of one, stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BatchState {
    /// Not begun, or not every part of it.
    Pending,
    /// A process works on it.
    Running,
    /// Compared to the end.
    Done,
    /// Not compared; the reason says why.
    Failed,
}

impl BatchState {
    /// All states.
    pub const ALL: [BatchState; 4] =
        [BatchState::Pending, BatchState::Running, BatchState::Done, BatchState::Failed];

    /// The spelling used in the database, in reports and over HTTP.
    pub const fn as_str(self) -> &'static str {
        match self {
            BatchState::Pending => "PENDING",
            BatchState::Running => "RUNNING",
            BatchState::Done => "DONE",
            BatchState::Failed => "FAILED",
        }
    }

    /// Reads the spelling of [`BatchState::as_str`].
    pub fn parse(text: &str) -> Option<BatchState> {
        BatchState::ALL.into_iter().find(|state| state.as_str() == text)
    }
}

/// A business day of a channel: its date there, and the half-open interval that it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Day {
    /// The date in the channel's zone.
    pub date: NaiveDate,
    /// Its first moment.
    pub from: DateTime<Utc>,
    /// The first moment of the next one.
    pub until: DateTime<Utc>,
}

impl Day {
    /// Whether a moment lies in it.
    pub fn contains(&self, at: DateTime<Utc>) -> bool {
        self.from <= at && at < self.until
    }

    /// The neighbouring date that a moment of this day is close to: at most so long from its edge.
    pub fn neighbour_of(&self, at: DateTime<Utc>, within: TimeDelta) -> Option<NaiveDate> {
        if !self.contains(at) {
            return None;
        }
        if at - self.from < within {
            return self.date.pred_opt();
        }
        if self.until - at <= within {
            return self.date.succ_opt();
        }
        None
    }
}

/// A part of the orders: those whose number's hash is `index` modulo `of`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Partition {
    index: u32,
    of: u32,
}

/// Why a text is no partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a partition is written i/n, with n from 1 to {max} and i from 0 to n-1", max = Partition::MOST)]
pub struct PartitionError;

impl Partition {
    /// Most parts of one batch.
    pub const MOST: u32 = 256;
    /// All orders.
    pub const WHOLE: Partition = Partition { index: 0, of: 1 };

    /// Part `index`, from 0, of so many.
    ///
    /// # Errors
    /// [`PartitionError`].
    pub fn new(index: u32, of: u32) -> Result<Partition, PartitionError> {
        if index < of && of <= Self::MOST { Ok(Partition { index, of }) } else { Err(PartitionError) }
    }

    /// Which, from 0.
    pub const fn index(self) -> u32 {
        self.index
    }

    /// Of how many.
    pub const fn of(self) -> u32 {
        self.of
    }

    /// Whether an order is in it. The same in every process and every version: FNV-1a over the number's bytes.
    pub fn has(self, order_no: &str) -> bool {
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        let hash = order_no.bytes().fold(0xcbf2_9ce4_8422_2325, step);
        // The low bits of FNV alone are poor; fold the high ones in.
        (hash ^ (hash >> 32)) % u64::from(self.of) == u64::from(self.index)
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.of)
    }
}

impl FromStr for Partition {
    type Err = PartitionError;
    fn from_str(text: &str) -> Result<Partition, PartitionError> {
        let (index, of) = text.split_once('/').ok_or(PartitionError)?;
        let number = |text: &str| text.parse::<u32>().map_err(|_| PartitionError);
        Partition::new(number(index)?, number(of)?)
    }
}

/// Both sides' sums in one currency, in minor units.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CurrencySums {
    /// Charged, by the bill.
    pub bill_paid_minor: u64,
    /// Paid back, by the bill.
    pub bill_refunded_minor: u64,
    /// Charged, by our records of the day.
    pub local_paid_minor: u64,
    /// Paid back, by our records of the day.
    pub local_refunded_minor: u64,
}

/// What became of tickets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TicketCounts {
    /// Opened for the first time.
    pub opened: u64,
    /// Other differences than before.
    pub changed: u64,
    /// Opened again.
    pub reopened: u64,
    /// Closed, since the difference is gone.
    pub gone: u64,
}

/// What was counted in a part of a batch. Parts add up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tally {
    /// The bill's rows of payments.
    pub bill_payment_rows: u64,
    /// The bill's rows of refunds.
    pub bill_refund_rows: u64,
    /// The bill's rows that could not be read.
    pub quarantined_rows: u64,
    /// Our payments that have something on the day.
    pub local_rows: u64,
    /// Orders that were compared.
    pub orders: u64,
    /// Those with a difference.
    pub differing_orders: u64,
    /// Entries that wait for a neighbouring day.
    pub waiting_entries: u64,
    /// Entries that had waited, or lay in another day's bill, and were matched.
    pub carried_matches: u64,
    /// Business facts that were read.
    pub facts_read: u64,
    /// Business facts that could not be read.
    pub facts_unreadable: u64,
    /// Flows that were woken to ask.
    pub woken_flows: u64,
    /// Flows that were held.
    pub held_flows: u64,
    /// Differences by kind.
    pub by_kind: BTreeMap<String, u64>,
    /// Sums by currency.
    pub sums: BTreeMap<String, CurrencySums>,
    /// What became of tickets.
    pub tickets: TicketCounts,
}

impl Tally {
    /// Whether nothing is left for people to look at.
    pub const fn is_clean(&self) -> bool {
        self.differing_orders == 0 && self.quarantined_rows == 0 && self.facts_unreadable == 0
    }

    /// Both parts' counts together. A sum beyond what a number holds stays at the largest.
    pub fn add(&mut self, other: &Tally) {
        let add = |mine: &mut u64, theirs: u64| *mine = mine.saturating_add(theirs);
        add(&mut self.bill_payment_rows, other.bill_payment_rows);
        add(&mut self.bill_refund_rows, other.bill_refund_rows);
        add(&mut self.quarantined_rows, other.quarantined_rows);
        add(&mut self.local_rows, other.local_rows);
        add(&mut self.orders, other.orders);
        add(&mut self.differing_orders, other.differing_orders);
        add(&mut self.waiting_entries, other.waiting_entries);
        add(&mut self.carried_matches, other.carried_matches);
        add(&mut self.facts_read, other.facts_read);
        add(&mut self.facts_unreadable, other.facts_unreadable);
        add(&mut self.woken_flows, other.woken_flows);
        add(&mut self.held_flows, other.held_flows);
        for (kind, count) in &other.by_kind {
            add(self.by_kind.entry(kind.clone()).or_default(), *count);
        }
        for (currency, sums) in &other.sums {
            let mine = self.sums.entry(currency.clone()).or_default();
            add(&mut mine.bill_paid_minor, sums.bill_paid_minor);
            add(&mut mine.bill_refunded_minor, sums.bill_refunded_minor);
            add(&mut mine.local_paid_minor, sums.local_paid_minor);
            add(&mut mine.local_refunded_minor, sums.local_refunded_minor);
        }
        add(&mut self.tickets.opened, other.tickets.opened);
        add(&mut self.tickets.changed, other.tickets.changed);
        add(&mut self.tickets.reopened, other.tickets.reopened);
        add(&mut self.tickets.gone, other.tickets.gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    #[test]
    fn a_day_is_half_open_and_knows_whose_midnight_is_near() {
        let date = NaiveDate::from_ymd_opt(2026, 3, 2).unwrap();
        let day = Day { date, from: at("2026-03-01T16:00:00Z"), until: at("2026-03-02T16:00:00Z") };
        assert!(day.contains(day.from) && !day.contains(day.until));
        let near = |text: &str| day.neighbour_of(at(text), TimeDelta::minutes(10));
        assert_eq!(near("2026-03-01T16:09:59Z"), date.pred_opt());
        assert_eq!(near("2026-03-01T16:10:00Z"), None);
        assert_eq!(near("2026-03-02T15:49:59Z"), None);
        assert_eq!(near("2026-03-02T15:50:00Z"), date.succ_opt());
        assert_eq!(near("2026-03-02T16:00:00Z"), None);
    }

    #[test]
    fn every_order_is_in_exactly_one_partition_and_none_gets_most() {
        let parts: Vec<Partition> = (0..4).map(|index| Partition::new(index, 4).unwrap()).collect();
        let mut sizes = [0_u32; 4];
        for number in 0..4_000 {
            let order = format!("h2r_{number}_{}", number * 7);
            let mine: Vec<usize> = (0..4).filter(|index| parts[*index].has(&order)).collect();
            assert_eq!(mine.len(), 1);
            sizes[mine[0]] += 1;
        }
        assert!(sizes.iter().all(|size| (800..1_200).contains(size)), "{sizes:?}");
        assert!((0..100).all(|number| Partition::WHOLE.has(&number.to_string())));
    }

    #[test]
    fn a_partition_is_read_as_it_is_written() {
        assert_eq!("3/4".parse::<Partition>().unwrap().to_string(), "3/4");
        for wrong in ["", "4/4", "0/0", "1", "a/b", "0/257", "-1/2", "1/2/3"] {
            assert_eq!(wrong.parse::<Partition>(), Err(PartitionError), "{wrong:?}");
        }
    }

    #[test]
    fn tallies_add_up_and_are_read_back() {
        let one = Tally {
            orders: 2,
            by_kind: [("TIME_GAP".to_owned(), 1)].into(),
            sums: [("CNY".to_owned(), CurrencySums { bill_paid_minor: 5, ..CurrencySums::default() })].into(),
            ..Tally::default()
        };
        let mut sum = one.clone();
        sum.add(&one);
        assert_eq!((sum.orders, sum.by_kind["TIME_GAP"], sum.sums["CNY"].bill_paid_minor), (4, 2, 10));
        let text = serde_json::to_string(&sum).unwrap();
        assert_eq!(serde_json::from_str::<Tally>(&text).unwrap(), sum);
        assert!(sum.is_clean() && !Tally { quarantined_rows: 1, ..sum }.is_clean());
    }
}
