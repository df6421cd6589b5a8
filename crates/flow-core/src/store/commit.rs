//! One commit of many writes of different flows, and what its end means for them.
//!
//! Knows no queue and no caller.

use sqlx::{Executor as _, MySqlConnection};

use super::batches;
use super::errors::Failure;
use super::queue::{Pending, Write};
use crate::crash::{Spot, around};

/// How a commit of many ended.
pub(super) enum Batch {
    /// All are written.
    Committed,
    /// Nothing is written: some flow has moved on.
    Short,
    /// Nothing is written: this kind of write failed, on account of one of its rows.
    RowFailed(Kind),
    /// Nothing is written: locks.
    Contended,
    /// Not possible, or the connection was lost on the way: the answer to every write of it.
    Failed(Failure),
    /// Perhaps written: the time limit, or an end that was not confirmed. The connection is not used again.
    Unknown,
}

/// A kind of write: one statement each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Flows with their keys.
    Create,
    /// Further keys.
    Bind,
    /// Compare-and-swaps.
    Cas,
}

impl Kind {
    pub(super) const fn of(write: &Write) -> Kind {
        match write {
            Write::Create(_) => Kind::Create,
            Write::Bind(_) => Kind::Bind,
            Write::Cas(_) => Kind::Cas,
        }
    }
}

/// Inserts alone are one statement, all or nothing by itself; anything with a compare-and-swap is a transaction, since
/// one that falls short must be undone.
pub(super) async fn commit_many(connection: &mut MySqlConnection, wave: &[Pending]) -> Batch {
    let creates: Vec<_> = wave.iter().filter_map(|pending| pending.write.as_create()).collect();
    let binds: Vec<_> = wave.iter().filter_map(|pending| pending.write.as_bind()).collect();
    let swaps: Vec<_> = wave.iter().filter_map(|pending| pending.write.as_cas()).collect();
    let alone = swaps.is_empty() && (creates.is_empty() || binds.is_empty());
    if !alone && let Err(error) = around!(Spot::Begin, connection.execute("BEGIN").await) {
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
    if alone { ended } else { end(connection, ended).await }
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

/// Ends the transaction as its statements ended.
async fn end(connection: &mut MySqlConnection, ended: Batch) -> Batch {
    let (spot, statement) = match &ended {
        Batch::Committed => (Spot::Commit, "COMMIT"),
        Batch::Short | Batch::RowFailed(_) | Batch::Contended => (Spot::Rollback, "ROLLBACK"),
        Batch::Failed(failure) if !failure.spoils_connection() => (Spot::Rollback, "ROLLBACK"),
        // The transaction dies with the connection.
        Batch::Failed(_) | Batch::Unknown => return ended,
    };
    match around!(spot, connection.execute(statement).await) {
        Ok(_) => ended,
        Err(error) => match Failure::of(error) {
            Failure::Contended => Batch::Contended,
            // Became read-only meanwhile: the server has rolled it back, and says so.
            failure @ Failure::ReadOnly => Batch::Failed(failure),
            // An outage in the middle of a commit: nobody's defect, and the callers look again.
            failure @ (Failure::ConnectionLost(_) | Failure::NotConnected(_)) => {
                tracing::warn!(
                    ?failure,
                    statement,
                    "the connection was lost while a transaction was being ended"
                );
                Batch::Unknown
            }
            failure @ (Failure::Overloaded(_)
            | Failure::Taken(_)
            | Failure::Refused(_)
            | Failure::Unexpected(_)) => {
                tracing::error!(?failure, statement, "a transaction could not be ended");
                Batch::Unknown
            }
        },
    }
}
