//! Replay and the commands on the journal.
//!
//! After every life of a daemon, the projection of its journal equals its mirror.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test ends at the first thing that is not as said, takes from the support what it needs, and a longer \
              run is asked for in the environment"
)]

mod commands;
pub(super) mod fixture;
mod full_rate;
mod life;
mod long;
mod retention;
mod shop;
mod versions;

use crate::support::replayed;
