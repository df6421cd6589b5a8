//! Work that outlives its request: creating, cancelling, advancing. It runs in tasks of its own, so that a client that
//! hangs up stops nothing half way; how much of it is under way is bounded, and at the end of the process it is
//! drained for a bounded time. Whatever remains is the scanner's.

mod changes;
mod timer;

use std::sync::Arc;

use flow_core::advance::{AdvanceError, Advanced, Advancer, Call, Cancelled, Handled};
use flow_core::callback::Callbacks;
use flow_core::create::{CreateError, PaymentRequest, Taken, create};
use flow_core::entrance;
use flow_core::flow::{Flow, Trigger};
use flow_core::ids::{Actor, FlowId, TraceId};
use flow_core::ports::{EntryLock, FlowStore, InboxEvent, Seen};
use metrics::gauge;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio_util::task::TaskTracker;

pub use changes::{Changes, Watch};
pub use timer::TimedAdvance;

/// Most events worked on at once: they share the database's connections with payments.
const MAX_PARALLEL_CALLBACKS: usize = 32;

/// This process carries as much work as it may; nothing was begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("as many requests as this process carries at once are under way; nothing was recorded; try again")]
pub struct Busy;

/// The task ended without an answer: a defect, which the panic hook has logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the work ended without an answer; what it recorded is carried on")]
pub struct Vanished;

/// A piece of work under way: first its answer, later the flow as the advance that follows left it.
#[derive(Debug)]
pub struct Started<T> {
    answer: oneshot::Receiver<T>,
    rest: oneshot::Receiver<Flow>,
}

impl<T> Started<T> {
    /// Waits for the answer. Dropping this stops nothing.
    ///
    /// # Errors
    /// [`Vanished`].
    pub async fn answer(&mut self) -> Result<T, Vanished> {
        (&mut self.answer).await.map_err(|_| Vanished)
    }

    /// Waits for the end of the advance that follows; `None` if it failed. Dropping this stops nothing.
    pub async fn rest(self) -> Option<Flow> {
        self.rest.await.ok()
    }
}

/// Starts work and keeps track of it.
pub struct Work {
    store: Arc<dyn FlowStore>,
    advancer: Arc<Advancer>,
    changes: Arc<Changes>,
    entry_lock: Arc<dyn EntryLock>,
    tasks: TaskTracker,
    places: Arc<Semaphore>,
    /// Callbacks can come in floods, and the scanner finds what is not begun here: payments go first.
    callback_places: Arc<Semaphore>,
    callback_turns: Arc<Semaphore>,
    budget_ms: u64,
}

impl Work {
    /// At most `max_in_flight` pieces of work at once, each advance within `budget_ms`.
    pub fn new(
        store: Arc<dyn FlowStore>,
        advancer: Arc<Advancer>,
        changes: Arc<Changes>,
        entry_lock: Arc<dyn EntryLock>,
        max_in_flight: usize,
        budget_ms: u64,
    ) -> Work {
        let places = Arc::new(Semaphore::new(max_in_flight.min(Semaphore::MAX_PERMITS)));
        let callback_places = Arc::new(Semaphore::new((max_in_flight / 4).clamp(1, Semaphore::MAX_PERMITS)));
        let callback_turns = Arc::new(Semaphore::new(MAX_PARALLEL_CALLBACKS));
        let tasks = TaskTracker::new();
        Work {
            store,
            advancer,
            changes,
            entry_lock,
            tasks,
            places,
            callback_places,
            callback_turns,
            budget_ms,
        }
    }

    /// Takes a payment request and, if it makes a new flow, advances it; behind whoever is at it for the same target, if
    /// there is an entry lock, but not for longer than `entry_wait_ms`.
    ///
    /// # Errors
    /// [`Busy`].
    pub fn pay(
        &self,
        request: PaymentRequest,
        entry_wait_ms: u64,
    ) -> Result<Started<Result<Taken, CreateError>>, Busy> {
        let (store, advance) =
            (Arc::clone(&self.store), self.advance_after(Trigger::Sync, request.trace_id.clone()));
        let lock = Arc::clone(&self.entry_lock);
        self.start(move |answer, rest| async move {
            let ticket = entrance::enter(&*lock, &request.target, entry_wait_ms).await;
            let taken = create(&*store, &request).await;
            let created = match &taken {
                Ok(Taken::Created(seen)) => Some(seen.clone()),
                Ok(Taken::Replayed(_) | Taken::Joined(_)) | Err(_) => None,
            };
            // Nobody listens any more if the client has hung up; the work goes on.
            let _ = answer.send(taken);
            if let Some(seen) = created {
                advance.seen(seen, rest).await;
            }
            entrance::leave(&*lock, ticket).await;
        })
    }

    /// Records a wish to cancel and, if it is new, advances the flow.
    ///
    /// # Errors
    /// [`Busy`].
    pub fn cancel(
        &self,
        flow_id: FlowId,
        by: Actor,
        call: Call,
    ) -> Result<Started<Result<Cancelled, AdvanceError>>, Busy> {
        let (advancer, advance) =
            (Arc::clone(&self.advancer), self.advance_after(call.trigger, call.trace_id.clone()));
        self.start(move |answer, rest| async move {
            let cancelled = advancer.request_cancel(flow_id, &by, &call).await;
            let recorded = matches!(cancelled, Ok(Cancelled::Recorded(_)));
            let _ = answer.send(cancelled);
            if recorded {
                advance.id(flow_id, rest).await;
            }
        })
    }

    /// Freezes a flow.
    ///
    /// # Errors
    /// [`Busy`].
    pub fn hold(
        &self,
        flow_id: FlowId,
        by: Actor,
        call: Call,
    ) -> Result<Started<Result<Handled, AdvanceError>>, Busy> {
        let (advancer, changes) = (Arc::clone(&self.advancer), Arc::clone(&self.changes));
        self.start(move |answer, _| async move {
            let held = advancer.hold(flow_id, &by, &call).await;
            changes.announce(flow_id);
            let _ = answer.send(held);
        })
    }

    /// Lifts a freeze and advances the flow.
    ///
    /// # Errors
    /// [`Busy`].
    pub fn release(
        &self,
        flow_id: FlowId,
        by: Actor,
        call: Call,
    ) -> Result<Started<Result<Handled, AdvanceError>>, Busy> {
        let (advancer, advance) =
            (Arc::clone(&self.advancer), self.advance_after(call.trigger, call.trace_id.clone()));
        self.start(move |answer, rest| async move {
            let released = advancer.release(flow_id, &by, &call).await;
            let done = matches!(released, Ok(Handled::Done(_)));
            let _ = answer.send(released);
            if done {
                advance.id(flow_id, rest).await;
            }
        })
    }

    /// Advances a flow.
    ///
    /// # Errors
    /// [`Busy`].
    pub fn advance(
        &self,
        flow_id: FlowId,
        call: Call,
    ) -> Result<Started<Result<Advanced, AdvanceError>>, Busy> {
        let (advancer, changes) = (Arc::clone(&self.advancer), Arc::clone(&self.changes));
        self.start(move |answer, _| async move {
            let advanced = advancer.advance(flow_id, &call).await;
            changes.announce(flow_id);
            let _ = answer.send(advanced);
        })
    }

    /// Works on an event that was just kept, and tells those who wait for its flow.
    ///
    /// # Errors
    /// [`Busy`]: the event is the scanner's.
    pub fn callback(&self, callbacks: &Arc<Callbacks>, event: InboxEvent) -> Result<Started<()>, Busy> {
        let place = Arc::clone(&self.callback_places).try_acquire_owned().map_err(|_| Busy)?;
        let turns = Arc::clone(&self.callback_turns);
        let (callbacks, changes) = (Arc::clone(callbacks), Arc::clone(&self.changes));
        self.start(move |_, _| async move {
            let turn = turns.acquire_owned().await;
            let (inbox_id, flow) = (event.id, event.key.order_no.parts());
            let received_at = event.received_at;
            if let Err(error) = callbacks.work(event, received_at).await {
                tracing::warn!(
                    %inbox_id, retryable = error.retryable(), error = &error as &dyn std::error::Error,
                    "a callback could not be worked on; the scanner will find it",
                );
            }
            drop((turn, place));
            if let Some((_, flow_id)) = flow {
                changes.announce(flow_id);
            }
        })
    }

    /// A call of this trigger with the configured budget.
    pub fn call(&self, trigger: Trigger, trace_id: TraceId) -> Call {
        Call { trigger, trace_id: Some(trace_id), budget_ms: self.budget_ms }
    }

    /// Waits until nothing is under way. New work may still be started by requests that are being drained.
    pub async fn drained(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Pieces of work under way.
    pub fn under_way(&self) -> usize {
        self.tasks.len()
    }

    fn start<T, F>(
        &self,
        work: impl FnOnce(oneshot::Sender<T>, oneshot::Sender<Flow>) -> F,
    ) -> Result<Started<T>, Busy>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let place = Place::take(&self.places)?;
        let (answer_to, answer) = oneshot::channel();
        let (rest_to, rest) = oneshot::channel();
        let work = work(answer_to, rest_to);
        self.tasks.spawn(async move {
            work.await;
            drop(place);
        });
        Ok(Started { answer, rest })
    }

    fn advance_after(&self, trigger: Trigger, trace_id: Option<TraceId>) -> AdvanceAfter {
        AdvanceAfter {
            advancer: Arc::clone(&self.advancer),
            changes: Arc::clone(&self.changes),
            call: Call { trigger, trace_id, budget_ms: self.budget_ms },
        }
    }
}

/// The right to be under way.
struct Place(#[expect(dead_code, reason = "held for its drop")] OwnedSemaphorePermit);

impl Place {
    fn take(places: &Arc<Semaphore>) -> Result<Place, Busy> {
        let permit = Arc::clone(places).try_acquire_owned().map_err(|_| Busy)?;
        gauge!("api_work_in_flight").increment(1);
        Ok(Place(permit))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        gauge!("api_work_in_flight").decrement(1);
    }
}

/// The advance that follows an answer.
struct AdvanceAfter {
    advancer: Arc<Advancer>,
    changes: Arc<Changes>,
    call: Call,
}

impl AdvanceAfter {
    async fn seen(self, seen: Seen<Flow>, rest: oneshot::Sender<Flow>) {
        let flow_id = seen.value.id;
        let advanced = self.advancer.advance_seen(seen, &self.call).await;
        self.tell(flow_id, advanced, rest);
    }

    async fn id(self, flow_id: FlowId, rest: oneshot::Sender<Flow>) {
        let advanced = self.advancer.advance(flow_id, &self.call).await;
        self.tell(flow_id, advanced, rest);
    }

    fn tell(&self, flow_id: FlowId, advanced: Result<Advanced, AdvanceError>, rest: oneshot::Sender<Flow>) {
        match advanced {
            Ok(advanced) => {
                let _ = rest.send(advanced.flow);
            }
            Err(error) => tracing::warn!(
                %flow_id, trigger = self.call.trigger.as_str(), retryable = error.retryable(),
                error = &error as &dyn std::error::Error, "advance failed; the scanner will find the flow",
            ),
        }
        self.changes.announce(flow_id);
    }
}
