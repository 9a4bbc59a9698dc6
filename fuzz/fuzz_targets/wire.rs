//! tests/it/fuzz/wire.rs under libFuzzer.

#![no_main]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a target ends at a surprise")]

#[path = "../../tests/it/fuzz/choices.rs"]
mod choices;
#[path = "../../tests/it/fuzz/wire.rs"]
mod wire;

libfuzzer_sys::fuzz_target!(|data: &[u8]| wire::check(data));
