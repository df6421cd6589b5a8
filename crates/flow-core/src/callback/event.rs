//! What a channel says of its own accord, taken apart: which event it is, and what it claims. Pure data.

use crate::ids::{ChannelName, EventId, TradeOrderNo};
use crate::money::Money;

/// Which of an order's facts an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EventType {
    /// The charge.
    Payment,
    /// The refund.
    Refund,
}

impl EventType {
    /// Both.
    pub const ALL: [EventType; 2] = [EventType::Payment, EventType::Refund];

    /// The spelling used in the database and in logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            EventType::Payment => "PAYMENT",
            EventType::Refund => "REFUND",
        }
    }

    /// Reads the spelling of [`EventType::as_str`].
    pub fn parse(text: &str) -> Option<EventType> {
        EventType::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

/// What an event says has happened. A hint about what to ask, never evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Claim {
    /// Charged, or paid back.
    Success,
    /// Definitely not.
    Failed,
    /// Not decided.
    Processing,
}

impl Claim {
    /// All claims.
    pub const ALL: [Claim; 3] = [Claim::Success, Claim::Failed, Claim::Processing];

    /// The spelling used in the database and in logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Claim::Success => "SUCCESS",
            Claim::Failed => "FAILED",
            Claim::Processing => "PROCESSING",
        }
    }

    /// Reads the spelling of [`Claim::as_str`].
    pub fn parse(text: &str) -> Option<Claim> {
        Claim::ALL.into_iter().find(|claim| claim.as_str() == text)
    }
}

/// What makes two deliveries the same event. A payment's and a refund's event of one order differ by the type, and two
/// channels may count alike.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EventKey {
    /// The charge's number, for a refund's event too.
    pub order_no: TradeOrderNo,
    /// Charge or refund.
    pub event_type: EventType,
    /// Who says so.
    pub channel: ChannelName,
    /// The channel's own id of the event.
    pub event_id: EventId,
}

/// What an event says, without the bytes it was said in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// Charge or refund.
    pub event_type: EventType,
    /// What is said of it.
    pub claim: Claim,
    /// How much, where it says.
    pub money: Option<Money>,
}

/// An event whose signature holds, to be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEvent {
    /// Which event it is.
    pub key: EventKey,
    /// What it claims.
    pub claim: Claim,
    /// How much, where it says.
    pub money: Option<Money>,
    /// The body as it was signed, byte for byte; at most [`NewEvent::MAX_RAW_BYTES`].
    pub raw: Vec<u8>,
    /// Correlates with logs.
    pub trace_id: Option<crate::ids::TraceId>,
}

impl NewEvent {
    /// Longest body that is kept, in bytes.
    pub const MAX_RAW_BYTES: usize = 65_536;
}
