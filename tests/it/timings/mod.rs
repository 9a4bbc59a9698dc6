//! Timings of single parts, of a release build without other work: docs/performance.md names the commands.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a timing is printed, and ends at the first surprise"
)]

mod hot_paths;
mod server_pages;
