//! A business system's answers to every call. Input: the status on a line, and the body.

#![no_main]

#[path = "../../crates/flow-adapters/tests/properties/answers.rs"]
#[allow(dead_code, reason = "the other half is the other target's")]
mod answers;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let (status, body) = answers::reply_in(input);
    answers::check_business(status, body);
});
