//! Requests from commands to the daemon that runs beside them (docs/rules.md 19).
//!
//! [`client`] is the command's side and [`server`] the daemon's. A request and its answer are one row of the
//! database.

mod client;
mod server;

pub use client::ControlError;
pub use client::send_control_request;
pub use server::ControlRequest;
pub(crate) use server::RunResult;
pub(super) use server::serve_request;
