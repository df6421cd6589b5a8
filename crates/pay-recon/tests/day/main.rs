//! Whole days over the in-memory store: planted differences, histories of the simulator, midnights, bills that are refused, runs that are repeated.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops there")]

mod histories;
mod midnight;
mod planted;
mod rig;
mod runs;
