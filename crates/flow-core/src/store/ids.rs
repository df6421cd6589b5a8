//! Flow ids, taken from the database in blocks: a creation knows its id, and so its order numbers, before it inserts.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use sqlx::MySqlConnection;

use crate::crash::{Spot, around};

/// The ids that this process took and has not used.
#[derive(Debug, Default)]
pub(super) struct IdBlocks {
    unused: Mutex<VecDeque<Range<i64>>>,
}

impl IdBlocks {
    /// The next unused id.
    pub(super) fn next(&self) -> Option<i64> {
        let mut unused = self.unused.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(block) = unused.front_mut() {
            if let Some(id) = block.next() {
                return Some(id);
            }
            unused.pop_front();
        }
        None
    }

    /// Adds a block that was taken from the database.
    pub(super) fn add(&self, block: Range<i64>) {
        self.unused.lock().unwrap_or_else(PoisonError::into_inner).push_back(block);
    }

    /// Forgets what is unused: an id in it turned out to be in use already.
    pub(super) fn forget(&self) {
        self.unused.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// Takes a block from the database. Committed before the answer arrives, so that no id is ever handed out twice; a
/// block whose answer is lost is a gap.
pub(super) async fn take_block(
    connection: &mut MySqlConnection,
    block_rows: u32,
) -> Result<Range<i64>, sqlx::Error> {
    let done = around!(
        Spot::TakeBlock,
        sqlx::query!(
            "UPDATE flow_id_block SET next_id = LAST_INSERT_ID(next_id) + ? WHERE id = 1",
            block_rows
        )
        .execute(&mut *connection)
        .await
    )?;
    if done.rows_affected() != 1 {
        return Err(sqlx::Error::RowNotFound);
    }
    // Asked for apart: the answer to an UPDATE of a table with triggers does not carry it.
    let first = around!(
        Spot::BlockStart,
        sqlx::query_scalar!("SELECT CAST(LAST_INSERT_ID() AS SIGNED) AS `first!`")
            .fetch_one(connection)
            .await
    )?;
    Ok(first..first + i64::from(block_rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_used_up_in_order_and_forgotten_as_a_whole() {
        let ids = IdBlocks::default();
        assert_eq!(ids.next(), None);
        ids.add(5..7);
        ids.add(20..21);
        assert_eq!([ids.next(), ids.next(), ids.next(), ids.next()], [Some(5), Some(6), Some(20), None]);
        ids.add(30..40);
        ids.forget();
        assert_eq!(ids.next(), None);
    }
}
