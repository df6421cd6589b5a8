//! Tickets, as they are opened, written, found and counted.

use chrono::{DateTime, Utc};

use crate::ids::{Actor, ChannelName, FlowId, OrderRef, TicketId, Version};
use crate::recon::{Finding, FindingKind, Next, Ticket, TicketState};

/// Both sides' records, as JSON.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TicketRecords {
    /// Ours.
    pub local: Option<String>,
    /// The bill's.
    pub bill: Option<String>,
}

impl TicketRecords {
    /// Longest record of either side, in bytes.
    pub const MAX_BYTES: usize = 1_048_576;
}

/// A ticket to open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTicket {
    /// The channel.
    pub channel: ChannelName,
    /// The order.
    pub order_no: OrderRef,
    /// The flow, where there is one.
    pub flow_id: Option<FlowId>,
    /// What was found, at least one.
    pub findings: Vec<Finding>,
    /// Both sides.
    pub records: TicketRecords,
    /// Who opens it.
    pub actor: Actor,
}

/// Outcome of opening a ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opened {
    /// It is there, at version 0.
    Opened,
    /// The order has one; nothing was written. Load it.
    Exists,
}

/// A write to a ticket, if it is still at the given version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TicketWrite {
    /// Which.
    pub id: TicketId,
    /// The version that was read.
    pub version: Version,
    /// What it becomes.
    pub next: Next,
    /// The flow, where one became known.
    pub flow_id: Option<FlowId>,
    /// Both sides, where they were compared anew; `None` leaves what is there.
    pub records: TicketRecords,
    /// Who writes.
    pub actor: Actor,
}

/// One line of a ticket's trail, written by the database together with the ticket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrailLine {
    /// The version that the write produced.
    pub version: Version,
    /// What it was: a [`crate::recon::TrailKind`], or `BY_HAND`.
    pub kind: String,
    /// State before; `None` for the opening.
    pub from: Option<TicketState>,
    /// State after.
    pub to: TicketState,
    /// The kinds of difference after it, separated by commas.
    pub kinds: String,
    /// Who.
    pub actor: String,
    /// Why.
    pub note: Option<String>,
    /// When, by the database's clock.
    pub at: DateTime<Utc>,
}

/// Which tickets people want. Everything given must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TicketFilter {
    /// This very one.
    pub id: Option<TicketId>,
    /// Of this channel.
    pub channel: Option<ChannelName>,
    /// Of this order.
    pub order_no: Option<OrderRef>,
    /// In this state.
    pub state: Option<TicketState>,
    /// Still to be looked at.
    pub open: Option<bool>,
    /// With such a difference.
    pub kind: Option<FindingKind>,
    /// Given to this person.
    pub assigned_to: Option<Actor>,
}

/// One page, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TicketPage {
    /// The tickets.
    pub tickets: Vec<Ticket>,
    /// Whether more follow; the next page starts before the last one's id.
    pub has_more: bool,
}

/// Open tickets of one channel in one currency.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TicketSummary {
    /// The channel.
    pub channel: ChannelName,
    /// The currency of what is in question.
    pub currency: String,
    /// How many.
    pub tickets: u64,
    /// How much is in question, in minor units.
    pub stake_minor: u64,
    /// Age of the oldest, in milliseconds.
    pub oldest_age_ms: u64,
}
