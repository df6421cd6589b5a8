//! Bills of every format. Input: a byte that chooses the format, and the file.

#![no_main]

#[path = "../../crates/flow-bills/tests/properties/bills.rs"]
mod bills;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    if let Some((first, bill)) = input.split_first() {
        bills::check(&bills::format_of(*first), bill);
    }
});
