//! The simulated wallet and business system as one pure state machine, [`World`].
//!
//! It must not know HTTP, files, tokio or a clock: every call takes `now_ms` (milliseconds since the Unix epoch, UTC), so that
//! a journal replays to the very same world and a test can run it on any clock. Money and benefits that really moved are
//! [`Entry`] rows, one per effect: a double charge shows as two rows, it can not hide behind a flag.

mod business;
mod command;
mod moved;
mod report;
mod types;
mod wallet;
mod world;

pub use command::Command;
pub use moved::{Moved, MovedPage};
pub use report::{Anomaly, OrderLedger, TargetLedger, Totals};
pub use types::{
    CloseRefusal, Course, Debit, DebitRefusal, DebitStatus, DebitView, Deferral, ExecuteRefusal, Execution,
    ExecutionView, FactStatus, FactView, Money, Refund, RefundRefusal, RefundStatus, RefundView, Switches,
    Target, decimal_id,
};
pub use world::{CallCounts, Effect, Entry, OrderSubject, World};

#[cfg(test)]
mod tests;
