//! Entries that wait for another day's batch.

use chrono::NaiveDate;

use crate::ids::{ChannelName, OrderRef};

/// A payment or a refund.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EntryKind {
    /// A charge.
    Payment,
    /// A refund.
    Refund,
}

impl EntryKind {
    /// Both.
    pub const ALL: [EntryKind; 2] = [EntryKind::Payment, EntryKind::Refund];

    /// The spelling used in the database and in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            EntryKind::Payment => "PAYMENT",
            EntryKind::Refund => "REFUND",
        }
    }

    /// Reads the spelling of [`EntryKind::as_str`].
    pub fn parse(text: &str) -> Option<EntryKind> {
        EntryKind::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

/// Which side an entry that waits is on. In the order of their spellings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CarrySide {
    /// The bill's: our counterpart belongs to another day, or there is none yet.
    Bill,
    /// Ours: the bill has no counterpart yet.
    Local,
}

impl CarrySide {
    /// Both.
    pub const ALL: [CarrySide; 2] = [CarrySide::Bill, CarrySide::Local];

    /// The spelling used in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            CarrySide::Local => "LOCAL",
            CarrySide::Bill => "BILL",
        }
    }

    /// Reads the spelling of [`CarrySide::as_str`].
    pub fn parse(text: &str) -> Option<CarrySide> {
        CarrySide::ALL.into_iter().find(|side| side.as_str() == text)
    }
}

/// Identity of an entry that waits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CarryKey {
    /// The order, that is the payment's number.
    pub order_no: OrderRef,
    /// Which side.
    pub side: CarrySide,
    /// Payment or refund.
    pub kind: EntryKind,
    /// The entry's own number.
    pub entry_no: OrderRef,
}

/// An entry of one day that waits for the batch of another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Carry {
    /// The channel.
    pub channel: ChannelName,
    /// The day that lets it wait.
    pub day: NaiveDate,
    /// Which entry.
    pub key: CarryKey,
    /// The day it waits for.
    pub waits_for: NaiveDate,
    /// The record, as JSON.
    pub record: String,
}
