//! What can change a [`World`]: the unit of the journal and of replay.

use serde::{Deserialize, Serialize};

use super::types::{Course, Debit, Execution, Refund, Switches, Target};
use super::world::World;

/// One call that may change the world. Applying the same commands at the same times yields the same world.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// [`World::debit_as`].
    Debit {
        /// The request.
        debit: Debit,
        /// How it is carried out.
        course: Course,
    },
    /// [`World::query`]; recorded only when it carries out something deferred.
    Query {
        /// The order.
        trade_order_no: String,
    },
    /// [`World::close`].
    Close {
        /// The order.
        trade_order_no: String,
    },
    /// [`World::refund_as`].
    Refund {
        /// The request.
        refund: Refund,
        /// How it is carried out.
        course: Course,
    },
    /// [`World::query_refund`]; recorded only when it carries out something deferred.
    QueryRefund {
        /// The refund.
        refund_order_no: String,
    },
    /// [`World::execute_as`].
    Execute {
        /// The request.
        execution: Execution,
        /// How it is carried out.
        course: Course,
    },
    /// [`World::fact`]; recorded only when it carries out something deferred.
    Fact {
        /// The target.
        target: Target,
    },
    /// [`World::settle`].
    Settle {
        /// The order.
        trade_order_no: String,
    },
    /// [`World::set_balance`].
    SetBalance {
        /// Whose balance.
        #[serde(with = "super::types::decimal_id")]
        user_id: u64,
        /// In which currency.
        currency: String,
        /// Minor units.
        amount: i64,
    },
    /// [`World::set_switches`].
    SetSwitches(Switches),
}

impl World {
    /// Carries a recorded command out again. Its answer was given long ago and is dropped here.
    pub fn replay(&mut self, command: &Command, now_ms: i64) {
        match command {
            Command::Debit { debit, course } => drop(self.debit_as(debit, course, now_ms)),
            Command::Query { trade_order_no } => drop(self.query(trade_order_no, now_ms)),
            Command::Close { trade_order_no } => drop(self.close(trade_order_no, now_ms)),
            Command::Refund { refund, course } => drop(self.refund_as(refund, course, now_ms)),
            Command::QueryRefund { refund_order_no } => drop(self.query_refund(refund_order_no, now_ms)),
            Command::Execute { execution, course } => drop(self.execute_as(execution, course, now_ms)),
            Command::Fact { target } => drop(self.fact(target, now_ms)),
            Command::Settle { trade_order_no } => self.settle(trade_order_no, now_ms),
            Command::SetBalance { user_id, currency, amount } => {
                self.set_balance(*user_id, currency, *amount)
            }
            Command::SetSwitches(switches) => self.set_switches(switches.clone()),
        }
    }
}
