//! Bounds on the time a change waits: alone, amid a trickle, amid endless pushes, and with a tiny quota.

mod backlog;
mod notice;
mod tiny;
mod trickle;
mod urgent;
