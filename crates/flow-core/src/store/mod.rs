//! The MySQL and MariaDB implementation of [`FlowStore`], [`Inbox`] and what reconciliation keeps (`recon`).
//!
//! Reads (`reads`, `find`) run in tasks of their own on a pool. Writes (`writes`, `batches`) are handed over to
//! committing tasks (`queue`, `committer`, `commit`), which share one commit among what has queued up. `errors` alone knows
//! error numbers, `rows` alone knows columns, `checks` and `migrate` say whether the server and the schema are such
//! that the promises hold. Nothing here decides on a payment: the meaning of a write is [`CasWrite::apply`].

mod batches;
mod checks;
mod commit;
mod committer;
mod connect;
mod errors;
mod find;
mod ids;
mod inbox;
mod lease;
mod migrate;
mod options;
mod outbox;
mod queue;
mod reads;
mod recon;
mod rows;
mod single;
mod writes;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};

pub use self::checks::{ServerRefused, Setting, Weakness};
pub use self::migrate::{MigrationError, MigrationStep, SchemaMismatch, migrate};
pub use self::options::{OptionsError, StoreOptions};

use self::connect::{Connector, DatabaseClock, Purpose};
use self::inbox::InboxTable;
use self::lease::LockConnections;
use self::queue::{Done, Write, WriteQueue};
use self::reads::Reader;
use self::recon::ReconTables;
use self::writes::{BindRow, CasRow, CreateRow};
use crate::callback::NewEvent;
use crate::cas::CasWrite;
use crate::crash::Spot;
use crate::flow::Flow;
use crate::ids::{CallerId, FlowId, IdempotencyKey, InboxId, Target, Version};
use crate::ports::{
    Bound, CasOutcome, Created, DueFlow, FlowEvent, FlowFilter, FlowPage, FlowStore, Inbox, InboxEvent,
    InboxPage, InboxSummary, InboxWrite, KeyBinding, Lookup, NewFlow, PartitionLease, Recorded, ScanPage,
    Seen, StateSummary, StoreError,
};

/// Why the store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// An option is wrong.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// The server did not answer, or not as one that can be used.
    #[error("the database could not be reached; check the URL, the account and the server")]
    Unreachable(#[source] sqlx::Error),
    /// The server is not to be trusted.
    #[error(transparent)]
    Refused(#[from] ServerRefused),
    /// The schema is not the one this program was built for.
    #[error("{0}")]
    Schema(#[from] SchemaMismatch),
}

/// Looks at a server without opening a store: its weaknesses that the operator does not insist on are an error, the
/// others are returned.
///
/// # Errors
/// [`ConnectError`].
pub async fn check_server(options: &StoreOptions) -> Result<Vec<Weakness>, ConnectError> {
    options.check()?;
    let accepted = options.accepted()?;
    let connector = Connector::new(options)?;
    let mut connection = connector.open(Purpose::Hold).await.map_err(ConnectError::Unreachable)?;
    let weak = checks::weaknesses(&mut connection).await.map_err(ConnectError::Unreachable)?;
    let (accepted, refused): (Vec<_>, Vec<_>) =
        weak.into_iter().partition(|weakness| accepted.contains(&weakness.setting));
    if refused.is_empty() { Ok(accepted) } else { Err(ServerRefused(refused).into()) }
}

/// Whether a database has exactly the schema this program was built for.
///
/// # Errors
/// [`ConnectError::Schema`] if not, another if it could not be asked.
pub async fn schema_is_current(options: &StoreOptions) -> Result<(), ConnectError> {
    let connector = Connector::new(options)?;
    let mut connection = connector.open(Purpose::Hold).await.map_err(ConnectError::Unreachable)?;
    Ok(migrate::schema_is_current(&mut connection).await.map_err(ConnectError::Unreachable)??)
}

/// The store. Dropped, it lets the writes that were handed over be carried out; [`MySqlStore::close`] waits for them.
#[derive(Debug)]
pub struct MySqlStore {
    connector: Connector,
    reader: Reader,
    queue: WriteQueue,
    clock: Arc<DatabaseClock>,
    lock_connections: LockConnections,
    inbox: InboxTable,
    recon: ReconTables,
}

impl MySqlStore {
    /// Checks options, schema and server, and starts the committing tasks. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// [`ConnectError`]: a server that breaks the promises is refused, naming every setting.
    pub async fn connect(options: StoreOptions) -> Result<MySqlStore, ConnectError> {
        options.check()?;
        schema_is_current(&options).await?;
        for weakness in check_server(&options).await? {
            tracing::warn!(%weakness, "the operator insists on a server that breaks a promise of the service");
        }
        let connector = Connector::new(&options)?;
        let clock = Arc::new(DatabaseClock::default());
        let pool = connector.read_pool(options.read_connections);
        let reader = Reader::new(pool, connector.statement_limit(), Arc::clone(&clock));
        let queue = WriteQueue::start(&options, &connector);
        let lock_connections = LockConnections::default();
        let inbox = InboxTable::new(&connector, reader.clone(), Arc::clone(&clock));
        let recon = ReconTables::new(&connector, reader.clone());
        let store = MySqlStore { connector, reader, queue, clock, lock_connections, inbox, recon };
        store
            .now()
            .await
            .map_err(|error| ConnectError::Unreachable(sqlx::Error::Configuration(error.into())))?;
        Ok(store)
    }

    /// Whether the schema is still the one this program was built for. For readiness.
    ///
    /// # Errors
    /// The outer one if the database could not be asked, the inner one if it has another schema.
    pub async fn schema_is_current(&self) -> Result<Result<(), SchemaMismatch>, StoreError> {
        self.reader.run(Spot::Ready, |connection| Box::pin(migrate::schema_is_current(connection))).await
    }

    /// Takes no more writes, waits for those under way at most so long, and closes the connections. Says whether all
    /// writes were carried out in time; the others still run until their own time limit.
    pub async fn close(&self, limit: Duration) -> bool {
        let drained = self.queue.close(limit).await;
        drop(tokio::time::timeout(limit, self.inbox.close()).await);
        drop(tokio::time::timeout(limit, self.recon.close()).await);
        drop(tokio::time::timeout(limit, self.reader.close()).await);
        drop(tokio::time::timeout(limit, self.lock_connections.close()).await);
        drained
    }
}

#[async_trait]
impl FlowStore for MySqlStore {
    async fn now(&self) -> Result<DateTime<Utc>, StoreError> {
        self.reader.now().await
    }

    async fn load(&self, flow_id: FlowId) -> Result<Seen<Option<Flow>>, StoreError> {
        self.reader.load(flow_id).await
    }

    async fn look_up(
        &self,
        caller: &CallerId,
        key: &IdempotencyKey,
        target: &Target,
    ) -> Result<Seen<Lookup>, StoreError> {
        self.reader.look_up(caller, key, target).await
    }

    async fn create(&self, new: NewFlow) -> Result<Created, StoreError> {
        match self.queue.carry_out(Write::Create(Box::new(CreateRow::of(&new)))).await? {
            Done::Written { flow_id } => {
                let id = FlowId::new(flow_id).map_err(|_| StoreError::Corrupt { flow_id, column: "id" })?;
                let now = self.clock.estimate();
                Ok(Created::Inserted(Seen { value: writes::created_flow(new, id, now), now }))
            }
            Done::KeyTaken => Ok(Created::KeyTaken),
            Done::TargetTaken => Ok(Created::TargetTaken),
            // An INSERT of one row that answers none: not known to be written.
            Done::Lost => Err(StoreError::OutcomeUnknown),
        }
    }

    async fn bind_key(&self, binding: KeyBinding) -> Result<Bound, StoreError> {
        match self.queue.carry_out(Write::Bind(Box::new(BindRow::of(&binding)))).await? {
            Done::Written { .. } => Ok(Bound::Bound),
            Done::KeyTaken => Ok(Bound::KeyTaken),
            Done::TargetTaken | Done::Lost => Err(StoreError::OutcomeUnknown),
        }
    }

    async fn cas(&self, write: CasWrite) -> Result<CasOutcome, StoreError> {
        if !write.is_legal() {
            return Err(refused(&write));
        }
        match self.queue.carry_out(Write::Cas(Box::new(CasRow::of(&write)))).await? {
            Done::Written { .. } => Ok(CasOutcome::Applied),
            Done::Lost => Ok(CasOutcome::Lost),
            Done::KeyTaken | Done::TargetTaken => Err(StoreError::OutcomeUnknown),
        }
    }

    async fn list_due_after(&self, page: ScanPage) -> Result<Vec<DueFlow>, StoreError> {
        self.reader.list_due_after(page).await
    }

    async fn try_lease(
        &self,
        partition: u32,
        partitions: u32,
    ) -> Result<Option<Box<dyn PartitionLease>>, StoreError> {
        lease::try_lease(&self.connector, &self.lock_connections, partition, partitions).await
    }

    async fn summarise_open(&self, attention_tries: u32) -> Result<Vec<StateSummary>, StoreError> {
        self.reader.summarise_open(attention_tries).await
    }

    async fn find(
        &self,
        filter: &FlowFilter,
        before_id: Option<FlowId>,
        limit_rows: u32,
    ) -> Result<FlowPage, StoreError> {
        self.reader.find(filter, before_id, limit_rows).await
    }

    async fn events(
        &self,
        flow_id: FlowId,
        after: Option<Version>,
        limit_rows: u32,
    ) -> Result<Vec<FlowEvent>, StoreError> {
        self.reader.events(flow_id, after, limit_rows).await
    }
}

#[async_trait]
impl Inbox for MySqlStore {
    async fn record(&self, event: NewEvent, claim_ms: u64) -> Result<Recorded, StoreError> {
        self.inbox.record(event, claim_ms).await
    }

    async fn list_due_events(&self, page: InboxPage) -> Result<Vec<InboxEvent>, StoreError> {
        self.inbox.list_due(page).await
    }

    async fn claim_event(
        &self,
        id: InboxId,
        version: Version,
        claim_ms: u64,
    ) -> Result<CasOutcome, StoreError> {
        self.inbox.claim(id, version, claim_ms).await
    }

    async fn settle_event(&self, write: InboxWrite) -> Result<CasOutcome, StoreError> {
        self.inbox.settle(write).await
    }

    async fn summarise_inbox(&self) -> Result<InboxSummary, StoreError> {
        self.inbox.summarise().await
    }
}

/// A write that may not be made at all is refused here, before the database's guards would refuse it.
fn refused(write: &CasWrite) -> StoreError {
    let (from, to) = (write.from, write.to());
    tracing::error!(flow_id = %write.flow_id, %from, %to, version = write.version.0, "an illegal write was refused");
    metrics::counter!("flow_refused_transitions_total", "from" => from.as_str(), "to" => to.as_str())
        .increment(1);
    StoreError::Guarded {
        message: format!("flow {}: a write from {from} to {to} is not allowed", write.flow_id),
    }
}
