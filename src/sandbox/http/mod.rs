//! The sandbox's side of HTTP: sockets, accepted callers, requests, answers and pages of lists.
//!
//! No file here holds a rule of an operation.

pub(crate) mod answer;
pub(crate) mod loose;
pub(crate) mod origin;
pub(crate) mod paging;
pub(crate) mod request;
pub(crate) mod server;
