//! Commands on the journal and the database: `job`, `journal`, `replay`, `backup`, `restore`, `restored` and `move`.

pub(in crate::cli) mod backup;
pub(in crate::cli) mod entries;
pub(in crate::cli) mod job;
pub(in crate::cli) mod move_database;
pub(in crate::cli) mod replay;
pub(in crate::cli) mod restored;
