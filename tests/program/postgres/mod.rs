//! The program with its database on PostgreSQL: hosts that stand by, servers that go away, roads to a server.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends at the first thing that is not as said")]

mod demo;
pub(super) mod hosts;
mod leadership;
mod memory;
mod move_database;
mod notices;
mod password;
mod pauses;
mod pooler;
mod queue;
mod refusals;
pub(super) mod rights;
mod server;
mod takeover;
mod tls;
mod upgrade;
mod vanish;
