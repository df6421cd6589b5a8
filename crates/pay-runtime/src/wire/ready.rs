//! Whether the process can do its work, from its first moment to its last.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use flow_core::store::MySqlStore;
use tokio_util::sync::CancellationToken;

use crate::http::Readiness;

/// Longest time of one look at the database: probes are impatient.
const LOOK: Duration = Duration::from_secs(2);

/// Answers `/readyz`. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Ready {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Why not yet, while there is no database to look at.
    waiting_for: Mutex<Option<String>>,
    database: OnceLock<Arc<MySqlStore>>,
    stop: CancellationToken,
}

impl Ready {
    /// Not ready from the moment `stop` fires.
    pub fn stopping_with(stop: CancellationToken) -> Ready {
        Ready { inner: Arc::new(Inner { stop, ..Inner::default() }) }
    }

    pub(super) fn waits_for(&self, what: String) {
        *self.inner.waiting_for.lock().unwrap_or_else(PoisonError::into_inner) = Some(what);
    }

    pub(super) fn look_at(&self, database: Arc<MySqlStore>) {
        // A second database in one process would be a defect; the first one goes on answering.
        let _ = self.inner.database.set(database);
    }

    /// Looks: is the database there, with the schema this program was built for? In bounded time.
    pub async fn check(self) -> Readiness {
        if self.inner.stop.is_cancelled() {
            return Readiness::NotReady("the process is stopping".to_owned());
        }
        let Some(database) = self.inner.database.get() else {
            let waiting_for = self.inner.waiting_for.lock().unwrap_or_else(PoisonError::into_inner).clone();
            return Readiness::NotReady(waiting_for.unwrap_or_else(|| "the process is starting".to_owned()));
        };
        match tokio::time::timeout(LOOK, database.schema_is_current()).await {
            Ok(Ok(Ok(()))) => Readiness::Ready,
            Ok(Ok(Err(mismatch))) => Readiness::NotReady(mismatch.to_string()),
            Ok(Err(error)) => Readiness::NotReady(error.to_string()),
            Err(_) => {
                Readiness::NotReady(format!("the database did not answer within {} ms", LOOK.as_millis()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn before_there_is_a_database_it_says_what_it_waits_for() {
        let stop = CancellationToken::new();
        let ready = Ready::stopping_with(stop.clone());
        let not_ready = |why: &str| Readiness::NotReady(why.to_owned());
        assert_eq!(ready.clone().check().await, not_ready("the process is starting"));
        ready.waits_for("the database is away".to_owned());
        assert_eq!(ready.clone().check().await, not_ready("the database is away"));
        stop.cancel();
        assert_eq!(ready.check().await, not_ready("the process is stopping"));
    }
}
