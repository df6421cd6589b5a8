//! One run over one part of one day: claimed, the bill read to its end and our flows beside it, every order compared, tickets
//! written, and the batch said to be what it is.
//!
//! Nothing is compared before the bill was read as a whole: one that does not pass its gate leaves no ticket. A run that dies leaves a claim that
//! runs out; the next one does the same work and finds the tickets that are there.

mod claim;
mod compare;
mod facts;
mod intake;
mod repair;
mod report;
mod ticket;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use chrono::{NaiveDate, TimeDelta};
use flow_bills::{BillError, BillSink, BillSummary};
use flow_core::advance::Advancer;
use flow_core::ids::{Actor, ChannelName, DownstreamName};
use flow_core::ports::{BatchBill, ClaimPart, FlowStore, PartClaimed, PartEnd, ReconStore, StoreError};
use flow_core::recon::{BatchState, Day, Partition, Tally};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub use report::{NoProgress, Phase, Progress, QuarantinedLine, RunReport};

use crate::calendar::Calendar;
use crate::group::{Group, Groups};
use crate::midnight::Neighbours;
use crate::order::Rules;
use claim::Claim;
use intake::Intake;

/// Orders that are compared together, less than twice as many: one look at the database for all of them.
const CHUNK_ORDERS: usize = 256;
/// Chunks that wait to be compared.
const CHUNKS_AHEAD: usize = 2;

/// A channel, as it is compared.
#[derive(Debug, Clone)]
pub struct Channel {
    /// Its name, which tickets and batches carry.
    pub name: ChannelName,
    /// The wallet whose flows its bill is about.
    pub wallet: DownstreamName,
    /// Its business days.
    pub calendar: Calendar,
    /// What is compared.
    pub rules: Rules,
    /// How close to midnight an entry waits for the neighbouring day, in milliseconds.
    pub near_midnight_ms: u64,
}

/// How runs go about it.
#[derive(Debug, Clone)]
pub struct RunSettings {
    /// How long a claim lasts unless it is kept.
    pub claim_ms: u64,
    /// Flows read at once.
    pub page_rows: u32,
    /// Most business records read at once.
    pub max_parallel_facts: usize,
    /// Orders whose business record may stay unread before the run gives up.
    pub max_unreadable_facts: u64,
    /// Largest buffer of the sort.
    pub sort_buffer_bytes: usize,
    /// Where the sort makes its files.
    pub folder: PathBuf,
    /// Time budget of a flow that is woken.
    pub advance_budget_ms: u64,
    /// Who signs what is written.
    pub actor: Actor,
}

/// Reads a whole bill into a sink and gives the verdict.
pub type ReadBill = Box<dyn FnOnce(&mut dyn BillSink) -> Result<BillSummary, BillError> + Send>;

/// A bill to compare with.
pub struct Bill {
    /// Where it came from, for people.
    pub source: String,
    /// Reads it.
    pub read: ReadBill,
}

/// What a run is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Task {
    /// The business day.
    pub day: NaiveDate,
    /// Which orders.
    pub partition: Partition,
    /// Nothing is claimed, written, woken or held: it is only said what would be.
    pub is_dry: bool,
}

/// Why a run did not come to its end. Nothing of a payment was changed by it; what tickets were written stand.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Another process works on it.
    #[error("another process compares this day; nothing was done; wait for it, or for its claim to run out")]
    Running,
    /// Other processes work on it, split otherwise.
    #[error("the day is being compared in {parts} parts; nothing was done; use as many, or wait for them")]
    SplitOtherwise {
        /// In how many.
        parts: u32,
    },
    /// The date has no day.
    #[error("{day} is no day of the calendar; nothing was done")]
    NoDay {
        /// The date.
        day: NaiveDate,
    },
    /// The bill did not pass its gate.
    #[error("the bill is not used, no ticket was written: {0}")]
    Bill(#[from] BillError),
    /// The channel has no bill for the day, and we have something.
    #[error(
        "the channel says that nothing happened on the day, and there are {local_rows} payments here; no ticket was \
         written; ask the channel for the bill again"
    )]
    NothingHappened {
        /// How many.
        local_rows: u64,
    },
    /// Records could not be spilled or read back.
    #[error("the day's records could not be sorted on disk; check its space; run the day again")]
    Spill(#[from] io::Error),
    /// The database failed.
    #[error("{0}; what was not compared was left; run the day again")]
    Store(#[from] StoreError),
    /// The claim ran out, and somebody else took it.
    #[error("the claim on the day ran out and another process took it; that one goes on")]
    ClaimLost,
    /// The business system does not answer.
    #[error("the business system left {orders} orders unanswered; run the day again when it answers")]
    FactsUnreadable {
        /// How many, at least.
        orders: u64,
    },
    /// Told to stop.
    #[error("told to stop; what was not compared was left; run the day again")]
    Stopped,
}

/// Runs days.
pub struct Runner {
    store: Arc<dyn ReconStore>,
    clock: Arc<dyn FlowStore>,
    advancer: Arc<Advancer>,
    settings: RunSettings,
}

/// What holds for one run.
struct Run<'a> {
    runner: &'a Runner,
    channel: &'a Channel,
    task: Task,
    day: Day,
    neighbours: Neighbours,
    progress: &'a dyn Progress,
    tally: Tally,
}

impl Runner {
    /// Puts the parts together.
    pub fn new(
        store: Arc<dyn ReconStore>,
        clock: Arc<dyn FlowStore>,
        advancer: Arc<Advancer>,
        settings: RunSettings,
    ) -> Runner {
        Runner { store, clock, advancer, settings }
    }

    /// Runs one part of one day to its end, and writes what it came to.
    ///
    /// # Errors
    /// [`RunError`]; unless the part was not ours to work on, it counts as failed from then on, with the reason.
    pub async fn run(
        &self,
        channel: &Channel,
        task: Task,
        bill: Bill,
        progress: &dyn Progress,
        stop: &CancellationToken,
    ) -> Result<RunReport, RunError> {
        let day = channel.calendar.day(task.day).ok_or(RunError::NoDay { day: task.day })?;
        let claim = if task.is_dry { None } else { Some(self.claim(channel, task).await?) };
        let lost = claim.as_ref().map(Claim::lost).unwrap_or_default();
        let neighbours = self.neighbours(channel, day).await;
        let outcome = match neighbours {
            Ok(neighbours) => {
                let tally = Tally::default();
                let run = Run { runner: self, channel, task, day, neighbours, progress, tally };
                run.go(bill, stop, &lost).await
            }
            Err(error) => Err(error),
        };
        let Some(claim) = claim else { return outcome };
        let end = match &outcome {
            Ok(report) => PartEnd::Done { tally: report.tally.clone(), bill: report.bill.clone() },
            Err(RunError::ClaimLost) => return outcome,
            Err(error) => PartEnd::Failed { reason: error.to_string() },
        };
        let batch = claim.end(&*self.store, &end).await?;
        outcome.map(|report| RunReport { batch: Some(batch), ..report })
    }

    async fn claim(&self, channel: &Channel, task: Task) -> Result<Claim, RunError> {
        let claim_ms = self.settings.claim_ms;
        let want =
            ClaimPart { channel: channel.name.clone(), day: task.day, partition: task.partition, claim_ms };
        match self.store.claim_part(&want).await? {
            PartClaimed::Granted(granted) => Ok(Claim::keep(Arc::clone(&self.store), granted, claim_ms)),
            PartClaimed::Running => Err(RunError::Running),
            PartClaimed::SplitOtherwise { parts } => Err(RunError::SplitOtherwise { parts }),
        }
    }

    async fn neighbours(&self, channel: &Channel, day: Day) -> Result<Neighbours, RunError> {
        let is_done = async |date: Option<NaiveDate>| match date {
            Some(date) => {
                let batch = self.store.batch(&channel.name, date).await?;
                Ok::<bool, StoreError>(batch.is_some_and(|batch| batch.state == BatchState::Done))
            }
            None => Ok(false),
        };
        let within_ms = i64::try_from(channel.near_midnight_ms).unwrap_or(i64::MAX);
        Ok(Neighbours {
            calendar: channel.calendar,
            within: TimeDelta::try_milliseconds(within_ms).unwrap_or(TimeDelta::MAX),
            before_is_done: is_done(day.date.pred_opt()).await?,
            after_is_done: is_done(day.date.succ_opt()).await?,
        })
    }
}

impl Run<'_> {
    async fn go(
        mut self,
        bill: Bill,
        stop: &CancellationToken,
        lost: &CancellationToken,
    ) -> Result<RunReport, RunError> {
        self.progress.phase(Phase::Reading);
        // A bill that does not pass its gate ends the run before anything is compared.
        let (taken, flows) = tokio::try_join!(intake::bill(&self, bill), self.flows(stop, lost))?;
        self.tally = taken.tally;
        let intake = taken.intake.join(flows).await?;
        if taken.nothing_happened && intake.due_rows > 0 {
            return Err(RunError::NothingHappened { local_rows: intake.due_rows });
        }
        let intake = self.kept(intake).await?;
        self.progress.phase(Phase::Orders { records: intake.sorter.records() });
        let mut chunks = groups(intake);
        while let Some(chunk) = full_chunk(&mut chunks).await {
            check(stop, lost)?;
            self.chunk(chunk?).await?;
        }
        check(stop, lost)?;
        Ok(RunReport { batch: None, tally: self.tally, bill: taken.bill, quarantined: taken.quarantined })
    }
}

fn check(stop: &CancellationToken, lost: &CancellationToken) -> Result<(), RunError> {
    if lost.is_cancelled() {
        return Err(RunError::ClaimLost);
    }
    if stop.is_cancelled() { Err(RunError::Stopped) } else { Ok(()) }
}

type Chunk = Result<Vec<Group>, io::Error>;

/// Merges in threads of their own, a few chunks ahead. Orders come in no order that means anything.
fn groups(intake: Intake) -> mpsc::Receiver<Chunk> {
    let (sender, receiver) = mpsc::channel(CHUNKS_AHEAD);
    tokio::task::spawn_blocking(move || match intake.sorter.finish() {
        Ok(lanes) => {
            for merge in lanes {
                let sender = sender.clone();
                tokio::task::spawn_blocking(move || cut(Groups::over(merge), &sender));
            }
        }
        // Nobody listens any more where the run has ended otherwise.
        Err(error) => drop(sender.blocking_send(Err(error))),
    });
    receiver
}

/// Joins what lanes send, so that a small day is one chunk: what is wrong with all of its orders is seen before anything is
/// written of one.
async fn full_chunk(chunks: &mut mpsc::Receiver<Chunk>) -> Option<Chunk> {
    let mut orders = Vec::new();
    while orders.len() < CHUNK_ORDERS {
        match chunks.recv().await {
            Some(Ok(more)) => orders.extend(more),
            Some(Err(error)) => return Some(Err(error)),
            None => break,
        }
    }
    (!orders.is_empty()).then_some(Ok(orders))
}

/// Sends one lane's orders by chunks, until its end, an error, or until nobody listens.
fn cut(mut groups: Groups, sender: &mpsc::Sender<Chunk>) {
    loop {
        let mut chunk = Vec::with_capacity(CHUNK_ORDERS);
        let ended = loop {
            match groups.next_group() {
                Ok(Some(group)) => chunk.push(group),
                Ok(None) => break Some(Ok(())),
                Err(error) => break Some(Err(error)),
            }
            if chunk.len() >= CHUNK_ORDERS {
                break None;
            }
        };
        if !chunk.is_empty() && sender.blocking_send(Ok(chunk)).is_err() {
            return;
        }
        match ended {
            None => {}
            Some(Ok(())) => return,
            Some(Err(error)) => return drop(sender.blocking_send(Err(error))),
        }
    }
}

/// What is kept of a bill that passed its gate.
struct TakenBill {
    intake: Intake,
    tally: Tally,
    bill: BatchBill,
    quarantined: Vec<QuarantinedLine>,
    /// The channel said that there is no bill, since nothing happened.
    nothing_happened: bool,
}
