//! Guarded single statements that write: each in a task of its own that no caller cancels, on a few connections of its own,
//! which are made when the first of them is needed. For tables that do not lie on a payment's hot path.

use std::time::Duration;

use sqlx::MySqlConnection;
use sqlx::mysql::MySqlPool;

use super::connect::{Connector, Purpose};
use super::errors::{Failure, not_connected};
use super::reads::Reading;
use crate::crash::{Spot, around};
use crate::ports::StoreError;

/// How often a statement is tried that met a lock.
const MAX_ATTEMPTS: u32 = 5;

/// Makes such writes.
#[derive(Debug, Clone)]
pub(super) struct SingleWrites {
    pool: MySqlPool,
    limit: Duration,
}

/// Why a write was not made, or may not have been.
#[derive(Debug)]
pub(super) enum NotWritten {
    /// The server said so, or the connection was lost.
    Failed(Failure),
    /// Anything else, told as it is.
    Other(StoreError),
}

impl NotWritten {
    /// What the caller of the write is told.
    pub(super) fn into_store_error(self) -> StoreError {
        match self {
            NotWritten::Failed(failure) => failure.of_write(),
            NotWritten::Other(error) => error,
        }
    }
}

impl SingleWrites {
    pub(super) fn new(connector: &Connector, connections: u32) -> SingleWrites {
        let pool = connector.pool(Purpose::Redo, connections);
        SingleWrites { pool, limit: connector.statement_limit() }
    }

    /// Closes the pool; writes under way finish first.
    pub(super) async fn close(&self) {
        self.pool.close().await;
    }

    /// Makes one write, between the crash points of its spot. One that met a lock did nothing, and is made again.
    pub(super) async fn run<T, W>(&self, spot: Spot, write: W) -> Result<T, NotWritten>
    where
        T: Send + 'static,
        W: for<'c> Fn(&'c mut MySqlConnection) -> Reading<'c, T> + Send + Sync + 'static,
    {
        let (pool, limit) = (self.pool.clone(), self.limit);
        let task = tokio::spawn(async move {
            let mut attempts = 1;
            loop {
                match attempt(&pool, limit, spot, &write).await {
                    Err(NotWritten::Failed(Failure::Contended)) if attempts < MAX_ATTEMPTS => attempts += 1,
                    ended => return ended,
                }
            }
        });
        // The runtime is shutting down, or the write panicked.
        task.await.unwrap_or(Err(NotWritten::Other(StoreError::OutcomeUnknown)))
    }
}

async fn attempt<T, W>(pool: &MySqlPool, limit: Duration, spot: Spot, write: &W) -> Result<T, NotWritten>
where
    W: for<'c> Fn(&'c mut MySqlConnection) -> Reading<'c, T>,
{
    let mut connection = pool.acquire().await.map_err(|error| NotWritten::Other(not_connected(&error)))?;
    let answer = around!(spot, tokio::time::timeout(limit, write(&mut connection)).await);
    let failure = match answer {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(error)) => NotWritten::Failed(Failure::of(error)),
        Err(_) => {
            tracing::warn!("a write took too long; its connection is closed and its outcome unknown");
            NotWritten::Other(StoreError::OutcomeUnknown)
        }
    };
    let is_spoiled = match &failure {
        NotWritten::Failed(failure) => failure.spoils_connection(),
        NotWritten::Other(_) => true,
    };
    if is_spoiled {
        // Dead or half read: never back into the pool.
        drop(connection.detach());
    }
    Err(failure)
}
