//! A wallet and a business system of our own, for demos and tests: durable, with scripted faults. Not for production.
//!
//! - [`ledger`] is the pure state machine; it knows nothing of the rest and can be used on its own.
//! - [`journal`] makes it durable.
//! - [`faults`] holds the rules of what goes wrong.
//! - [`bill`] writes the wallet's bill for a day, wrong on request.
//! - [`callbacks`] tells of charges and refunds by itself, if it is asked to.
//! - [`signals`] counts calls, so that a test can wait for one instead of sleeping.
//! - [`sim`] joins them behind one value; [`http`] serves it.
//!
//! It must not know the product's own crates: it stands for systems that somebody else wrote.

pub mod bill;
pub mod callbacks;
pub mod faults;
pub mod http;
pub mod journal;
pub mod ledger;
pub mod request;
pub mod signals;
pub mod sim;
