//! The outbox's tables: changes, their transitions, and the decisions on them.
//!
//! | file | subject |
//! | --- | --- |
//! | `acknowledge` | acknowledgement of rejected changes by a person |
//! | `brake` | brakes: their input, their trips and their release |
//! | `changes` | changes, as stored |
//! | `evidence` | requests and created objects of changes other than quantities |
//! | `in_doubt` | changes in doubt and their checks |
//! | `resolve` | resolution of a change by a person |
//! | `suspected_absence` | records that one answer lacked |
//! | `transitions` | transitions of changes, and their insertion |

mod acknowledge;
pub(super) mod brake;
pub(super) mod changes;
pub(super) mod evidence;
pub(super) mod in_doubt;
pub(super) mod resolve;
pub(super) mod suspected_absence;
pub(super) mod transitions;
