//! Sync: the jobs that read the platform into the mirror, one file per job, and the care of the database.
//!
//! | files | subject |
//! | --- | --- |
//! | `balances`, `order_lines`, `reports` | the polls of SKUs, of orders, of figures |
//! | `lists` | the polls of lists, of whole ones and of one entry each |
//! | `entry_reads`, `read_summary`, `page_size` | reads of one entry per call, their summary, the page size |
//! | `prefetch` | reads between the passes, with spare calls |
//! | `lookup`, `verify` | reads on request of an operator or the start |
//! | `prune`, `backup` | the journal's age and size, copies of the database |

pub(crate) mod backup;
pub(crate) mod balances;
mod entry_reads;
pub(crate) mod lists;
mod lookup;
pub(crate) mod order_lines;
mod page_size;
mod prefetch;
pub(crate) mod prune;
mod read_summary;
pub(crate) mod reports;
mod verify;

pub use lookup::lists_any_warehouse;
pub(crate) use lookup::{find_products, read_components};
pub(crate) use prefetch::prefetch_balances;
pub(crate) use prefetch::{PREFETCH_INTERVAL, read_named_orders};
pub use prune::{PruneOptions, PruneReport, prune_journal};
pub(crate) use verify::MirrorDifference;
pub(crate) use verify::VERIFY_CALLS;
pub use verify::{VerifyReport, verify_mirror};
