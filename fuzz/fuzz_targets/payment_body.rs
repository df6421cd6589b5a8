//! Bodies of `POST /payments`. Input: the body.

#![no_main]

#[path = "../../crates/pay-api/tests/properties/payment_body.rs"]
mod payment_body;

libfuzzer_sys::fuzz_target!(|body: &[u8]| payment_body::check(body));
