//! Reading back: writes are read back where it matters, and only on proof is one confirmed.
//!
//! A sandbox over sockets, with a transport in between that answers like a late replica, a platform that
//! loses updates, or one with unclear messages.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "a test ends at the first thing that is not as said, and takes from the support what it needs"
)]

pub(crate) mod between;
mod late;
mod proof;
mod unclear;
mod verify;

use crate::delivery::support;
