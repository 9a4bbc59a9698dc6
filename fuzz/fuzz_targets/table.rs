//! tests/it/fuzz/table.rs under libFuzzer.

#![no_main]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a target ends at a surprise")]

#[path = "../../tests/it/fuzz/table.rs"]
mod table;

libfuzzer_sys::fuzz_target!(|data: &[u8]| table::check(data));
