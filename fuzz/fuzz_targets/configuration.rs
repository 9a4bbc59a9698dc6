//! tests/it/fuzz/configuration.rs under libFuzzer.

#![no_main]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a target ends at a surprise")]

#[path = "../../tests/it/fuzz/configuration.rs"]
mod configuration;

libfuzzer_sys::fuzz_target!(|data: &[u8]| configuration::check(data));
