//! Reconciliation tickets and their trail as JSON.

use chrono::{DateTime, NaiveDate, Utc};
use flow_core::ports::TrailLine;
use flow_core::recon::{Finding, Proposal, Ticket};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// What differs about one order between us, the wallet's bill and the business system, and what became of it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Ticket)]
pub struct TicketView {
    /// The ticket's id.
    ticket_id: String,
    /// Channel; with the order number its identity.
    channel: String,
    /// The payment's number, or the bill's where no payment has it.
    order_no: String,
    /// The flow, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    flow_id: Option<String>,
    /// `OPEN`, `ASSIGNED`, `AUTO_FIXED`, `RESOLVED` or `IGNORED`.
    #[schema(pattern = "^(OPEN|ASSIGNED|AUTO_FIXED|RESOLVED|IGNORED)$")]
    state: &'static str,
    /// Grows by one with every write.
    version: u64,
    /// The differences there are now; empty once they are gone.
    findings: Vec<FindingView>,
    /// Our record as it was last compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    local_record: Option<Value>,
    /// The bill's records as they were last compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Object>>)]
    bill_records: Option<Value>,
    /// Who has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    assigned_to: Option<String>,
    /// The end that was proposed; while the ticket is open, it waits for a second person.
    #[serde(skip_serializing_if = "Option::is_none")]
    proposed: Option<ProposalView>,
    /// When it was first opened.
    opened_at: DateTime<Utc>,
    /// When it was last written.
    changed_at: DateTime<Utc>,
    /// When it was closed, while it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    closed_at: Option<DateTime<Utc>>,
}

/// One difference.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Finding)]
pub struct FindingView {
    /// The business day whose records disagree.
    #[schema(value_type = String, format = Date)]
    day: NaiveDate,
    /// Its kind.
    kind: &'static str,
    /// Both values, in words.
    detail: String,
    /// What the kind means.
    explanation: &'static str,
    /// What must be confirmed before it is repaired.
    confirm_first: &'static str,
    /// Whether repairing it moves money: then a second person confirms the ticket's end.
    moves_money: bool,
    /// How much is in question, in minor units.
    amount_minor: u64,
    /// Currency or asset of that.
    currency: String,
}

/// An end that one person proposed.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Proposal)]
pub struct ProposalView {
    /// `RESOLVED` or `IGNORED`.
    state: &'static str,
    /// Who proposed it.
    by: String,
    /// Why.
    reason: String,
}

impl From<Finding> for FindingView {
    fn from(finding: Finding) -> FindingView {
        FindingView {
            day: finding.day,
            kind: finding.kind.as_str(),
            detail: finding.detail,
            explanation: finding.kind.explanation(),
            confirm_first: finding.kind.confirm(),
            moves_money: finding.kind.moves_money(),
            amount_minor: finding.stake.amount_minor,
            currency: finding.stake.currency,
        }
    }
}

impl From<Proposal> for ProposalView {
    fn from(proposal: Proposal) -> ProposalView {
        ProposalView { state: proposal.state.as_str(), by: proposal.by.to_string(), reason: proposal.reason }
    }
}

fn record(text: Option<String>) -> Option<Value> {
    text.and_then(|text| serde_json::from_str(&text).ok())
}

impl From<Ticket> for TicketView {
    fn from(ticket: Ticket) -> TicketView {
        TicketView {
            ticket_id: ticket.id.to_string(),
            channel: ticket.channel.to_string(),
            order_no: ticket.order_no.to_string(),
            flow_id: ticket.flow_id.map(|id| id.to_string()),
            state: ticket.state.as_str(),
            version: ticket.version.0,
            findings: ticket.findings.into_iter().map(Into::into).collect(),
            local_record: record(ticket.local_record),
            bill_records: record(ticket.bill_records),
            assigned_to: ticket.assigned_to.map(|person| person.to_string()),
            proposed: ticket.proposal.map(Into::into),
            opened_at: ticket.opened_at,
            changed_at: ticket.changed_at,
            closed_at: ticket.closed_at,
        }
    }
}

/// One page of tickets, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub struct TicketList {
    /// The tickets.
    pub tickets: Vec<TicketView>,
    /// Whether more follow.
    pub has_more: bool,
    /// Give it as `cursor` to get the next page; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// One write to a ticket.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TicketTrailLine)]
pub struct TrailLineView {
    /// The version that it produced.
    version: u64,
    /// `OPENED`, `CHANGED`, `GONE`, `REOPENED`, `ASSIGNED`, `PROPOSED`, `SETTLED`, `REPAIR` or `BY_HAND`.
    kind: String,
    /// State before; absent at the opening.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<&'static str>,
    /// State after.
    to: &'static str,
    /// The kinds of difference after it.
    kinds: Vec<String>,
    /// Who.
    actor: String,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    /// When.
    at: DateTime<Utc>,
}

impl From<TrailLine> for TrailLineView {
    fn from(line: TrailLine) -> TrailLineView {
        let kinds = line.kinds.split(',').filter(|kind| !kind.is_empty());
        TrailLineView {
            version: line.version.0,
            kinds: kinds.map(str::to_owned).collect(),
            kind: line.kind,
            from: line.from.map(|state| state.as_str()),
            to: line.to.as_str(),
            actor: line.actor,
            note: line.note,
            at: line.at,
        }
    }
}

/// One page of a trail, oldest first.
#[derive(Debug, Serialize, ToSchema)]
pub struct TrailPage {
    /// The lines.
    pub lines: Vec<TrailLineView>,
    /// Whether more follow.
    pub has_more: bool,
    /// Give it as `cursor` to get the next page; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}
