//! The daemon against the sandbox, over sockets: the mirror holds what the service serves, and asks for no more than
//! it must.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends at the first thing that is not as said")]

mod commands;
mod lists;
mod orders;
mod reports;
mod support;
