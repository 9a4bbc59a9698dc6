//! The database file: its connections, its transactions, its lock and its copies.
//!
//! | file | subject |
//! | --- | --- |
//! | `backup` | copies of the database, verified and marked |
//! | `bulk` | insertion of many rows with one statement |
//! | `columns` | columns as types of the model |
//! | `connection` | one connection with one user at a time |
//! | `error` | errors, with advice for the operator |
//! | `fetch` | statements of typed rows |
//! | `files` | files in the state directory and their permissions |
//! | `lock` | the lock beside the database |
//! | `lossy_text` | text written by other programs |
//! | `migrations` | migrations, and the check of the schema |
//! | `open` | opening of the database, and write transactions |
//! | `position_file` | the file that reveals a rolled-back database |
//! | `rollback_detection` | detection of a restored copy |
//! | `table_hash` | the hash of each table, for the check of a copy |
//! | `watch` | notification about writes of other programs |

pub(super) mod backup;
pub(super) mod bulk;
mod columns;
pub(super) mod connection;
pub(super) mod error;
pub(super) mod fetch;
pub(super) mod files;
pub(super) mod lock;
pub(super) mod lossy_text;
mod migrations;
pub(super) mod open;
mod position_file;
pub(super) mod rollback_detection;
mod table_hash;
pub(super) mod watch;
