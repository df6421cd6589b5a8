//! The simulator over real sockets: the contracts as published, every kind of fault, the admin surface, and kills.
#![allow(clippy::unwrap_used, reason = "a test that can not go on should say where")]

mod admin;
mod bills;
mod callbacks;
mod contract;
mod faults;
mod outage;
mod process;
mod rig;
