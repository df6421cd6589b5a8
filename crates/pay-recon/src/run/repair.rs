//! What is done about a difference without people: the flow is woken where an authoritative query decides, and held where
//! people must. Once for the same differences, and only through `advance`; the bill itself writes no state.

use flow_core::advance::{AdvanceError, Call, End, Handled};
use flow_core::flow::Trigger;
use flow_core::ids::FlowId;
use flow_core::ports::{StoreError, TicketRecords};
use flow_core::recon::{Finding, Next, Remedy, Ticket, TrailKind};

use super::compare::{Compared, number_of};
use super::{Run, RunError};
use crate::finding::findings;
use crate::midnight::settle;

/// Lines of a trail that are looked through.
const TRAIL_LINES: u32 = 10_000;

/// What the findings ask for together: what one of them holds is not woken for another.
fn remedy(findings: &[Finding]) -> Remedy {
    let any = |wanted: Remedy| findings.iter().any(|finding| finding.kind.remedy() == wanted);
    if any(Remedy::Hold) {
        Remedy::Hold
    } else if any(Remedy::Ask) {
        Remedy::Ask
    } else {
        Remedy::People
    }
}

impl Run<'_> {
    /// Repairs what may be repaired, and gives the comparison as it is afterwards.
    pub(super) async fn repair(&mut self, compared: Compared, ticket: Ticket) -> Result<Compared, RunError> {
        let flow = compared.order.local.as_ref();
        let Some(flow_id) =
            flow.filter(|flow| !flow.state.is_terminal() && !flow.is_held).map(|flow| flow.id)
        else {
            return Ok(compared);
        };
        let remedy = remedy(&ticket.findings);
        if !ticket.state.is_open() || remedy == Remedy::People || self.was_repaired(&ticket).await? {
            return Ok(compared);
        }
        let note = match remedy {
            Remedy::Hold => self.hold(flow_id).await,
            Remedy::Ask => self.wake(flow_id).await,
            Remedy::People => return Ok(compared),
        };
        let note = match note {
            Ok(note) => note,
            Err(AdvanceError::Store(error)) => return Err(error.into()),
            Err(AdvanceError::NotFound { flow_id }) => {
                return Err(StoreError::Corrupt { flow_id: flow_id.get(), column: "id" }.into());
            }
        };
        self.note_repair(&ticket, note).await?;
        if remedy == Remedy::Ask { self.look_again(compared).await } else { Ok(compared) }
    }

    /// Whether the flow was woken or held since the differences last changed.
    async fn was_repaired(&self, ticket: &Ticket) -> Result<bool, RunError> {
        let trail = self.runner.store.ticket_trail(ticket.id, None, TRAIL_LINES).await?;
        let last = |kinds: &[TrailKind]| {
            trail.iter().rposition(|line| kinds.iter().any(|kind| kind.as_str() == line.kind))
        };
        let changed = last(&[TrailKind::Opened, TrailKind::Changed, TrailKind::Reopened]);
        Ok(last(&[TrailKind::Repair]) > changed)
    }

    fn call(&self) -> Call {
        let budget_ms = self.runner.settings.advance_budget_ms;
        Call { trigger: Trigger::Recon, trace_id: None, budget_ms }
    }

    async fn hold(&mut self, flow_id: FlowId) -> Result<String, AdvanceError> {
        let actor = &self.runner.settings.actor;
        Ok(match self.runner.advancer.hold(flow_id, actor, &self.call()).await? {
            Handled::Done(flow) => {
                self.tally.held_flows += 1;
                format!("flow {flow_id} is held in {}", flow.state)
            }
            Handled::Already(flow) => format!("flow {flow_id} was held already in {}", flow.state),
            Handled::Ended(flow) => format!("flow {flow_id} has ended in {}", flow.state),
        })
    }

    async fn wake(&mut self, flow_id: FlowId) -> Result<String, AdvanceError> {
        let advanced = self.runner.advancer.advance(flow_id, &self.call()).await?;
        self.tally.woken_flows += 1;
        let end = match advanced.end {
            End::Terminal => "ended",
            End::Held => "is held",
            End::Waiting { .. } => "waits for its next try",
            End::GateClosed { .. } => "waits for a closed gate",
            End::BudgetSpent => "goes on later",
            End::Overtaken => "is worked on elsewhere",
            End::Contradicted => "contradicts the evidence",
        };
        Ok(format!("flow {flow_id} was asked about: {} and {end}", advanced.flow.state))
    }

    async fn note_repair(&self, ticket: &Ticket, note: String) -> Result<(), RunError> {
        let next = Next {
            kind: TrailKind::Repair,
            state: ticket.state,
            findings: ticket.findings.clone(),
            assigned_to: ticket.assigned_to.clone(),
            proposal: ticket.proposal.clone(),
            confirmed_by: None,
            note: Some(note),
        };
        let write = self.ticket_write(ticket, next, TicketRecords::default(), None);
        match self.runner.store.write_ticket(&write).await {
            // A line that is not there costs one more look by a later run.
            Ok(_) | Err(StoreError::OutcomeUnknown) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The flow was asked about: the ticket is closed if the difference is gone.
    async fn look_again(&mut self, compared: Compared) -> Result<Compared, RunError> {
        let number = number_of(compared.group.order_no.as_str());
        let mut flows = self.look_up(number.into_iter()).await?;
        let local = flows.remove(compared.group.order_no.as_str());
        let mut order = self.order(&compared.group, local);
        let asked: Vec<_> = order.local.as_ref().into_iter().collect();
        let mut facts = self.facts(&asked).await?;
        if let Some(fact) = order.local.as_ref().and_then(|flow| facts.remove(&flow.id)) {
            order.fact = fact;
        }
        let settled = settle(&order, findings(&order, &self.channel.rules), &self.neighbours);
        self.put_ticket(&order, &settled.result).await?;
        Ok(Compared { group: compared.group, order, settled })
    }
}
