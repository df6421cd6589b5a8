//! The scanner over the in-memory store and the fakes: no process, no database, no wall clock.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod convergence;
mod daemon;
mod inbox;
mod notify;
mod rig;
mod rounds;
mod summary;
mod wake;
