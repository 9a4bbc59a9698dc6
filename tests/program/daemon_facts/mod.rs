//! The daemon against the sandbox over sockets: the mirror equals the platform's data, at the least number of
//! calls.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends at the first thing that is not as said")]

mod commands;
mod lists;
mod loose;
mod orders;
mod reports;
mod support;
