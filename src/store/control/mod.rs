//! State of the daemon that is neither journal, fact nor change.
//!
//! | file | subject |
//! | --- | --- |
//! | `account_binding` | the account that the database belongs to |
//! | `quarantine` | entries that fail in isolation |
//! | `request` | requests of a command beside the daemon |

pub(super) mod account_binding;
pub(super) mod quarantine;
pub(super) mod request;
