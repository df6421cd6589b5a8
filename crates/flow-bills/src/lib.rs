//! Readers of the bills that wallets publish: every row read for certain or set aside, the file complete or refused.
//!
//! `read_bill` streams a bill of any size in bounded memory. What it hands out while reading counts only once it has answered `Ok`:
//! trailers, digests and the ends of compressed data come last. The layouts are described in `docs/bill-formats.md`.
//!
//! It must not know stores, runtimes, HTTP or clocks. The one thing it does outside of memory is to keep a zip archive in an
//! anonymous temporary file while it is read.

mod cells;
mod decimal;
mod entry;
mod error;
mod generic_rules;
mod rules;
mod sink;
mod summary;
mod times;

pub use entry::{BillEntry, EntryKind, Proof, QuarantineReason, QuarantinedRow};
pub use error::{BillError, FoundFormat, NoStatement};
pub use generic_rules::{
    Amounts, Columns, Filter, GenericCsv, KindRule, Only, ProofRule, RefundSign, Sign, Trailer,
};
pub use rules::{BillFormat, BillRules, Expected, Limits, MAX_EXPONENT, StripeItemised, WechatTrade};
pub use sink::{BillSink, SinkError};
pub use summary::BillSummary;
