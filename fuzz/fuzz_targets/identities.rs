//! Order numbers and every other identity. Input: a text.

#![no_main]

#[path = "../../crates/flow-core/tests/properties/identities.rs"]
mod identities;

libfuzzer_sys::fuzz_target!(|text: &str| identities::check(text));
