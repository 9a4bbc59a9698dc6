//! The suites that start the program or another process, one module each; and readback, for their support.
//!
//! Each test binary links the whole library, so the suites share one. `cargo test --test program crash::`
//! runs a single suite. A suite that starts no process belongs in tests/it; its head has the reason.

mod begin;
mod bench_scripts;
mod bounds;
mod budget;
mod check_online;
mod cli;
mod crash;
mod daemon_facts;
mod database_page;
mod delivery;
mod door;
mod findings;
mod health;
mod log_lines;
mod monitoring;
mod notices;
mod obstacles;
mod operator;
mod page_blocks;
mod postgres;
mod queue;
mod quiet_log;
mod readback;
mod replay;
mod secrets;
mod security;
#[path = "../support/mod.rs"]
mod support;
mod systemd;
mod usage_errors;
mod web;
