//! The MySQL store on real servers: MySQL and MariaDB alike.
//!
//! Needs `PAY_TEST_MYSQL_URL` and `PAY_TEST_MARIADB_URL`, URLs of a superuser without a schema; `cargo xtask test`
//! provides the servers and sets them. Every test makes its own schema and drops it.

#![allow(clippy::unwrap_used, reason = "tests")]

mod harness;

mod batches;
mod cancellation;
mod conformance;
mod contention;
mod grants;
mod guards;
mod losses;
mod outbox_guards;
mod recon_guards;
mod schema;
mod taken_keys;
