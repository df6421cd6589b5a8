//! The sole right to sweep one partition: a named lock of the database, held by a connection. A process that dies, or
//! loses its connection, loses the lock in the same moment; if the network loses the connection without telling the
//! server, the lock is free once the session has been silent for its limit. Until then a task says something on it.

use std::sync::{Arc, Mutex as ShortMutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use sha2::{Digest as _, Sha256};
use sqlx::{Connection as _, MySqlConnection};
use tokio::sync::Mutex;
use tokio::task::AbortHandle;

use super::connect::{Connector, KEEP_ALIVE, Purpose};
use super::errors::{Failure, not_connected};
use crate::crash::{Spot, around};
use crate::ports::{PartitionLease, StoreError};

/// Most connections kept for the next locks; a process sweeps few partitions at once.
const MAX_KEPT: usize = 16;

/// Connections that hold no lock and may take the next one: a round that found nothing to do costs no connect.
#[derive(Debug, Clone, Default)]
pub(super) struct LockConnections(Arc<ShortMutex<Vec<MySqlConnection>>>);

impl LockConnections {
    fn take(&self) -> Option<MySqlConnection> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Keeps a connection whose last answer was complete and that holds no lock.
    fn keep(&self, connection: MySqlConnection) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < MAX_KEPT {
            kept.push(connection);
        }
    }

    /// Closes what is kept.
    pub(super) async fn close(&self) {
        let kept = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        for connection in kept {
            // Politeness alone; the server notices a closed socket as well.
            drop(connection.close().await);
        }
    }
}

/// A lock on a connection of its own. Dropped without a release, it closes the connection, and the server frees the
/// lock.
struct NamedLock {
    name: String,
    limit: Duration,
    connection: Shared,
    keeper: AbortHandle,
    connections: LockConnections,
}

/// Taken out while a statement is under way, so that a cancelled call leaves no connection half read: it closes it. The
/// mutex is held meanwhile, so that "not there" means lost.
type Shared = Arc<Mutex<Option<MySqlConnection>>>;

impl NamedLock {
    fn new(
        name: String,
        limit: Duration,
        connection: MySqlConnection,
        connections: LockConnections,
    ) -> NamedLock {
        let connection = Arc::new(Mutex::new(Some(connection)));
        let keeper = tokio::spawn(keep_alive(Arc::clone(&connection), limit)).abort_handle();
        NamedLock { name, limit, connection, keeper, connections }
    }
}

impl Drop for NamedLock {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

/// Says something on the connection now and then, until it is gone.
async fn keep_alive(connection: Shared, limit: Duration) {
    loop {
        tokio::time::sleep(KEEP_ALIVE).await;
        let mut place = connection.lock().await;
        let Some(mut held) = place.take() else { return };
        if matches!(tokio::time::timeout(limit, held.ping()).await, Ok(Ok(()))) {
            *place = Some(held);
        }
    }
}

/// The lock's name. Locks are the server's, not a schema's, and at most 64 characters long.
fn lock_name(schema: &str, partition: u32, partitions: u32) -> String {
    let digest = hex::encode(Sha256::digest(schema.as_bytes()));
    format!("pay-flow-sweep.{}.{partition}.{partitions}", &digest[..16])
}

/// Tries to take the lock; `None` while another connection has it.
pub(super) async fn try_lease(
    connector: &Connector,
    connections: &LockConnections,
    partition: u32,
    partitions: u32,
) -> Result<Option<Box<dyn PartitionLease>>, StoreError> {
    let (connector, connections) = (connector.clone(), connections.clone());
    // In a task of its own, like every use of a connection.
    let task = tokio::spawn(async move {
        // A kept connection may have died meanwhile; that says nothing about the server, so a new one is asked.
        while let Some(connection) = connections.take() {
            match take_lock(&connector, &connections, connection, partition, partitions).await {
                Err(StoreError::Unavailable { .. }) => {}
                taken => return taken,
            }
        }
        let connection = connector.open(Purpose::Hold).await.map_err(|error| not_connected(&error))?;
        take_lock(&connector, &connections, connection, partition, partitions).await
    });
    match task.await {
        Ok(taken) => Ok(taken?.map(|lock| Box::new(lock) as Box<dyn PartitionLease>)),
        Err(_) => Err(StoreError::Unavailable { reason: "taking the sweep's lock was abandoned" }),
    }
}

async fn take_lock(
    connector: &Connector,
    connections: &LockConnections,
    mut connection: MySqlConnection,
    partition: u32,
    partitions: u32,
) -> Result<Option<NamedLock>, StoreError> {
    let limit = connector.statement_limit();
    let taking = async {
        let schema = around!(
            Spot::LeaseSchema,
            sqlx::query_scalar!("SELECT DATABASE() AS `schema!`").fetch_one(&mut connection).await
        )?;
        let name = lock_name(&schema, partition, partitions);
        let got = around!(
            Spot::LeaseTake,
            sqlx::query_scalar!("SELECT CAST(GET_LOCK(?, 0) AS SIGNED) AS `got`", name)
                .fetch_one(&mut connection)
                .await
        )?;
        Ok((name, got == Some(1)))
    };
    match tokio::time::timeout(limit, taking).await {
        Ok(Ok((name, true))) => {
            let connections = connections.clone();
            Ok(Some(NamedLock::new(name, limit, connection, connections)))
        }
        Ok(Ok((_, false))) => {
            connections.keep(connection);
            Ok(None)
        }
        Ok(Err(error)) => Err(Failure::of(error).of_read()),
        Err(_) => Err(StoreError::Unavailable { reason: "taking the sweep's lock took too long" }),
    }
}

#[async_trait]
impl PartitionLease for NamedLock {
    async fn still_held(&mut self) -> bool {
        let mut place = self.connection.lock().await;
        let Some(mut connection) = place.take() else { return false };
        let asking = async {
            around!(
                Spot::LeaseConfirm,
                sqlx::query_scalar!(
                    "SELECT CAST(COALESCE(IS_USED_LOCK(?) = CONNECTION_ID(), 0) AS SIGNED) AS `held!`",
                    self.name
                )
                .fetch_one(&mut connection)
                .await
            )
        };
        match tokio::time::timeout(self.limit, asking).await {
            Ok(Ok(1)) => {
                *place = Some(connection);
                true
            }
            Ok(Ok(_)) => false,
            Ok(Err(error)) => {
                tracing::warn!(%error, lock = self.name, "the sweep's lock is lost with its connection");
                false
            }
            Err(_) => {
                tracing::warn!(lock = self.name, "the sweep's lock could not be confirmed in time; given up");
                false
            }
        }
    }

    async fn release(self: Box<Self>) {
        let Some(mut connection) = self.connection.lock().await.take() else { return };
        let releasing = async {
            around!(
                Spot::LeaseRelease,
                sqlx::query_scalar!("SELECT CAST(RELEASE_LOCK(?) AS SIGNED) AS `released`", self.name)
                    .fetch_one(&mut connection)
                    .await
            )
        };
        if matches!(tokio::time::timeout(self.limit, releasing).await, Ok(Ok(Some(1)))) {
            self.connections.keep(connection);
        } else {
            tracing::debug!(lock = self.name, "the sweep's lock was left to the closed connection");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_the_server_and_tell_schemas_and_partitions_apart() {
        let name = lock_name(&"s".repeat(64), u32::MAX, u32::MAX);
        assert!(name.len() <= 64, "{}", name.len());
        assert_ne!(lock_name("a", 0, 2), lock_name("b", 0, 2));
        assert_ne!(lock_name("a", 0, 2), lock_name("A", 0, 2));
        assert_ne!(lock_name("a", 1, 12), lock_name("a", 11, 2));
    }
}
