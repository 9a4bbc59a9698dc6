//! tests/it/fuzz/changes.rs under libFuzzer.

#![no_main]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a target ends at a surprise")]

#[path = "../../tests/it/fuzz/choices.rs"]
mod choices;
#[path = "../../tests/it/fuzz/shop.rs"]
mod shop;
#[path = "../../tests/it/fuzz/changes.rs"]
mod changes;

libfuzzer_sys::fuzz_target!(|data: &[u8]| changes::check(data));
