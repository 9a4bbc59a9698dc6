//! The command line as an operator meets it: lists, decisions on many changes, terminals, first answers.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends at the first thing that is not as said")]

mod answers;
mod outbox;
mod terminals;
