//! Requests from commands to the daemon that runs beside them (docs/rules.md 32).
//!
//! [`client`] is the command's side and [`server`] the daemon's. A request and its answer are one row of the
//! database.

mod client;
mod server;

pub use client::{AskError, ask, find_products, prove_keys, read_components, run_job, verify};
pub(super) use server::Desk;
pub use server::{Question, Ran};
