//! The sandbox against docs/interface.md, over raw HTTP: every test names the section that it holds the
//! sandbox to.
//!
//! Requests are written and answers are read byte by byte (support.rs), because a client library would
//! correct some errors silently. The client's tests must not be derived from these, nor these from them.

mod authentication;
mod bad_input;
mod control_plane;
mod faults;
mod generated_shop;
mod library;
mod limits;
mod lists;
mod orders;
mod products;
mod reports;
mod shipments;
mod stock;
mod support;
mod templates;
