//! The process shell shared by the binaries: logging, metrics, signals, a hardened HTTP server, and the wiring of
//! store, adapters and advancer from configuration.
//!
//! Knows the core, the configuration and the adapters. Knows no web framework and holds no business rule: what a
//! request means is the binary's matter, that a bad client costs the others nothing is this crate's.

mod descriptors;
pub mod http;
mod key_files;
pub mod metrics;
pub mod process;
pub mod shutdown;
pub mod telemetry;
pub mod wire;
