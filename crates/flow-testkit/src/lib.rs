//! What the suites are made of; never shipped.
//!
//! - [`clock`], [`jitter`], [`wake`]: the small ports, under a test's full control.
//! - [`mem_store`]: the flow store in memory, with the database's guards and scripted failures.
//! - [`mem_inbox`]: the inbox in memory. [`mem_entry`]: the entry lock. [`mem_recon`]: what reconciliation keeps.
//! - [`fakes`]: wallet and business over the simulator's pure state machine, with scripted faults.
//! - [`conformance`]: one suite per port; the fakes here and every real adapter pass the same.
//! - [`ledger_check`]: the invariants, as one function over rows, audit log and the downstream's ledger.
//! - [`mutants`]: deliberate faults that the model check and the simulation must find.
//! - [`samples`]: valid values to start from. [`seeds`]: inputs that the parsers must stand.
//!
//! Nothing here reads the wall clock or draws unseeded randomness: a run can be repeated exactly.

pub mod clock;
pub mod conformance;
pub mod fakes;
pub mod jitter;
pub mod ledger_check;
pub mod mem_entry;
pub mod mem_inbox;
pub mod mem_recon;
pub mod mem_store;
pub mod mutants;
pub mod samples;
pub mod script;
pub mod seeds;
pub mod wake;
