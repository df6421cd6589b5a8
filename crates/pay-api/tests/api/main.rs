//! The HTTP front over an in-memory store and scripted downstreams, through the router, without sockets.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops there")]

mod auth;
mod bad_input;
mod callbacks;
mod contract;
mod create;
mod downstreams;
mod forms;
mod harness;
mod notifications;
mod observed;
mod outages;
mod people;
mod reads;
mod tickets;
mod waits;
