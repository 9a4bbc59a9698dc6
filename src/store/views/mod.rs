//! Read-only rows for people and for the health judgement.
//!
//! | file | subject |
//! | --- | --- |
//! | `call_stats` | call statistics from the journal |
//! | `change_history` | history of one change |
//! | `explain` | history of one stock level |
//! | `health` | rows for the health judgement |
//! | `status` | rows for `status` and `stock` |
//! | `verify` | rows that `verify` compares |

pub(super) mod call_stats;
pub(super) mod change_history;
pub(super) mod explain;
pub(super) mod health;
pub(super) mod status;
pub(super) mod verify;
