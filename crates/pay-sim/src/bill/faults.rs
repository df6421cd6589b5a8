//! What may be wrong with a bill.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use super::rows::Row;

/// Most faults at once.
const MAX_FAULTS: usize = 1_000;

/// One thing that is wrong with every bill it touches, until it is cleared. `order_no` is the number that the row is matched by: a refund's own, or
/// the charge's. Totals agree with the rows as they are written: the channel itself is wrong, not the transfer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum BillFault {
    /// The row is in no bill.
    Missing {
        /// Which row.
        order_no: String,
    },
    /// The row is there twice.
    Doubled {
        /// Which row.
        order_no: String,
    },
    /// The row has another amount, though never less than one minor unit.
    WrongAmount {
        /// Which row.
        order_no: String,
        /// How many minor units it is off.
        by: i64,
    },
    /// The row says, and is billed as, a day later.
    Shifted {
        /// Which row.
        order_no: String,
    },
    /// The row is in the next day's bill, with its own time.
    Late {
        /// Which row.
        order_no: String,
    },
    /// The row says something else than what happened.
    Altered {
        /// Which row.
        order_no: String,
        /// Another currency.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        currency: Option<String>,
        /// Another user.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        user_id: Option<u64>,
        /// Another number of the wallet's own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        transaction_id: Option<String>,
        /// So many milliseconds later; billed on the day on which it happened.
        #[serde(default)]
        later_ms: i64,
    },
    /// A row of what never happened.
    Added {
        /// The row.
        row: Row,
    },
    /// The last third of the file is missing.
    Truncated,
    /// The first total is one too high. A Stripe report has none.
    WrongTotal,
}

impl BillFault {
    /// The row that it is about.
    #[must_use]
    pub fn order_no(&self) -> Option<&str> {
        match self {
            Self::Missing { order_no }
            | Self::Doubled { order_no }
            | Self::WrongAmount { order_no, .. }
            | Self::Shifted { order_no }
            | Self::Late { order_no }
            | Self::Altered { order_no, .. } => Some(order_no),
            Self::Added { .. } | Self::Truncated | Self::WrongTotal => None,
        }
    }
}

/// No more faults are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there are {MAX_FAULTS} faults already; clear them first")]
pub struct TooManyFaults;

/// The faults in force.
#[derive(Debug, Default)]
pub struct BillFaults(Mutex<Vec<BillFault>>);

impl BillFaults {
    /// Adds one.
    ///
    /// # Errors
    /// When there are too many.
    pub fn add(&self, fault: BillFault) -> Result<(), TooManyFaults> {
        let mut faults = self.lock();
        if faults.len() >= MAX_FAULTS {
            return Err(TooManyFaults);
        }
        faults.push(fault);
        Ok(())
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> Vec<BillFault> {
        self.lock().clone()
    }

    /// Back to bills that are right.
    pub fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<BillFault>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
