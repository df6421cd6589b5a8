//! What every handler shares, and the waiting for a flow that several of them do.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::extract::FromRef;
use flow_adapters::callback::Channel;
use flow_core::callback::Callbacks;
use flow_core::flow::Flow;
use flow_core::ids::{Actor, ChannelName, FlowId, TicketId};
use flow_core::notify::EventId;
use flow_core::ports::{
    CasOutcome, Clock, FlowStore, Outbox, OutboxFilter, OutboxRow, ReconStore, StoreError, TicketFilter,
    TicketRecords, TicketWrite,
};
use flow_core::recon::{Ticket, TicketAction, by_person};
use pay_runtime::http::Readiness;
use pay_runtime::wire::Ready;
use tokio_util::sync::CancellationToken;

use crate::auth::{Caller, KeyRing, WallClock};
use crate::problem::{Code, Problem};
use crate::scenes::Scenes;
use crate::settings::Settings;
use crate::view::rests;
use crate::work::{Changes, Work};

/// How often a ticket that others write, too, is tried.
const MAX_TICKET_TRIES: u32 = 8;

/// Whether this process can serve: the database answers and its schema is the one that the process was built for.
#[async_trait]
pub trait ReadyCheck: Send + Sync {
    /// Looks, within bounds of its own.
    async fn check(&self) -> Readiness;
}

#[async_trait]
impl ReadyCheck for Ready {
    async fn check(&self) -> Readiness {
        self.clone().check().await
    }
}

/// What the machinery around the process asks for.
#[derive(Clone)]
pub struct Ops {
    /// For `/readyz`.
    pub ready: Arc<dyn ReadyCheck>,
    /// For `/metrics`: every metric as Prometheus text.
    pub metrics_text: Arc<dyn Fn() -> String + Send + Sync>,
}

impl FromRef<Arc<Api>> for Ops {
    fn from_ref(api: &Arc<Api>) -> Ops {
        api.ops.clone()
    }
}

/// The parts of the API, put together by the binary or by a test.
pub struct Api {
    /// The one shared truth.
    pub store: Arc<dyn FlowStore>,
    /// What applications are still to be told.
    pub outbox: Arc<dyn Outbox>,
    /// What reconciliation found.
    pub recon: Arc<dyn ReconStore>,
    /// Work that outlives its request.
    pub work: Work,
    /// Who waits for what.
    pub changes: Arc<Changes>,
    /// Who may call.
    pub keys: KeyRing,
    /// What may be paid for.
    pub scenes: Scenes,
    /// Who may send callbacks.
    pub channels: BTreeMap<ChannelName, Channel>,
    /// Where they are kept, and worked on.
    pub callbacks: Arc<Callbacks>,
    /// Bounds.
    pub settings: Settings,
    /// What keys expire by.
    pub wall_clock: Arc<dyn WallClock>,
    /// What latencies are measured by.
    pub clock: Arc<dyn Clock>,
    /// For the machinery around the process.
    pub ops: Ops,
    /// Fires when the process is told to stop: waiting clients are answered at once.
    pub stopping: CancellationToken,
}

impl Api {
    /// Reads a flow that the caller may see.
    ///
    /// # Errors
    /// 404 for no such flow and for another application's; 503 without a database.
    pub async fn flow_of(&self, flow_id: FlowId, caller: &Caller) -> Result<Flow, Problem> {
        let flow = self.store.load(flow_id).await?.value;
        flow.filter(|flow| caller.sees_only().is_none_or(|own| flow.caller == *own))
            .ok_or_else(|| Problem::no_such_flow().about(flow_id))
    }

    /// Reads a notification.
    ///
    /// # Errors
    /// 404 for none; 503 without a database.
    pub async fn notification(&self, id: EventId) -> Result<OutboxRow, Problem> {
        let filter = OutboxFilter { id: Some(id), ..OutboxFilter::default() };
        let found = self.outbox.find_notifications(&filter, None, 1).await?;
        found.rows.into_iter().next().ok_or_else(Problem::no_such_notification)
    }

    /// Reads a ticket.
    ///
    /// # Errors
    /// 404 for none; 503 without a database.
    pub async fn ticket(&self, id: TicketId) -> Result<Ticket, Problem> {
        let filter = TicketFilter { id: Some(id), ..TicketFilter::default() };
        let found = self.recon.find_tickets(&filter, None, 1).await?;
        found.tickets.into_iter().next().ok_or_else(Problem::no_such_ticket)
    }

    /// Does what a person wants with a ticket, and reads it again. A write that others came before is decided anew.
    ///
    /// # Errors
    /// 404 for none; 409 for what may not be done; 503 without a database.
    pub async fn act_on_ticket(
        &self,
        id: TicketId,
        action: TicketAction,
        actor: &Actor,
    ) -> Result<Ticket, Problem> {
        for _ in 0..MAX_TICKET_TRIES {
            let ticket = self.ticket(id).await?;
            let next = by_person(&ticket, action.clone(), actor)?;
            let (kind, state) = (next.kind, next.state);
            let write = TicketWrite {
                id,
                version: ticket.version,
                next,
                flow_id: None,
                records: TicketRecords::default(),
                actor: actor.clone(),
            };
            if self.recon.write_ticket(&write).await? == CasOutcome::Applied {
                tracing::info!(ticket_id = %id, %actor, change = kind.as_str(), state = state.as_str(), "ticket changed by hand");
                return self.ticket(id).await;
            }
        }
        Err(Problem::new(Code::Contended, "others kept changing the ticket; nothing was changed; try again")
            .retry_after(1))
    }

    /// The wait that a client gets, given the one it asks for, in milliseconds.
    pub fn granted_wait_ms(&self, asked_ms: Option<u64>, default_ms: u64) -> u64 {
        asked_ms.unwrap_or(default_ms).min(self.settings.max_wait_ms)
    }

    /// Waits until `enough` accepts the flow, for at most `wait_ms`; gives the flow as last read. A client that finds
    /// no place among the waiters is not kept waiting, and neither is anybody once the process is stopping.
    ///
    /// # Errors
    /// The store failed while looking.
    pub async fn wait_for(
        &self,
        mut flow: Flow,
        wait_ms: u64,
        enough: impl Fn(&Flow) -> bool,
    ) -> Result<Flow, StoreError> {
        if wait_ms == 0 || enough(&flow) {
            return Ok(flow);
        }
        let Some(watch) = self.changes.watch(flow.id) else { return Ok(flow) };
        let mut end = pin!(tokio::time::sleep(Duration::from_millis(wait_ms)));
        let mut look_again_ms = self.settings.wait_poll_ms.max(1);
        loop {
            // Listening before looking: a change between the two is not missed.
            let mut change = pin!(watch.next_change());
            change.as_mut().enable();
            if let Some(read) = self.store.load(flow.id).await?.value {
                flow = read;
            }
            if enough(&flow) {
                return Ok(flow);
            }
            tokio::select! {
                biased;
                () = self.stopping.cancelled() => return Ok(flow),
                () = &mut end => return Ok(flow),
                () = change => {}
                () = tokio::time::sleep(Duration::from_millis(look_again_ms)) => {
                    look_again_ms = (look_again_ms * 2).min(self.settings.wait_poll_ms.max(1) * 8);
                }
            }
        }
    }

    /// Waits for a flow to rest: first for the advance that this process has under way, then for whoever carries it on.
    /// Gives the flow as last known; a database that goes away meanwhile is no reason to withhold it.
    pub async fn wait_for_rest(
        &self,
        flow: Flow,
        advance: impl Future<Output = Option<Flow>>,
        wait_ms: u64,
    ) -> Flow {
        let started_ms = self.clock.monotonic_ms();
        let ended = tokio::select! {
            ended = advance => ended,
            () = tokio::time::sleep(Duration::from_millis(wait_ms)) => return flow,
            () = self.stopping.cancelled() => return flow,
        };
        let flow = ended.unwrap_or(flow);
        let spent_ms = self.clock.monotonic_ms().saturating_sub(started_ms);
        self.wait_for(flow.clone(), wait_ms.saturating_sub(spent_ms), rests).await.unwrap_or(flow)
    }
}
