//! The outside world behind the core's ports: wallets and business systems over HTTP, and wake-up queues.
//!
//! - [`entry_lock`] spares the duplicate work of double clicks, on a Redis or Valkey server.
//! - [`http_wallet`] and [`http_business`] speak `contracts/wallet.yaml` and `contracts/business.yaml`.
//! - [`classify`] decides what an answer means. It is pure, and the only place that does: bytes in, a class out.
//! - [`callback`] tells whether a callback is its channel's, and what it says.
//! - [`transport`] carries bytes within limits of time and size, and says how surely a call that failed was not made.
//! - [`webhook`] tells applications of their flows: signed, and to permitted addresses alone.
//! - [`timer`] wakes flows in this process.
//!
//! Nothing here knows of states, flows' histories or the database.

pub mod callback;
pub mod classify;
pub mod entry_lock;
pub mod http_business;
pub mod http_wallet;
pub mod timer;
pub mod transport;
pub mod webhook;
mod wire;

pub use entry_lock::{EntryLockError, RedisEntryLock};
pub use http_business::HttpBusiness;
pub use http_wallet::HttpWallet;
pub use timer::{NoWake, Timer, TimerDriver, TimerOptions, WakeHandler};
pub use transport::TransportError;
pub use webhook::{HttpReceiver, TargetPolicy};
