//! Deterministic simulation of the whole service: the shipped `advance`, creation, cancelling, timer and scanner's
//! rounds, in several processes over one in-memory database and one pair of far-side books, in virtual time. One seed
//! is one run, repeated exactly. Never shipped.
//!
//! - [`dice`]: every random choice, from the seed alone. [`plan`]: what a world looks like.
//! - [`life`], [`cast`]: processes that die, stand still and come back. [`statements`], [`far`], [`message`]: their ways
//!   to the database and to the far side. [`faults`]: what goes wrong there.
//! - [`channel`], [`papers`]: what the wallet says of its own accord and what applications are told. [`entrance`]: the
//!   entry lock.
//! - [`clients`], [`people`]: who wants something. [`watch`]: whether every promise is kept, at every step.
//! - [`onlooker`]: the raw rows and books at every step, for whoever judges by rules of their own.
//! - [`run`]: one run. [`shrink`]: a failing one made short. [`campaign`]: many. [`trace`]: what happened.
//! - [`mind`]: where a deliberate fault is put into the product, to show that it would be found.
//!
//! A crate of its own because it drives the libraries of two binaries, which `flow-testkit` must not know.

pub mod campaign;
mod cast;
mod channel;
mod clients;
pub mod dice;
mod entrance;
mod far;
mod faults;
mod life;
mod message;
mod mind;
pub mod onlooker;
mod papers;
mod people;
mod plan;
pub mod run;
pub mod shrink;
mod site;
mod statements;
mod time;
pub mod trace;
mod watch;

pub use mind::CAN_MUTATE;
