//! The sole right to sweep one partition: a named lock of the database, held by a connection. A process that dies, or
//! loses its connection, loses the lock in the same moment; if the network loses the connection without telling the
//! server, the lock is free once the session has been silent for its limit. Until then a task says something on it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sha2::{Digest as _, Sha256};
use sqlx::{Connection as _, MySqlConnection};
use tokio::sync::Mutex;
use tokio::task::AbortHandle;

use super::connect::{Connector, KEEP_ALIVE, Purpose};
use super::errors::{Failure, not_connected};
use crate::ports::{PartitionLease, StoreError};

/// A lock on a connection of its own. Dropped without a release, it closes the connection, and the server frees the
/// lock.
struct NamedLock {
    name: String,
    limit: Duration,
    connection: Shared,
    keeper: AbortHandle,
}

/// Taken out while a statement is under way, so that a cancelled call leaves no connection half read: it closes it. The
/// mutex is held meanwhile, so that "not there" means lost.
type Shared = Arc<Mutex<Option<MySqlConnection>>>;

impl NamedLock {
    fn new(name: String, limit: Duration, connection: MySqlConnection) -> NamedLock {
        let connection = Arc::new(Mutex::new(Some(connection)));
        let keeper = tokio::spawn(keep_alive(Arc::clone(&connection), limit)).abort_handle();
        NamedLock { name, limit, connection, keeper }
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
    partition: u32,
    partitions: u32,
) -> Result<Option<Box<dyn PartitionLease>>, StoreError> {
    let connector = connector.clone();
    // In a task of its own, like every use of a connection.
    let task = tokio::spawn(async move {
        let limit = connector.statement_limit();
        let mut connection = connector.open(Purpose::Hold).await.map_err(|error| not_connected(&error))?;
        let taking = async {
            let schema =
                sqlx::query_scalar!("SELECT DATABASE() AS `schema!`").fetch_one(&mut connection).await?;
            let name = lock_name(&schema, partition, partitions);
            let got = sqlx::query_scalar!("SELECT CAST(GET_LOCK(?, 0) AS SIGNED) AS `got`", name)
                .fetch_one(&mut connection)
                .await?;
            Ok((name, got == Some(1)))
        };
        match tokio::time::timeout(limit, taking).await {
            Ok(Ok((name, true))) => Ok(Some(NamedLock::new(name, limit, connection))),
            Ok(Ok((_, false))) => {
                // Not ours to keep; an unclean goodbye would do as well.
                drop(tokio::time::timeout(limit, connection.close()).await);
                Ok(None)
            }
            Ok(Err(error)) => Err(Failure::of(error).of_read()),
            Err(_) => Err(StoreError::Unavailable { reason: "taking the sweep's lock took too long" }),
        }
    });
    match task.await {
        Ok(taken) => Ok(taken?.map(|lock| Box::new(lock) as Box<dyn PartitionLease>)),
        Err(_) => Err(StoreError::Unavailable { reason: "taking the sweep's lock was abandoned" }),
    }
}

#[async_trait]
impl PartitionLease for NamedLock {
    async fn still_held(&mut self) -> bool {
        let mut place = self.connection.lock().await;
        let Some(mut connection) = place.take() else { return false };
        let asking = sqlx::query_scalar!(
            "SELECT CAST(COALESCE(IS_USED_LOCK(?) = CONNECTION_ID(), 0) AS SIGNED) AS `held!`",
            self.name
        )
        .fetch_one(&mut connection);
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
        let leaving = async {
            sqlx::query_scalar!("SELECT CAST(RELEASE_LOCK(?) AS SIGNED) AS `released`", self.name)
                .fetch_one(&mut connection)
                .await?;
            connection.close().await
        };
        if !matches!(tokio::time::timeout(self.limit, leaving).await, Ok(Ok(()))) {
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
