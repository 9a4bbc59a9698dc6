//! The platform behind its operations: companies, accounts, limits, contacts, sales and the call log.

pub(crate) mod account;
pub(crate) mod call_log;
pub(crate) mod company;
pub(crate) mod contact;
pub(crate) mod sales;
pub(crate) mod throttle;
