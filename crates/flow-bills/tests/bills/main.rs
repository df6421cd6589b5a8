//! Bills of every layout, whole and faulty: the verdict, what was read, and that nothing counts of a bill that is refused.

#![allow(clippy::unwrap_used, reason = "test code")]

mod alipay;
mod fixtures;
mod generic;
mod ledger;
mod packing;
mod properties;
mod stripe;
mod wechat;
