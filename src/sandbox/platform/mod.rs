//! The platform behind its operations: companies, accounts, limits, contacts, sales and the call log.

pub(in crate::sandbox) mod account;
pub(in crate::sandbox) mod call_log;
pub(in crate::sandbox) mod company;
pub(in crate::sandbox) mod contact;
pub(in crate::sandbox) mod sales;
pub(in crate::sandbox) mod throttle;
