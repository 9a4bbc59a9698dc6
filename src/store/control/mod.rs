//! State of the daemon that is neither journal, fact nor change.

pub(super) mod account_binding;
pub(super) mod notice;
pub(super) mod pause;
pub(super) mod quarantine;
pub(super) mod request;
