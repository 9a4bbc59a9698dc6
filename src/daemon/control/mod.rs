//! Requests from commands to the daemon that runs beside them (docs/rules.md 32).
//!
//! [`client`] is the command's side and [`server`] the daemon's. A request and its answer are one row of the
//! database.

mod client;
mod server;

pub use client::{
    ControlError, check_keys, find_products, read_components, run_job, send_control_request, verify_mirror,
};
pub(super) use server::ControlServer;
pub use server::{ControlRequest, RunResult};
