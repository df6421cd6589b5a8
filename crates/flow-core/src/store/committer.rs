//! The tasks that carry out writes. Each has a connection of its own, takes what has queued up meanwhile, and commits
//! it together; a write that is alone is one autocommit statement, with nothing added and no delay.
//!
//! No write ever runs in a caller's task: a caller that gives up leaves it to be carried out. Whatever goes wrong with
//! one row of a commit, the commit is undone and the others are written without it.

use std::collections::HashMap;
use std::sync::Arc;

use sqlx::{Connection as _, MySqlConnection};
use tokio::sync::{Mutex, mpsc};

use super::batches;
use super::commit::{Batch, Kind, commit_many};
use super::connect::{Connector, IDLE_BEFORE_PING, Purpose};
use super::errors::{Failure, TakenKey, not_connected};
use super::ids::{self, IdBlocks};
use super::queue::{Answer, Done, Pending, Write};
use super::writes;
use crate::ids::FlowId;
use crate::ports::{Clock as _, StoreError, SystemClock};

/// Most attempts at one commit of many writes before they go one by one: each kind of write may fail once, and flows
/// may move on once more meanwhile.
const MAX_BATCH_ATTEMPTS: u32 = 5;
/// Most attempts at one write that meets deadlocks or a locked row.
const MAX_SINGLE_ATTEMPTS: u32 = 3;
/// Most locked rows that a committing task waits for, one after the other, before it passes on what is left.
const MAX_LOCKED_ROWS: u32 = 2;

/// How long a write may wait for its turn, in time limits of one statement. Behind locked rows, or a server that answers
/// nobody, the queue would otherwise keep a caller for many times that; what has not had its turn is surely not written.
const MAX_WAIT_LIMITS: u32 = 2;

/// A task that writes, with its connection.
pub(super) struct Committer {
    connector: Connector,
    purpose: Purpose,
    connection: Option<MySqlConnection>,
    last_used_ms: u64,
    ids: Arc<IdBlocks>,
    id_block_rows: u32,
    /// Where writes go that must go one by one; `None` in the tasks that do just that.
    redo: Option<mpsc::Sender<Pending>>,
}

impl Committer {
    /// A task's state, not connected yet.
    pub(super) fn new(
        connector: Connector,
        ids: Arc<IdBlocks>,
        id_block_rows: u32,
        redo: Option<mpsc::Sender<Pending>>,
    ) -> Committer {
        let purpose = if redo.is_some() { Purpose::Commit } else { Purpose::Redo };
        Committer { connector, purpose, connection: None, last_used_ms: 0, ids, id_block_rows, redo }
    }

    /// Works until the queue is closed and empty.
    pub(super) async fn run(mut self, queue: Arc<Mutex<mpsc::Receiver<Pending>>>, max_batch_rows: usize) {
        loop {
            let mut taken = Vec::new();
            let waiting = {
                let mut queue = queue.lock().await;
                queue.recv_many(&mut taken, max_batch_rows).await;
                queue.len()
            };
            if taken.is_empty() {
                break;
            }
            if self.redo.is_some() {
                metrics::gauge!("store_queue_rows").set(u32::try_from(waiting).unwrap_or(u32::MAX));
            }
            for wave in waves(taken) {
                self.carry_out(wave).await;
            }
        }
        if let Some(connection) = self.connection.take() {
            // Politeness alone; the server notices a closed socket as well.
            drop(tokio::time::timeout(self.connector.statement_limit(), connection.close()).await);
        }
    }

    async fn carry_out(&mut self, wave: Vec<Pending>) {
        let (late, mut wave): (Vec<_>, Vec<_>) =
            wave.into_iter().partition(|pending| self.has_waited_too_long(pending));
        answer_all(late, &waited_too_long());
        if wave.is_empty() {
            return;
        }
        let connection = match self.connected().await {
            Ok(connection) => connection,
            Err(error) => return answer_all(wave, &not_connected(&error)),
        };
        if let Some(connection) = self.identify(connection, &mut wave).await {
            self.keep(connection);
        }
        if wave.len() < 2 {
            for pending in wave {
                self.carry_out_one(pending).await;
            }
        } else {
            self.carry_out_many(wave).await;
        }
    }

    fn has_waited_too_long(&self, pending: &Pending) -> bool {
        pending.waited() > self.connector.statement_limit() * MAX_WAIT_LIMITS
    }

    /// The connection, alive as far as can be known, taken out of `self`.
    async fn connected(&mut self) -> Result<MySqlConnection, sqlx::Error> {
        if let Some(mut connection) = self.connection.take() {
            let idle_ms = SystemClock.monotonic_ms().saturating_sub(self.last_used_ms);
            if u128::from(idle_ms) < IDLE_BEFORE_PING.as_millis() {
                return Ok(connection);
            }
            if let Ok(Ok(())) =
                tokio::time::timeout(self.connector.statement_limit(), connection.ping()).await
            {
                return Ok(connection);
            }
        }
        self.connector.open(self.purpose).await
    }

    /// Keeps a connection whose last answer was complete.
    fn keep(&mut self, connection: MySqlConnection) {
        self.last_used_ms = SystemClock.monotonic_ms();
        self.connection = Some(connection);
    }

    /// Gives every creation its id. If none are to be had, the creations are answered so and leave the wave. Gives the
    /// connection back unless it is spoilt.
    async fn identify(
        &self,
        mut connection: MySqlConnection,
        wave: &mut Vec<Pending>,
    ) -> Option<MySqlConnection> {
        let mut failure: Option<Failure> = None;
        for pending in std::mem::take(wave) {
            let Some(user_id) = pending.wants_id() else {
                wave.push(pending);
                continue;
            };
            let mut id = self.ids.next();
            if id.is_none() && failure.is_none() {
                let taking = ids::take_block(&mut connection, self.id_block_rows);
                match tokio::time::timeout(self.connector.statement_limit(), taking).await {
                    Ok(Ok(block)) => {
                        self.ids.add(block);
                        id = self.ids.next();
                    }
                    Ok(Err(error)) => failure = Some(Failure::of(error)),
                    Err(_) => failure = Some(Failure::NotConnected(sqlx::Error::PoolTimedOut)),
                }
            }
            match id.and_then(|id| FlowId::new(id).ok()) {
                Some(id) => wave.push(pending.identified(user_id, id)),
                // Nothing of the flow was written, whatever became of the block.
                None => pending.answer(Err(StoreError::Unavailable { reason: "no flow ids could be taken" })),
            }
        }
        let Some(failure) = failure else { return Some(connection) };
        tracing::warn!(?failure, "no flow ids could be taken from flow_id_block");
        if failure.spoils_connection() { None } else { Some(connection) }
    }

    /// One write, one autocommit statement. One that meets a lock is passed on, or tried again where it was passed to.
    /// Says whether it met one.
    async fn carry_out_one(&mut self, pending: Pending) -> bool {
        if self.has_waited_too_long(&pending) {
            pending.answer(Err(waited_too_long()));
            return false;
        }
        let attempts = if self.redo.is_some() { 1 } else { MAX_SINGLE_ATTEMPTS };
        for _ in 0..attempts {
            if let Some(answer) = self.try_one(&pending.write).await {
                pending.answer(answer);
                return false;
            }
        }
        match &self.redo {
            Some(redo) => hand_over(redo, pending),
            None => pending.answer(Err(Failure::Contended.of_write())),
        }
        true
    }

    /// One attempt at one write; `None` if it met a deadlock or a locked row, and wrote nothing.
    async fn try_one(&mut self, write: &Write) -> Option<Answer> {
        let mut connection = match self.connected().await {
            Ok(connection) => connection,
            Err(error) => return Some(Err(not_connected(&error))),
        };
        metrics::histogram!("store_write_batch_rows").record(1);
        let writing = write_one(&mut connection, write);
        let Ok(written) = tokio::time::timeout(self.connector.statement_limit(), writing).await else {
            tracing::warn!("a write took too long; its connection is closed and its outcome unknown");
            return Some(Err(StoreError::OutcomeUnknown));
        };
        let failure = match written {
            Ok(rows) => {
                self.keep(connection);
                return Some(Ok(write.done(rows)));
            }
            Err(error) => Failure::of(error),
        };
        if !failure.spoils_connection() {
            self.keep(connection);
        }
        match failure {
            Failure::Contended => None,
            failure @ Failure::Taken(TakenKey::InboxEvent | TakenKey::Ticket) => {
                Some(Err(failure.of_write()))
            }
            Failure::Taken(TakenKey::RequestKey) => Some(Ok(Done::KeyTaken)),
            Failure::Taken(TakenKey::Target) => Some(Ok(Done::TargetTaken)),
            Failure::Taken(TakenKey::FlowId) => {
                tracing::error!("a flow id was handed out twice; is flow_id_block older than the flows?");
                self.ids.forget();
                Some(Err(StoreError::Unavailable { reason: "the flow id is in use" }))
            }
            failure @ (Failure::ConnectionLost(_)
            | Failure::NotConnected(_)
            | Failure::ReadOnly
            | Failure::Overloaded(_)
            | Failure::Refused(_)
            | Failure::Unexpected(_)) => Some(Err(failure.of_write())),
        }
    }

    /// Many writes of different flows, one commit.
    async fn carry_out_many(&mut self, mut wave: Vec<Pending>) {
        // One order for everybody: two processes that lock the same rows wait for each other, but never in a circle.
        wave.sort_by_key(|pending| pending.write.order());
        for _ in 0..MAX_BATCH_ATTEMPTS {
            if wave.len() < 2 {
                break;
            }
            let mut connection = match self.connected().await {
                Ok(connection) => connection,
                Err(error) => return answer_all(wave, &not_connected(&error)),
            };
            metrics::histogram!("store_write_batch_rows")
                .record(u32::try_from(wave.len()).unwrap_or(u32::MAX));
            let committing = commit_many(&mut connection, &wave);
            let ended = tokio::time::timeout(self.connector.statement_limit(), committing).await;
            match ended.unwrap_or(Batch::Unknown) {
                Batch::Committed => {
                    self.keep(connection);
                    return answer_written(wave);
                }
                Batch::Short => {
                    self.keep(connection);
                    wave = self.answer_lost(wave).await;
                }
                Batch::RowFailed(kind) => {
                    self.keep(connection);
                    let (apart, rest) =
                        wave.into_iter().partition(|pending| Kind::of(&pending.write) == kind);
                    self.pass_on(apart).await;
                    wave = rest;
                }
                Batch::Contended => {
                    self.keep(connection);
                    break;
                }
                Batch::Failed(failure) => {
                    if !failure.spoils_connection() {
                        self.keep(connection);
                    }
                    return answer_all(wave, &failure.of_write());
                }
                Batch::Unknown => {
                    tracing::warn!(
                        rows = wave.len(),
                        "a commit was not confirmed; the outcome of its writes is unknown"
                    );
                    return answer_all(wave, &StoreError::OutcomeUnknown);
                }
            }
        }
        self.one_by_one(wave).await;
    }

    /// Answers the compare-and-swaps whose row has moved on, and gives back the rest.
    async fn answer_lost(&mut self, wave: Vec<Pending>) -> Vec<Pending> {
        let Ok(mut connection) = self.connected().await else { return wave };
        let rows: Vec<_> = wave.iter().filter_map(|pending| pending.write.as_cas()).collect();
        let looking = batches::moved_on(&mut connection, &rows);
        let Ok(Ok(moved_on)) = tokio::time::timeout(self.connector.statement_limit(), looking).await else {
            return wave;
        };
        self.keep(connection);
        let mut rest = Vec::with_capacity(wave.len());
        for pending in wave {
            if pending.write.as_cas().is_some_and(|row| moved_on.contains(&row.id)) {
                pending.answer(Ok(Done::Lost));
            } else {
                rest.push(pending);
            }
        }
        rest
    }

    /// Writes one after the other, each a statement of its own; after a few locked rows the rest goes elsewhere.
    async fn one_by_one(&mut self, wave: Vec<Pending>) {
        let mut locked_rows = 0;
        let mut wave = wave.into_iter();
        for pending in wave.by_ref() {
            locked_rows += u32::from(self.carry_out_one(pending).await);
            if locked_rows == MAX_LOCKED_ROWS {
                break;
            }
        }
        self.pass_on(wave.collect()).await;
    }

    /// Leaves writes to the tasks that do them one by one, so that they hold up nobody here.
    async fn pass_on(&mut self, wave: Vec<Pending>) {
        for pending in wave {
            match &self.redo {
                Some(redo) => hand_over(redo, pending),
                None => drop(self.carry_out_one(pending).await),
            }
        }
    }
}

fn hand_over(redo: &mpsc::Sender<Pending>, pending: Pending) {
    if let Err(refused) = redo.try_send(pending) {
        let (mpsc::error::TrySendError::Full(pending) | mpsc::error::TrySendError::Closed(pending)) = refused;
        pending.answer(Err(StoreError::Unavailable { reason: "too many writes wait for locked rows" }));
    }
}

fn waited_too_long() -> StoreError {
    StoreError::Unavailable { reason: "the write waited too long for its turn" }
}

fn answer_written(wave: Vec<Pending>) {
    for pending in wave {
        let done = pending.write.done(1);
        pending.answer(Ok(done));
    }
}

fn answer_all(wave: Vec<Pending>, answer: &StoreError) {
    for pending in wave {
        pending.answer(Err(repeated(answer)));
    }
}

/// The same error for another caller of the same commit; the driver's own error is in the log.
fn repeated(error: &StoreError) -> StoreError {
    match error {
        StoreError::Unavailable { reason } => StoreError::Unavailable { reason },
        StoreError::OutcomeUnknown => StoreError::OutcomeUnknown,
        StoreError::Guarded { message } => StoreError::Guarded { message: message.clone() },
        StoreError::Corrupt { flow_id, column } => StoreError::Corrupt { flow_id: *flow_id, column },
        StoreError::Unexpected(error) => StoreError::Unexpected(error.to_string().into()),
    }
}

/// Splits what was taken so that no wave writes one flow twice: the second write expects what the first has made.
fn waves(taken: Vec<Pending>) -> Vec<Vec<Pending>> {
    let mut waves: Vec<Vec<Pending>> = vec![Vec::with_capacity(taken.len())];
    let mut writes_so_far: HashMap<i64, usize> = HashMap::new();
    for pending in taken {
        let wave = match pending.write.as_cas() {
            Some(row) => {
                let count = writes_so_far.entry(row.id).or_insert(0);
                *count += 1;
                *count - 1
            }
            None => 0,
        };
        if wave == waves.len() {
            waves.push(Vec::new());
        }
        waves[wave].push(pending);
    }
    waves
}

async fn write_one(connection: &mut MySqlConnection, write: &Write) -> Result<u64, sqlx::Error> {
    match write {
        Write::Create(row) => writes::create_one(connection, row).await,
        Write::Bind(row) => writes::bind_one(connection, row).await,
        Write::Cas(row) => writes::cas_status(connection, row).await,
    }
}
