//! From configuration to the parts that a binary works with: store, downstream systems, advancer, timer or broker.
//!
//! Order at start: configuration checked → database reached → schema the one this program was built for → server one
//! that keeps the promises. While the database is away or its schema is not migrated yet, the process waits, live and
//! not ready: restarting it would not help. A server that must not be trusted with money ends it.

mod database;
mod flows;
mod notify;
mod ready;
mod wake;

use std::sync::Arc;
use std::time::Duration;

use flow_adapters::broker::BrokerError;
use flow_config::{CallbacksConfig, Config};
use flow_core::advance::Advancer;
use flow_core::callback::{CallbackSettings, Callbacks};
use flow_core::ports::{Clock, FlowStore, Inbox, Outbox, ReconStore, StoreError, SystemClock, SystemJitter};
use flow_core::store::MySqlStore;
use tokio_util::sync::CancellationToken;

pub use database::{DatabaseError, Insisted};
pub use flows::DownstreamError;
pub use notify::{ReceiverError, receivers};
pub use ready::Ready;
pub use wake::{WakeChoice, WakeDriver};

use crate::shutdown::Exit;

/// What to do while the database cannot be used yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// Try again, with growing pauses, until it can or until told to stop.
    Forever,
    /// Give up.
    OneTry,
}

/// The parts of a process.
pub struct Parts {
    /// The one shared truth.
    pub store: Arc<dyn FlowStore>,
    /// What channels have said.
    pub inbox: Arc<dyn Inbox>,
    /// What applications are still to be told.
    pub outbox: Arc<dyn Outbox>,
    /// What reconciliation keeps.
    pub recon: Arc<dyn ReconStore>,
    /// The only writer of states.
    pub advancer: Arc<Advancer>,
    /// The clock that both of them use.
    pub clock: Arc<dyn Clock>,
    /// What carries wake-ups out; must be run.
    pub wake: WakeDriver,
    mysql: Arc<MySqlStore>,
}

/// Why a process cannot be put together.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// A client could not be made.
    #[error(transparent)]
    Downstream(#[from] DownstreamError),
    /// A client for an application could not be made.
    #[error(transparent)]
    Receiver(#[from] ReceiverError),
    /// A client of the broker could not be made.
    #[error("[broker] is not usable; nothing was started")]
    Broker(#[from] BrokerError),
    /// The database does not take who is to be told.
    #[error("the applications of [notifications] could not be written to the database; nothing was started")]
    Callers(#[source] StoreError),
    /// The database cannot be used.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// Told to stop while waiting for the database.
    #[error("told to stop before the database could be used; nothing was done")]
    Stopped,
}

impl WireError {
    /// How the process is to end.
    pub const fn exit(&self) -> Exit {
        match self {
            WireError::Downstream(_) | WireError::Receiver(_) | WireError::Broker(_) => Exit::BadConfig,
            WireError::Callers(_) => Exit::Failed,
            WireError::Database(error) => error.exit(),
            WireError::Stopped => Exit::Done,
        }
    }
}

/// Puts the parts together. From the moment this returns, `ready` answers by looking at the database.
///
/// # Errors
/// [`WireError`].
pub async fn wire(
    config: &Config,
    wake: WakeChoice,
    patience: Patience,
    ready: &Ready,
    stop: &CancellationToken,
) -> Result<Parts, WireError> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let downstreams = flows::downstreams(config, Arc::clone(&clock))?;
    // Before the wait for the database: a broker that is away must not hold up anything, and connects meanwhile.
    let (wake, driver) = wake::wake(config, wake).await?;
    let mysql = Arc::new(database::connect(&config.database, patience, ready, stop).await?);
    let outbox: Arc<dyn Outbox> = mysql.clone();
    notify::name_callers(&*outbox, &config.notifications, patience, ready, stop).await?;
    ready.look_at(Arc::clone(&mysql));

    let store: Arc<dyn FlowStore> = mysql.clone();
    let advancer = Advancer::new(
        Arc::clone(&store),
        downstreams,
        wake,
        Arc::clone(&clock),
        Arc::new(SystemJitter),
        flows::advance_settings(&config.advance),
    );
    let inbox: Arc<dyn Inbox> = mysql.clone();
    let recon: Arc<dyn ReconStore> = mysql.clone();
    Ok(Parts { store, inbox, outbox, recon, advancer: Arc::new(advancer), clock, wake: driver, mysql })
}

impl Parts {
    /// What takes callbacks and works on them, each advance within `budget_ms`.
    pub fn callbacks(&self, config: &CallbacksConfig, budget_ms: u64) -> Callbacks {
        let settings = CallbackSettings {
            claim_ms: config.claim_ms,
            retry: config.retry.clone(),
            give_up_after_ms: config.give_up_after_ms,
            budget_ms,
        };
        Callbacks::new(
            Arc::clone(&self.inbox),
            Arc::clone(&self.store),
            Arc::clone(&self.advancer),
            Arc::new(SystemJitter),
            settings,
        )
    }

    /// Lets the writes that were handed over be carried out, for at most so long, and closes the connections. The last
    /// thing a process does.
    pub async fn close(&self, limit_ms: u64) {
        if !self.mysql.close(Duration::from_millis(limit_ms)).await {
            tracing::warn!(
                limit_ms,
                "not every write was carried out in time; the scanner finds what remains"
            );
        }
    }
}
