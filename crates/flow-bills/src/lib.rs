//! Readers of the bills that wallets publish: every row read for certain or set aside, the file complete or refused.
//!
//! [`read_bill`] streams a bill of any size in bounded memory. What it hands out while reading counts only once it has answered `Ok`:
//! trailers, digests and the ends of compressed data come last. The layouts are described in `docs/bill-formats.md`.
//!
//! It must not know stores, runtimes, HTTP or clocks. The one thing it does outside of memory is to keep a zip archive in an
//! anonymous temporary file while it is read.

mod archive;
mod cells;
mod decimal;
mod entry;
mod error;
mod header;
mod layout;
mod read;
mod records;
mod rules;
mod sink;
mod sniff;
mod source;
mod summary;
mod tally;
mod times;

pub use entry::{BillEntry, EntryKind, Proof, QuarantineReason, QuarantinedRow};
pub use error::{BillError, FoundFormat, NoStatement};
pub use read::read_bill;
pub use rules::generic::{
    Amounts, Columns, Filter, GenericCsv, KindRule, Only, ProofRule, RefundSign, Sign, Trailer,
};
pub use rules::{BillFormat, BillRules, Expected, Limits, MAX_EXPONENT, StripeItemised, WechatTrade};
pub use sink::{BillSink, SinkError};
pub use summary::BillSummary;
