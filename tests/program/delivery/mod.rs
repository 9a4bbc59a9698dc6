//! Delivery of the changes that are no quantities, and settling of changes in doubt, against the sandbox over
//! sockets.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test ends at the first thing that is not as said, and takes from the support what it needs"
)]

mod absences;
mod closed;
mod creates;
mod doubts;
mod emptied;
mod examples;
mod explain;
mod gaps;
mod gate;
mod gone;
mod health;
mod kits;
mod lost_updates;
mod meanwhile;
mod numbers;
mod people;
mod plan;
mod rules;
mod shipments;
mod sick;
mod spellings;
pub(crate) mod support;
mod told;
mod trackings;
mod turns;
mod unshown;
mod unshown_orders;

use crate::readback::between;
