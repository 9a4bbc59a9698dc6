//! The sandbox's side of HTTP: sockets, accepted callers, requests, answers and pages of lists.
//!
//! No file here holds a rule of an operation.

pub(in crate::sandbox) mod answer;
pub(in crate::sandbox) mod origin;
pub(in crate::sandbox) mod paging;
pub(in crate::sandbox) mod request;
pub(in crate::sandbox) mod server;
