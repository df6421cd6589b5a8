//! The life of a ticket: one per channel and order number, for ever; opened, closed and re-opened by comparing, assigned
//! and settled by people. Two pure functions say what follows from a comparison and what a person may do.

use chrono::{DateTime, NaiveDate, Utc};

use super::finding::{Finding, FindingKind, Stake};
use crate::ids::{Actor, ChannelName, FlowId, OrderRef, TicketId, Version};

/// Where a ticket stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TicketState {
    /// Nobody has taken it.
    Open,
    /// A person has.
    Assigned,
    /// The difference went away by itself.
    AutoFixed,
    /// People settled it.
    Resolved,
    /// People decided that it does not matter.
    Ignored,
}

impl TicketState {
    /// All states.
    pub const ALL: [TicketState; 5] = [
        TicketState::Open,
        TicketState::Assigned,
        TicketState::AutoFixed,
        TicketState::Resolved,
        TicketState::Ignored,
    ];

    /// The spelling used in the database, in reports and over HTTP.
    pub const fn as_str(self) -> &'static str {
        match self {
            TicketState::Open => "OPEN",
            TicketState::Assigned => "ASSIGNED",
            TicketState::AutoFixed => "AUTO_FIXED",
            TicketState::Resolved => "RESOLVED",
            TicketState::Ignored => "IGNORED",
        }
    }

    /// Reads the spelling of [`TicketState::as_str`].
    pub fn parse(text: &str) -> Option<TicketState> {
        TicketState::ALL.into_iter().find(|state| state.as_str() == text)
    }

    /// Whether somebody still has to look at it.
    pub const fn is_open(self) -> bool {
        match self {
            TicketState::Open | TicketState::Assigned => true,
            TicketState::AutoFixed | TicketState::Resolved | TicketState::Ignored => false,
        }
    }
}

/// An end that one person proposed and another one is to confirm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposal {
    /// `Resolved` or `Ignored`.
    pub state: TicketState,
    /// Who proposed it.
    pub by: Actor,
    /// Why.
    pub reason: String,
}

/// A ticket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    /// Primary key.
    pub id: TicketId,
    /// Channel; with the number its identity.
    pub channel: ChannelName,
    /// The payment's number, or the bill's where no payment has it.
    pub order_no: OrderRef,
    /// The payment, where there is one.
    pub flow_id: Option<FlowId>,
    /// Where it stands.
    pub state: TicketState,
    /// Grows by one with every write.
    pub version: Version,
    /// The differences there are now, of every day; empty once they are gone.
    pub findings: Vec<Finding>,
    /// Our record as it was last compared, as JSON.
    pub local_record: Option<String>,
    /// The bill's records as they were last compared, as JSON.
    pub bill_records: Option<String>,
    /// The person who has it.
    pub assigned_to: Option<Actor>,
    /// What waits for a second person.
    pub proposal: Option<Proposal>,
    /// When it was first opened.
    pub opened_at: DateTime<Utc>,
    /// When it was last written.
    pub changed_at: DateTime<Utc>,
    /// When it was closed, while it is.
    pub closed_at: Option<DateTime<Utc>>,
}

impl Ticket {
    /// The largest amount in question.
    pub fn stake(&self) -> Option<&Stake> {
        self.findings.iter().map(|finding| &finding.stake).max_by_key(|stake| stake.amount_minor)
    }
}

/// What a write to a ticket was, in its trail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TrailKind {
    /// A difference was found for the first time.
    Opened,
    /// The differences are others than before.
    Changed,
    /// They are gone.
    Gone,
    /// They are back, or new ones came.
    Reopened,
    /// Given to a person.
    Assigned,
    /// An end was proposed.
    Proposed,
    /// An end was reached.
    Settled,
    /// The flow was woken or held for it.
    Repair,
}

impl TrailKind {
    /// All kinds.
    pub const ALL: [TrailKind; 8] = [
        TrailKind::Opened,
        TrailKind::Changed,
        TrailKind::Gone,
        TrailKind::Reopened,
        TrailKind::Assigned,
        TrailKind::Proposed,
        TrailKind::Settled,
        TrailKind::Repair,
    ];

    /// The spelling used in the database and over HTTP.
    pub const fn as_str(self) -> &'static str {
        match self {
            TrailKind::Opened => "OPENED",
            TrailKind::Changed => "CHANGED",
            TrailKind::Gone => "GONE",
            TrailKind::Reopened => "REOPENED",
            TrailKind::Assigned => "ASSIGNED",
            TrailKind::Proposed => "PROPOSED",
            TrailKind::Settled => "SETTLED",
            TrailKind::Repair => "REPAIR",
        }
    }

    /// Reads the spelling of [`TrailKind::as_str`].
    pub fn parse(text: &str) -> Option<TrailKind> {
        TrailKind::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

/// What comparing one order on one day came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiffResult {
    /// The day that was compared.
    pub day: NaiveDate,
    /// All of that day's differences.
    pub found: Vec<Finding>,
    /// Differences of other days that this day's bill confirmed: an entry that waited over a midnight in vain.
    pub carried: Vec<Finding>,
    /// Differences of other days that this day's bill explains.
    pub explained: Vec<(NaiveDate, FindingKind)>,
}

/// What follows for a ticket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AfterDiff {
    /// Nothing is to be written.
    Nothing,
    /// It is opened, with these differences.
    Open(Vec<Finding>),
    /// It is written.
    Write(Next),
}

/// What a ticket becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Next {
    /// What it is, in the trail.
    pub kind: TrailKind,
    /// Where it stands then.
    pub state: TicketState,
    /// The differences then.
    pub findings: Vec<Finding>,
    /// Who has it then.
    pub assigned_to: Option<Actor>,
    /// What waits for a second person then.
    pub proposal: Option<Proposal>,
    /// Who confirmed an end that another person had proposed.
    pub confirmed_by: Option<Actor>,
    /// Why, for the trail.
    pub note: Option<String>,
}

/// What follows from a comparison. Comparing the same records once more follows in nothing.
pub fn after_diff(ticket: Option<&Ticket>, result: &DiffResult) -> AfterDiff {
    let others = ticket.map_or(&[][..], |ticket| ticket.findings.as_slice()).iter().filter(|finding| {
        let explained = result.explained.contains(&(finding.day, finding.kind));
        let replaced = result.carried.iter().any(|new| (new.day, new.kind) == (finding.day, finding.kind));
        finding.day != result.day && !explained && !replaced
    });
    let mut findings: Vec<Finding> = others.chain(&result.found).chain(&result.carried).cloned().collect();
    findings.sort();
    findings.dedup();
    let Some(ticket) = ticket else {
        return if findings.is_empty() { AfterDiff::Nothing } else { AfterDiff::Open(findings) };
    };
    let is_new = findings.iter().any(|finding| !ticket.findings.contains(finding));
    let state = match (ticket.state, findings.is_empty()) {
        (TicketState::Open | TicketState::Assigned, true) => TicketState::AutoFixed,
        (TicketState::Open | TicketState::Assigned, false) => ticket.state,
        (TicketState::AutoFixed | TicketState::Resolved | TicketState::Ignored, true) => ticket.state,
        (TicketState::AutoFixed, false) => TicketState::Open,
        // People decided about what they saw; what they have not seen is theirs to look at again.
        (TicketState::Resolved | TicketState::Ignored, false) if is_new => TicketState::Open,
        (TicketState::Resolved | TicketState::Ignored, false) => ticket.state,
    };
    if state == ticket.state && findings == ticket.findings {
        return AfterDiff::Nothing;
    }
    let kind = match (ticket.state.is_open(), state.is_open()) {
        (true, true) => TrailKind::Changed,
        (false, true) => TrailKind::Reopened,
        (true | false, false) if findings.is_empty() => TrailKind::Gone,
        (true | false, false) => TrailKind::Changed,
    };
    let stays = state.is_open() && ticket.state.is_open();
    AfterDiff::Write(Next {
        kind,
        state,
        assigned_to: if stays { ticket.assigned_to.clone() } else { None },
        // An end was proposed for the differences that were there.
        proposal: if stays && !is_new { ticket.proposal.clone() } else { None },
        confirmed_by: None,
        note: None,
        findings,
    })
}

/// What a person wants to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TicketAction {
    /// Gives it to somebody.
    Assign {
        /// To whom.
        to: Actor,
    },
    /// Settles it.
    Resolve {
        /// How.
        reason: String,
    },
    /// Leaves it.
    Ignore {
        /// Why.
        reason: String,
    },
    /// Confirms what another person proposed.
    Confirm,
}

/// Why a person may not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TicketRefusal {
    /// It is closed.
    #[error("the ticket is {}; nothing was changed; a difference that returns opens it again", state.as_str())]
    Closed {
        /// How.
        state: TicketState,
    },
    /// Nothing waits.
    #[error(
        "no end of this ticket was proposed; nothing was changed; resolve or ignore it with a reason first"
    )]
    NothingProposed,
    /// One person may not do both.
    #[error("what moves money is confirmed by a second person, and {by} proposed it; nothing was changed")]
    SamePerson {
        /// Who proposed it.
        by: Actor,
    },
}

/// Whether an end of these differences wants a second person.
pub fn needs_second_person(findings: &[Finding]) -> bool {
    findings.iter().any(|finding| finding.kind.moves_money())
}

/// What follows from a person's action.
///
/// # Errors
/// [`TicketRefusal`]: nothing is written.
pub fn by_person(ticket: &Ticket, action: TicketAction, actor: &Actor) -> Result<Next, TicketRefusal> {
    if !ticket.state.is_open() {
        return Err(TicketRefusal::Closed { state: ticket.state });
    }
    let next = |kind, state| Next {
        kind,
        state,
        findings: ticket.findings.clone(),
        assigned_to: ticket.assigned_to.clone(),
        proposal: None,
        confirmed_by: None,
        note: None,
    };
    let end = |state, reason: String| {
        if needs_second_person(&ticket.findings) {
            let proposal = Proposal { state, by: actor.clone(), reason: reason.clone() };
            let note = Some(reason);
            Next { proposal: Some(proposal), note, ..next(TrailKind::Proposed, ticket.state) }
        } else {
            Next { note: Some(reason), ..next(TrailKind::Settled, state) }
        }
    };
    match action {
        TicketAction::Assign { to } => Ok(Next {
            assigned_to: Some(to),
            proposal: ticket.proposal.clone(),
            ..next(TrailKind::Assigned, TicketState::Assigned)
        }),
        TicketAction::Resolve { reason } => Ok(end(TicketState::Resolved, reason)),
        TicketAction::Ignore { reason } => Ok(end(TicketState::Ignored, reason)),
        TicketAction::Confirm => match &ticket.proposal {
            None => Err(TicketRefusal::NothingProposed),
            Some(proposal) if proposal.by == *actor => {
                Err(TicketRefusal::SamePerson { by: proposal.by.clone() })
            }
            Some(proposal) => Ok(Next {
                proposal: Some(proposal.clone()),
                confirmed_by: Some(actor.clone()),
                note: Some(proposal.reason.clone()),
                ..next(TrailKind::Settled, proposal.state)
            }),
        },
    }
}

#[cfg(test)]
mod tests;
