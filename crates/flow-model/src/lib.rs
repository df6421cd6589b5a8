//! Exhaustive model check of the product's decisions and of the shell around them.
//!
//! A [`world::World`] is a small configuration: one target, one or two attempts, two or three processes that advance
//! them, a wallet, a business system, clocks, and a number of faults that may strike anywhere. Every state that such a
//! world can come to is visited, and in each the promises I1 to I9 are checked against the books of wallet and business,
//! and that everything ends well once the faults stop. What decides is the shipped code, reached through
//! [`flow_testkit::mutants::Subject`]; what is modelled is everything around it. The same worlds must find every mutant.
//!
//! - [`time`], [`row`], [`answers`], [`state`]: what a world's state consists of, small and without growing numbers.
//! - [`process`], [`table`], [`far_side`], [`people`]: the steps that lead from one state to the next, after `flow_core::advance`.
//! - [`model`]: these as a stateright model; [`promises`] and [`calm`]: what must hold.
//! - [`world`], [`worlds`]: the configurations; [`hunt`]: runs them; [`story`]: tells a run.
//!
//! What is simplified, and why nothing is lost by it:
//! - No retry schedule: a process may read any open row at any time. No budgets and breakers: a call may be refused.
//! - No version numbers: a copy of a row is current or outdated ([`row`]). So worlds are finite without a limit on how
//!   often anybody tries, and what is explored completely holds for ever.
//! - An answer that is lost is a caller that gives up and a request that arrives all the same.
//! - States are compared by 64-bit fingerprints, as stateright does: among some millions of states the chance that two
//!   are taken for one is below one in a million.
//!
//! Nothing here knows a database, a network or a clock.

pub mod answers;
pub mod calm;
pub mod far_side;
pub mod hunt;
pub mod model;
pub mod people;
pub mod process;
pub mod promises;
pub mod row;
pub mod state;
pub mod story;
pub mod table;
pub mod time;
pub mod world;
pub mod worlds;
