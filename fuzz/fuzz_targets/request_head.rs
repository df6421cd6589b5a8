//! Request keys, preferences and query strings. Input: one line each.

#![no_main]

#[path = "../../crates/pay-api/tests/properties/request_head.rs"]
mod request_head;

libfuzzer_sys::fuzz_target!(|lines: &[u8]| request_head::check_lines(lines));
