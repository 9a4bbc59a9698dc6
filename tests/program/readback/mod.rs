//! Reading back: what was written is looked at where it matters, and what a look is worth. A sandbox over sockets, with
//! a transport in between that answers as a late replica, a forgetful service or one of few words would.

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
