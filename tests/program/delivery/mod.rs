//! Delivery of the changes that are no quantities, and settling of changes in doubt, against the sandbox over
//! sockets.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test ends at the first thing that is not as said, and takes from the support what it needs"
)]

mod absent;
mod answers;
mod at_risk;
mod closed;
mod creates;
mod deciders;
mod doubts;
mod examples;
mod explain;
mod gaps;
mod gate;
mod health;
mod kits;
mod lost_updates;
mod meanwhile;
mod numbers;
mod pause;
mod people;
mod plan;
mod refused_commits;
mod rules;
mod shipments;
mod sick;
mod spellings;
pub(crate) mod support;
mod told;
mod trackings;
mod turns;
mod window;

use crate::readback::between;
