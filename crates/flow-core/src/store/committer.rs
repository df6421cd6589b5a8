//! The tasks that carry out writes. Each has a connection of its own, takes what has queued up meanwhile, and commits
//! it together; a write that is alone is one autocommit statement, with nothing added and no delay.
//!
//! No write ever runs in a caller's task: a caller that gives up leaves it to be carried out.

use std::sync::Arc;

use sqlx::{Connection as _, Executor as _, MySqlConnection};
use tokio::sync::{Mutex, mpsc};

use super::batches;
use super::connect::{Connector, IDLE_BEFORE_PING, Purpose};
use super::errors::{Failure, TakenKey, not_connected};
use super::ids::{self, IdBlocks};
use super::queue::{Done, Pending, Write};
use super::writes;
use crate::ids::FlowId;
use crate::ports::{Clock as _, StoreError, SystemClock};

/// Most attempts at one commit of many writes before they go one by one.
const MAX_BATCH_ATTEMPTS: u32 = 3;
/// Most attempts at one write that meets deadlocks or locked rows.
const MAX_SINGLE_ATTEMPTS: u32 = 4;

/// A task that writes, with its connection.
pub(super) struct Committer {
    connector: Connector,
    purpose: Purpose,
    connection: Option<MySqlConnection>,
    last_used_ms: u64,
    ids: Arc<IdBlocks>,
    id_block_rows: u32,
    /// Where writes go that must go one by one; `None` in the task that does just that.
    redo: Option<mpsc::Sender<Pending>>,
}

/// How a commit of many ended.
enum Batch {
    /// All are written.
    Committed,
    /// Nothing is written: some flow has moved on.
    Short,
    /// Nothing is written: this kind of write failed, on account of one of its rows.
    RowFailed(Kind),
    /// Nothing is written: locks.
    Contended,
    /// Perhaps written, perhaps not, or not possible at all; every write gets this for an answer.
    Failed(Failure),
    /// Perhaps written: the time limit, or a COMMIT that was not confirmed. The connection is not used again.
    Unknown,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Create,
    Bind,
    Cas,
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
        let connection = match self.connected().await {
            Ok(connection) => connection,
            Err(error) => {
                let mut first = Some(not_connected(&error));
                for pending in wave {
                    let again = StoreError::Unavailable { reason: "no connection" };
                    pending.answer(Err(first.take().unwrap_or(again)));
                }
                return;
            }
        };
        let mut wave = wave;
        if let Some(connection) = self.identify(connection, &mut wave).await {
            self.keep(connection);
        }
        if self.redo.is_none() || wave.len() < 2 {
            for pending in wave {
                self.carry_out_one(pending).await;
            }
        } else {
            self.carry_out_many(wave).await;
        }
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

    /// Gives every creation its id. If none are to be had, the creations are answered so and leave the wave.
    async fn identify(
        &self,
        mut connection: MySqlConnection,
        wave: &mut Vec<Pending>,
    ) -> Option<MySqlConnection> {
        let mut failure: Option<Failure> = None;
        let mut unusable = false;
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
                    Err(_) => failure = Some(Failure::Overloaded("taking flow ids took too long")),
                }
                unusable = match &failure {
                    Some(Failure::Overloaded(_)) => true,
                    Some(failure) => failure.spoils_connection(),
                    None => false,
                };
            }
            match id.and_then(|id| FlowId::new(id).ok()) {
                Some(id) => wave.push(pending.identified(user_id, id)),
                // Nothing of the flow was written, whatever became of the block.
                None => pending.answer(Err(StoreError::Unavailable { reason: "no flow ids could be taken" })),
            }
        }
        if let Some(failure) = failure {
            tracing::warn!(?failure, "no flow ids could be taken from flow_id_block");
        }
        if unusable { None } else { Some(connection) }
    }

    /// One write, one autocommit statement.
    async fn carry_out_one(&mut self, pending: Pending) {
        for attempt in 1..=MAX_SINGLE_ATTEMPTS {
            let mut connection = match self.connected().await {
                Ok(connection) => connection,
                Err(error) => return pending.answer(Err(not_connected(&error))),
            };
            metrics::histogram!("store_write_batch_rows").record(1);
            let writing = write_one(&mut connection, &pending.write);
            let Ok(written) = tokio::time::timeout(self.connector.statement_limit(), writing).await else {
                tracing::warn!("a write took too long; its connection is closed and its outcome unknown");
                return pending.answer(Err(StoreError::OutcomeUnknown));
            };
            let failure = match written {
                Ok(rows) => {
                    self.keep(connection);
                    return pending.written(rows);
                }
                Err(error) => Failure::of(error),
            };
            if !failure.spoils_connection() {
                self.keep(connection);
            }
            match failure {
                Failure::Contended => {
                    if let Some(redo) = &self.redo {
                        return hand_over(redo, pending);
                    }
                    tracing::info!(attempt, "a write met a deadlock or a locked row");
                }
                Failure::Taken(TakenKey::RequestKey) => return pending.answer(Ok(Done::KeyTaken)),
                Failure::Taken(TakenKey::Target) => return pending.answer(Ok(Done::TargetTaken)),
                Failure::Taken(TakenKey::FlowId) => {
                    tracing::error!("a flow id was handed out twice; is flow_id_block older than the flows?");
                    self.ids.forget();
                    return pending.answer(Err(StoreError::Unavailable { reason: "the flow id is in use" }));
                }
                failure @ (Failure::ConnectionLost(_)
                | Failure::NotConnected(_)
                | Failure::ReadOnly
                | Failure::Overloaded(_)
                | Failure::Refused(_)
                | Failure::Unexpected(_)) => return pending.answer(Err(failure.of_write())),
            }
        }
        pending.answer(Err(Failure::Contended.of_write()));
    }

    /// Many writes of different flows, one commit.
    async fn carry_out_many(&mut self, mut wave: Vec<Pending>) {
        // One order for everybody: two processes that lock the same rows wait for each other, but never in a circle.
        wave.sort_by_key(|pending| pending.write.order());
        for _ in 0..MAX_BATCH_ATTEMPTS {
            if wave.len() < 2 {
                break;
            }
            let Ok(mut connection) = self.connected().await else { break };
            metrics::histogram!("store_write_batch_rows").record(u32::try_from(wave.len()).unwrap_or(u32::MAX));
            let committing = commit_many(&mut connection, &wave);
            let ended = match tokio::time::timeout(self.connector.statement_limit(), committing).await {
                Ok(ended) => ended,
                Err(_) => Batch::Unknown,
            };
            match ended {
                Batch::Committed => {
                    self.keep(connection);
                    return wave.into_iter().for_each(|pending| pending.written(1));
                }
                Batch::Short => {
                    self.keep(connection);
                    wave = self.answer_lost(wave).await;
                }
                Batch::RowFailed(kind) => {
                    self.keep(connection);
                    let (apart, rest): (Vec<_>, Vec<_>) =
                        wave.into_iter().partition(|pending| kind_of(&pending.write) == kind);
                    self.one_by_one(apart).await;
                    wave = rest;
                }
                Batch::Contended => {
                    self.keep(connection);
                    return self.one_by_one(wave).await;
                }
                Batch::Failed(failure) => {
                    if !failure.spoils_connection() {
                        self.keep(connection);
                    }
                    let answer = failure.of_write();
                    return answer_all(wave, &answer);
                }
                Batch::Unknown => {
                    tracing::warn!(rows = wave.len(), "a commit was not confirmed; the outcome of its writes is unknown");
                    return answer_all(wave, &StoreError::OutcomeUnknown);
                }
            }
        }
        if wave.len() < 2 {
            for pending in wave {
                self.carry_out_one(pending).await;
            }
        } else {
            self.one_by_one(wave).await;
        }
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
        let (lost, rest): (Vec<_>, Vec<_>) = wave
            .into_iter()
            .partition(|pending| pending.write.as_cas().is_some_and(|row| moved_on.contains(&row.id)));
        for pending in lost {
            pending.answer(Ok(Done::Lost));
        }
        rest
    }

    /// Passes writes to the task that does them one by one, so that they hold up nobody here.
    async fn one_by_one(&mut self, wave: Vec<Pending>) {
        for pending in wave {
            match &self.redo {
                Some(redo) => hand_over(redo, pending),
                None => self.carry_out_one(pending).await,
            }
        }
    }

    fn keep(&mut self, connection: MySqlConnection) {
        self.last_used_ms = SystemClock.monotonic_ms();
        self.connection = Some(connection);
    }
}

fn hand_over(redo: &mpsc::Sender<Pending>, pending: Pending) {
    if let Err(refused) = redo.try_send(pending) {
        let (mpsc::error::TrySendError::Full(pending) | mpsc::error::TrySendError::Closed(pending)) = refused;
        pending.answer(Err(StoreError::Unavailable { reason: "too many writes wait for locked rows" }));
    }
}

fn answer_all(wave: Vec<Pending>, answer: &StoreError) {
    for pending in wave {
        pending.answer(Err(repeated(answer)));
    }
}

/// The same error for another caller of the same commit. An error of the driver is told to the log only once.
fn repeated(error: &StoreError) -> StoreError {
    match error {
        StoreError::Unavailable { reason } => StoreError::Unavailable { reason },
        StoreError::OutcomeUnknown => StoreError::OutcomeUnknown,
        StoreError::Guarded { message } => StoreError::Guarded { message: message.clone() },
        StoreError::Corrupt { flow_id, column } => StoreError::Corrupt { flow_id: *flow_id, column },
        StoreError::Unexpected(error) => StoreError::Unexpected(error.to_string().into()),
    }
}

const fn kind_of(write: &Write) -> Kind {
    match write {
        Write::Create(_) => Kind::Create,
        Write::Bind(_) => Kind::Bind,
        Write::Cas(_) => Kind::Cas,
    }
}

/// Splits what was taken so that no wave writes one flow twice: the second write expects what the first has made.
fn waves(taken: Vec<Pending>) -> Vec<Vec<Pending>> {
    let mut waves: Vec<Vec<Pending>> = vec![Vec::with_capacity(taken.len())];
    let mut seen: std::collections::HashMap<i64, usize> = std::collections::HashMap::new();
    for pending in taken {
        let index = match pending.write.as_cas() {
            Some(row) => {
                let next = seen.entry(row.id).or_insert(0);
                *next += 1;
                *next - 1
            }
            None => 0,
        };
        if index == waves.len() {
            waves.push(Vec::new());
        }
        waves[index].push(pending);
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

/// Inserts alone are one statement, all or nothing by itself; anything with a compare-and-swap is a transaction, since
/// one that falls short must be undone.
async fn commit_many(connection: &mut MySqlConnection, wave: &[Pending]) -> Batch {
    let creates: Vec<_> = wave.iter().filter_map(|pending| pending.write.as_create()).collect();
    let binds: Vec<_> = wave.iter().filter_map(|pending| pending.write.as_bind()).collect();
    let swaps: Vec<_> = wave.iter().filter_map(|pending| pending.write.as_cas()).collect();
    let alone = swaps.is_empty() && (creates.is_empty() || binds.is_empty());
    if !alone && let Err(error) = connection.execute("BEGIN").await {
        return Batch::Failed(Failure::of(error));
    }
    let mut ended = Batch::Committed;
    if !swaps.is_empty() {
        ended = judged(batches::cas_many(connection, &swaps).await, swaps.len(), Kind::Cas);
    }
    if matches!(ended, Batch::Committed) && !creates.is_empty() {
        ended = judged(batches::create_many(connection, &creates).await, creates.len(), Kind::Create);
    }
    if matches!(ended, Batch::Committed) && !binds.is_empty() {
        ended = judged(batches::bind_many(connection, &binds).await, binds.len(), Kind::Bind);
    }
    if alone {
        return ended;
    }
    let end = match &ended {
        Batch::Committed => "COMMIT",
        Batch::Short | Batch::RowFailed(_) | Batch::Contended => "ROLLBACK",
        Batch::Failed(failure) if !failure.spoils_connection() => "ROLLBACK",
        // The transaction dies with the connection.
        Batch::Failed(_) | Batch::Unknown => return ended,
    };
    match connection.execute(end).await {
        Ok(_) => ended,
        Err(error) => match Failure::of(error) {
            Failure::Contended => Batch::Contended,
            failure @ (Failure::ConnectionLost(_)
            | Failure::NotConnected(_)
            | Failure::ReadOnly
            | Failure::Overloaded(_)
            | Failure::Taken(_)
            | Failure::Refused(_)
            | Failure::Unexpected(_)) => {
                tracing::error!(?failure, statement = end, "a transaction could not be ended");
                Batch::Unknown
            }
        },
    }
}

/// What the answer to a statement of many rows means for the commit.
fn judged(answer: Result<u64, sqlx::Error>, wanted: usize, kind: Kind) -> Batch {
    match answer.map_err(Failure::of) {
        Ok(rows) if usize::try_from(rows) == Ok(wanted) => Batch::Committed,
        Ok(_) => Batch::Short,
        Err(Failure::Taken(_) | Failure::Refused(_) | Failure::Unexpected(_)) => Batch::RowFailed(kind),
        Err(Failure::Contended) => Batch::Contended,
        Err(
            failure @ (Failure::ConnectionLost(_)
            | Failure::NotConnected(_)
            | Failure::ReadOnly
            | Failure::Overloaded(_)),
        ) => Batch::Failed(failure),
    }
}
