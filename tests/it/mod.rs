//! The suites that start no process, one module each. They are modules of the library, so its rooms stay private.
//!
//! `cargo test --lib it::store::` runs a single suite. A suite that starts a process belongs in tests/program. Until its
//! exec, a child holds every open file of the test process, and with them the locks of databases that other tests close
//! and open again.

mod budget;
mod client_http;
mod config;
mod contract_support;
mod daemon;
mod fuzz;
mod golden_client;
mod golden_sandbox;
mod logging;
mod openapi;
mod postgres;
mod sandbox_contract;
mod schedules;
mod search;
mod store;
mod supervision;
#[path = "../support/mod.rs"]
mod support;
mod timings;
