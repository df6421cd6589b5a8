//! The convergence worker: finds every due row that is not terminal, from the database alone, and has it advanced.
//!
//! A library besides the binary, so that a simulation can drive rounds. Decides nothing about a flow: that is
//! `flow_core::advance`'s. Knows the store as a port.
//!
//! - [`advance`]: what is done with one row.
//! - [`round`]: one sweep over every partition that can be had; [`report`]: what it came to.
//! - [`summary`]: how many rows are open, and for how long.
//! - [`daemon`]: rounds for ever.
//! - [`inbox`]: the same for what channels have said.
//! - [`notify`]: delivers what applications are to be told.
//! - [`wake`]: what is done with wake-ups that a broker delivers.

pub mod advance;
pub mod daemon;
pub mod inbox;
mod lanes;
pub mod notify;
mod partition;
pub mod report;
pub mod round;
pub mod summary;
pub mod wake;
