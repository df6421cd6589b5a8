//! Reconciliation: every order of a business day, compared three ways (our flow, the wallet's bill, the business record).
//!
//! A library besides the binary, so that tests can run days. Decides on no payment: whatever it finds becomes a ticket, and at
//! most wakes or holds the flow through `flow_core::advance`. Knows the store as a port.
//!
//! - [`order`]: one order as three sides tell it; [`finding`]: what differs about it. Pure.
//! - [`midnight`]: entries whose counterpart lies in another day's records. Pure.
//! - [`calendar`]: business days in a channel's zone. Pure.
//! - [`sort`], [`record`], [`group`]: a day's records in bounded memory, on disk, by order.
//! - [`run`]: one run over one part of one day. [`evidence`]: bills as they came. [`due`]: which days, when. [`report`]: for people.

pub mod calendar;
pub mod due;
pub mod evidence;
pub mod finding;
pub mod group;
pub mod midnight;
pub mod order;
pub mod record;
pub mod report;
pub mod run;
pub mod sort;
