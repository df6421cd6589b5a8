//! Whole days over the in-memory store: planted differences, midnights, bills that are refused, runs that are repeated.

mod midnight;
mod planted;
mod rig;
mod runs;
