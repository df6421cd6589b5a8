//! The core of the payment-consistency service: it brings a payment from "the user pressed the button" to an
//! explainable terminal state, whatever times out, dies, doubles or arrives late in between.
//!
//! - Decisions ([`state`], [`ids`], [`money`], [`flow`], [`answer`], [`decide`], [`retry`], [`cas`]) are pure: no IO,
//!   no clock, no randomness, and no knowledge of database, runtime or HTTP.
//! - [`ports`] are the traits through which everything outside is reached.
//! - [`create`] takes requests; [`advance`] is the only code that changes a flow's state. Both know ports alone.
//! - [`callback`] takes what channels say of their own accord: kept, asked about, never believed.
//! - [`recon`] is what reconciliation talks about: kinds of difference, tickets, batches. Pure, too.
//! - [`downstream`] keeps each wallet and business system behind its gate: concurrency, rate budget, breaker.
//! - [`store`] is the MySQL implementation of the store port.
//! - [`crash`] names the points at which the crash matrix kills a process; nothing of it is in a build that ships.

pub mod advance;
pub mod answer;
pub mod callback;
pub mod cas;
pub mod crash;
pub mod create;
pub mod decide;
#[cfg(not(feature = "mutants"))]
mod decisions;
#[cfg(feature = "mutants")]
pub mod decisions;
pub mod downstream;
pub mod entrance;
pub mod flow;
pub mod ids;
pub mod money;
pub mod notify;
pub mod ports;
pub mod recon;
pub mod retry;
pub mod state;
pub mod store;
