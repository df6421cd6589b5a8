//! The flow store in memory: the same answers and the same guards as the database, by the same conformance suite.
//!
//! Time comes from a [`ManualClock`], ids count up from 1. Calls can be made to fail by script, in both ways that a
//! database can: surely nothing written, or perhaps written.

mod lease;
mod outbox;
mod table;

use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use flow_core::flow::Flow;
use flow_core::ids::{CallerId, FlowId, IdempotencyKey, Target, Version};
use flow_core::ports::{
    Bound, CasOutcome, CasWrite, Created, DueFlow, FlowEvent, FlowFilter, FlowPage, FlowStore, KeyBinding,
    Lookup, NewFlow, OutboxRow, PartitionLease, ScanPage, Seen, StateSummary, StoreError,
};

use crate::clock::ManualClock;
use crate::mutants::Subject;
use crate::script::Script;
use lease::Leases;
use table::Table;

/// A method of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StoreOp {
    /// [`FlowStore::now`].
    Now,
    /// [`FlowStore::load`].
    Load,
    /// [`FlowStore::look_up`].
    LookUp,
    /// [`FlowStore::create`].
    Create,
    /// [`FlowStore::bind_key`].
    BindKey,
    /// [`FlowStore::cas`].
    Cas,
    /// [`FlowStore::list_due_after`].
    ListDue,
    /// [`FlowStore::try_lease`].
    TryLease,
    /// [`FlowStore::summarise_open`].
    SummariseOpen,
    /// [`FlowStore::find`].
    Find,
    /// [`FlowStore::events`].
    Events,
    /// Any method of [`flow_core::ports::Outbox`].
    Outbox,
}

/// How a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreFault {
    /// Surely nothing was written.
    Unavailable,
    /// The connection broke under the call. A read answers [`StoreError::Unavailable`].
    OutcomeUnknown {
        /// Whether the write was carried out.
        happened: bool,
    },
}

/// The store. Clones are connections to the same data.
#[derive(Debug, Clone)]
pub struct MemStore {
    table: Arc<Mutex<Table>>,
    leases: Leases,
    script: Arc<Script<StoreOp, StoreFault>>,
    clock: ManualClock,
}

impl MemStore {
    /// An empty store whose database has this clock.
    pub fn new(clock: ManualClock) -> MemStore {
        MemStore { table: Arc::default(), leases: Leases::default(), script: Arc::default(), clock }
    }

    /// The database's clock.
    pub fn clock(&self) -> &ManualClock {
        &self.clock
    }

    /// What goes wrong, and hooks that run before a call: see [`Script`].
    pub fn script(&self) -> &Script<StoreOp, StoreFault> {
        &self.script
    }

    /// Fails the next call of this kind.
    pub fn fail_next(&self, op: StoreOp, fault: StoreFault) {
        self.script.push(op, [Some(fault)]);
    }

    /// Runs this right before the next call of this kind takes effect: the way to lose a race on purpose.
    pub fn before_next(&self, op: StoreOp, hook: impl FnOnce(&MemStore) + Send + 'static) {
        let store = self.clone();
        self.script.before_next(op, move || hook(&store));
    }

    /// Runs this right after the next call of this kind took effect, before its answer is heard.
    pub fn after_next(&self, op: StoreOp, hook: impl FnOnce(&MemStore) + Send + 'static) {
        let store = self.clone();
        self.script.after_next(op, move || hook(&store));
    }

    /// How many calls of this kind there were.
    pub fn calls(&self, op: StoreOp) -> u64 {
        self.script.count(op)
    }

    /// A row, past all scripts.
    pub fn flow(&self, flow_id: FlowId) -> Option<Flow> {
        self.lock().load(flow_id)
    }

    /// Every row, by id.
    pub fn flows(&self) -> Vec<Flow> {
        self.lock().flows()
    }

    /// The whole audit log, by flow and version.
    pub fn all_events(&self) -> Vec<FlowEvent> {
        self.lock().all_events()
    }

    /// The audit log of one flow, past all scripts.
    pub fn events_of(&self, flow_id: FlowId) -> Vec<FlowEvent> {
        self.lock().events(flow_id, None, u32::MAX)
    }

    /// The outbox, newest flow first, past all scripts.
    pub fn outbox_rows(&self) -> Vec<OutboxRow> {
        self.lock().outbox.rows()
    }

    /// When the first row is due that is neither terminal nor held, past all scripts.
    pub fn next_due(&self) -> Option<DateTime<Utc>> {
        self.lock().next_due()
    }

    /// Gives the database the faults of this subject: see [`crate::mutants`].
    pub fn set_subject(&self, subject: Subject) {
        self.lock().set_subject(subject);
    }

    /// Creates at once, past all scripts.
    pub fn create_now(&self, new: NewFlow) -> Created {
        let now = self.clock.now();
        self.lock().create(new, now)
    }

    /// Writes at once, past all scripts.
    ///
    /// # Errors
    /// [`StoreError::Guarded`] for an illegal write.
    pub fn cas_now(&self, write: &CasWrite) -> Result<CasOutcome, StoreError> {
        let now = self.clock.now();
        self.lock().cas(write, now)
    }

    /// A by-hand `UPDATE`: audited and guarded like every other writer, but compared with nothing.
    ///
    /// # Errors
    /// [`StoreError::Guarded`] when a guard refuses it.
    pub fn write_by_hand(&self, flow_id: FlowId, edit: impl FnOnce(&mut Flow)) -> Result<(), StoreError> {
        let now = self.clock.now();
        self.lock().write_by_hand(flow_id, edit, now)
    }

    /// Puts a row as it is, past guards, audit and outbox: to lay out the end of a history, or to spoil a row that was
    /// written properly.
    pub fn put_as_is(&self, flow: Flow) {
        self.lock().put_as_is(flow);
    }

    /// Breaks the connection of every lease holder.
    pub fn break_leases(&self) {
        self.leases.break_all();
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().expect("no holder of this lock panics")
    }

    /// A read: nothing to be unsure about.
    async fn read<T>(&self, op: StoreOp, read: impl FnOnce(&Table) -> T) -> Result<T, StoreError> {
        let result = match self.script.enter(op) {
            None => Ok(read(&self.lock())),
            Some(StoreFault::Unavailable | StoreFault::OutcomeUnknown { happened: true | false }) => {
                Err(unavailable())
            }
        };
        self.script.leave(op);
        tokio::task::yield_now().await;
        result
    }

    /// A write: carried out on the first poll, so that a caller who goes away no longer changes it.
    async fn write<T>(
        &self,
        op: StoreOp,
        write: impl FnOnce(&mut Table, DateTime<Utc>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let fault = self.script.enter(op);
        let now = self.clock.now();
        let result = match fault {
            None => write(&mut self.lock(), now),
            Some(StoreFault::Unavailable) => Err(unavailable()),
            Some(StoreFault::OutcomeUnknown { happened: false }) => Err(StoreError::OutcomeUnknown),
            Some(StoreFault::OutcomeUnknown { happened: true }) => {
                // Whatever the database said to it, nobody heard it.
                drop(write(&mut self.lock(), now));
                Err(StoreError::OutcomeUnknown)
            }
        };
        self.script.leave(op);
        tokio::task::yield_now().await;
        result
    }
}

const fn unavailable() -> StoreError {
    StoreError::Unavailable { reason: "scripted" }
}

#[async_trait]
impl FlowStore for MemStore {
    async fn now(&self) -> Result<DateTime<Utc>, StoreError> {
        self.read(StoreOp::Now, |_| self.clock.now()).await
    }

    async fn load(&self, flow_id: FlowId) -> Result<Seen<Option<Flow>>, StoreError> {
        self.read(StoreOp::Load, |table| Seen { value: table.load(flow_id), now: self.clock.now() }).await
    }

    async fn look_up(
        &self,
        caller: &CallerId,
        key: &IdempotencyKey,
        target: &Target,
    ) -> Result<Seen<Lookup>, StoreError> {
        let read = |table: &Table| Seen { value: table.look_up(caller, key, target), now: self.clock.now() };
        self.read(StoreOp::LookUp, read).await
    }

    async fn create(&self, new: NewFlow) -> Result<Created, StoreError> {
        self.write(StoreOp::Create, |table, now| Ok(table.create(new, now))).await
    }

    async fn bind_key(&self, binding: KeyBinding) -> Result<Bound, StoreError> {
        self.write(StoreOp::BindKey, |table, _| table.bind_key(binding)).await
    }

    async fn cas(&self, write: CasWrite) -> Result<CasOutcome, StoreError> {
        self.write(StoreOp::Cas, |table, now| table.cas(&write, now)).await
    }

    async fn list_due_after(&self, page: ScanPage) -> Result<Vec<DueFlow>, StoreError> {
        self.read(StoreOp::ListDue, |table| table.list_due_after(&page)).await
    }

    async fn try_lease(
        &self,
        partition: u32,
        partitions: u32,
    ) -> Result<Option<Box<dyn PartitionLease>>, StoreError> {
        self.read(StoreOp::TryLease, |_| self.leases.try_take(partition, partitions)).await
    }

    async fn summarise_open(&self, attention_tries: u32) -> Result<Vec<StateSummary>, StoreError> {
        self.read(StoreOp::SummariseOpen, |table| table.summarise_open(attention_tries, self.clock.now()))
            .await
    }

    async fn find(
        &self,
        filter: &FlowFilter,
        before_id: Option<FlowId>,
        limit_rows: u32,
    ) -> Result<FlowPage, StoreError> {
        self.read(StoreOp::Find, |table| table.find(filter, before_id, limit_rows, self.clock.now())).await
    }

    async fn events(
        &self,
        flow_id: FlowId,
        after: Option<Version>,
        limit_rows: u32,
    ) -> Result<Vec<FlowEvent>, StoreError> {
        self.read(StoreOp::Events, |table| table.events(flow_id, after, limit_rows)).await
    }
}
