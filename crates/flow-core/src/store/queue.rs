//! The write queue: callers hand a write over and await its own outcome.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::committer::Committer;
use super::connect::Connector;
use super::ids::IdBlocks;
use super::options::StoreOptions;
use super::writes::{BindRow, CasRow, CreateRow};
use crate::ids::{FlowId, UserId};
use crate::ports::{Clock as _, StoreError, SystemClock};

/// One write, flat.
#[derive(Debug)]
pub(super) enum Write {
    /// A flow with its key.
    Create(Box<CreateRow>),
    /// A further key.
    Bind(Box<BindRow>),
    /// A compare-and-swap.
    Cas(Box<CasRow>),
}

impl Write {
    pub(super) fn as_create(&self) -> Option<&CreateRow> {
        match self {
            Write::Create(row) => Some(row),
            Write::Bind(_) | Write::Cas(_) => None,
        }
    }

    pub(super) fn as_bind(&self) -> Option<&BindRow> {
        match self {
            Write::Bind(row) => Some(row),
            Write::Create(_) | Write::Cas(_) => None,
        }
    }

    pub(super) fn as_cas(&self) -> Option<&CasRow> {
        match self {
            Write::Cas(row) => Some(row),
            Write::Create(_) | Write::Bind(_) => None,
        }
    }

    /// Where the write stands in a commit: by the flow it concerns.
    pub(super) fn order(&self) -> i64 {
        match self {
            Write::Create(row) => row.id,
            Write::Bind(row) => row.flow_id,
            Write::Cas(row) => row.id,
        }
    }

    /// What it means that the server found so many rows as expected.
    pub(super) fn done(&self, rows: u64) -> Done {
        if rows == 0 { Done::Lost } else { Done::Written { flow_id: self.order() } }
    }

    const fn kind(&self) -> &'static str {
        match self {
            Write::Create(_) => "create",
            Write::Bind(_) => "bind_key",
            Write::Cas(_) => "cas",
        }
    }
}

/// What became of a write that the database has answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Done {
    /// Written and committed; for a creation, under this id.
    Written {
        /// The flow concerned.
        flow_id: i64,
    },
    /// The row was not as expected; nothing was written.
    Lost,
    /// The request key is taken; nothing was written.
    KeyTaken,
    /// The target is taken; nothing was written.
    TargetTaken,
}

/// What the caller gets.
pub(super) type Answer = Result<Done, StoreError>;

/// A write that waits, or is being carried out. Dropped unanswered (a panic), it tells its caller that the outcome is
/// unknown.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) write: Write,
    /// When it was handed over, by the monotonic clock.
    since_ms: u64,
    answer: oneshot::Sender<Answer>,
}

impl Pending {
    /// For how long it has been waiting for its turn.
    pub(super) fn waited(&self) -> Duration {
        Duration::from_millis(SystemClock.monotonic_ms().saturating_sub(self.since_ms))
    }

    /// Tells the caller. A caller that has gone does not matter.
    pub(super) fn answer(self, answer: Answer) {
        let outcome = match &answer {
            Ok(Done::Written { .. }) => "written",
            Ok(Done::Lost) => "lost",
            Ok(Done::KeyTaken) => "key_taken",
            Ok(Done::TargetTaken) => "target_taken",
            Err(StoreError::Unavailable { .. }) => "unavailable",
            Err(StoreError::OutcomeUnknown) => "unknown",
            Err(StoreError::Guarded { .. }) => "guarded",
            Err(StoreError::Corrupt { .. } | StoreError::Unexpected(_)) => "failed",
        };
        metrics::counter!("store_writes_total", "kind" => self.write.kind(), "outcome" => outcome)
            .increment(1);
        drop(self.answer.send(answer));
    }

    /// For a creation without an id: its user.
    pub(super) fn wants_id(&self) -> Option<UserId> {
        self.write.as_create().filter(|row| row.id == 0).and_then(|row| UserId::new(row.user_id).ok())
    }

    /// A creation with its id.
    pub(super) fn identified(mut self, user_id: UserId, id: FlowId) -> Pending {
        match &mut self.write {
            Write::Create(row) => row.identify(user_id, id),
            Write::Bind(_) | Write::Cas(_) => {}
        }
        self
    }
}

/// Tasks for writes that must go one by one: a locked row holds up one of them.
const REDO_TASKS: u32 = 2;

/// The queue's entrance, and the tasks behind it.
#[derive(Debug)]
pub(super) struct WriteQueue {
    entrance: Mutex<Option<mpsc::Sender<Pending>>>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl WriteQueue {
    /// Starts the committing tasks, and those for writes that must go one by one.
    pub(super) fn start(options: &StoreOptions, connector: &Connector) -> WriteQueue {
        let ids = Arc::new(IdBlocks::default());
        let (entrance, queue) = mpsc::channel(options.queue_rows);
        let (redo, redo_queue) = mpsc::channel(options.queue_rows);
        let queue = Arc::new(tokio::sync::Mutex::new(queue));
        let redo_queue = Arc::new(tokio::sync::Mutex::new(redo_queue));
        let new = {
            let (connector, ids, rows) = (connector.clone(), Arc::clone(&ids), options.id_block_rows);
            move |redo| Committer::new(connector.clone(), Arc::clone(&ids), rows, redo)
        };
        let mut tasks = Vec::new();
        for _ in 0..options.committers {
            let (new, redo) = (new.clone(), redo.clone());
            tasks.push(supervise(move || new(Some(redo.clone())), queue.clone(), options.max_batch_rows));
        }
        drop(redo);
        for _ in 0..REDO_TASKS {
            let new = new.clone();
            tasks.push(supervise(move || new(None), redo_queue.clone(), 1));
        }
        WriteQueue { entrance: Mutex::new(Some(entrance)), tasks: Mutex::new(tasks) }
    }

    /// Hands a write over and awaits its outcome. Dropping the future does not take the write back.
    pub(super) async fn carry_out(&self, write: Write) -> Answer {
        let (answer, outcome) = oneshot::channel();
        self.hand_over(Pending { write, since_ms: SystemClock.monotonic_ms(), answer })?;
        // An unanswered sender means that the task panicked with the write in its hands.
        outcome.await.unwrap_or(Err(StoreError::OutcomeUnknown))
    }

    fn hand_over(&self, pending: Pending) -> Result<(), StoreError> {
        let entrance = self.entrance.lock().unwrap_or_else(PoisonError::into_inner);
        let reason = match entrance.as_ref().map(|entrance| (entrance, entrance.try_send(pending))) {
            Some((entrance, Ok(()))) => {
                // Here too, and not only where writes are taken: a queue grows while nobody takes any.
                let waiting = entrance.max_capacity() - entrance.capacity();
                metrics::gauge!("store_queue_rows").set(u32::try_from(waiting).unwrap_or(u32::MAX));
                return Ok(());
            }
            Some((_, Err(mpsc::error::TrySendError::Full(_)))) => "too many writes wait",
            Some((_, Err(mpsc::error::TrySendError::Closed(_)))) | None => "the store is closed",
        };
        Err(StoreError::Unavailable { reason })
    }

    /// Refuses new writes, and waits until those that were handed over are done, at most so long. Says whether they
    /// are; what is not stays with its task.
    pub(super) async fn close(&self, limit: Duration) -> bool {
        self.entrance.lock().unwrap_or_else(PoisonError::into_inner).take();
        let tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        let draining = async {
            for task in tasks {
                // A supervisor does not panic; a runtime that is shutting down has nothing to drain.
                drop(task.await);
            }
        };
        tokio::time::timeout(limit, draining).await.is_ok()
    }
}

/// Runs a committer, and another in its place if it panics. The queue outlives both.
fn supervise(
    new: impl Fn() -> Committer + Send + 'static,
    queue: Arc<tokio::sync::Mutex<mpsc::Receiver<Pending>>>,
    max_batch_rows: usize,
) -> JoinHandle<()> {
    tokio::spawn(async move {
        while let Err(ended) = tokio::spawn(new().run(Arc::clone(&queue), max_batch_rows)).await {
            if !ended.is_panic() {
                break;
            }
            tracing::error!(
                "a committer panicked; its writes are answered as unknown; another takes its place"
            );
        }
    })
}
