//! The database of either engine: connections, transactions, values and rows; the file with its lock and copies.

pub(super) mod backup;
pub(super) mod bulk;
pub(super) mod catalog;
mod columns;
pub(super) mod connection;
pub(super) mod error;
pub(super) mod fetch;
pub(super) mod files;
pub(super) mod leadership;
pub(super) mod location;
pub(super) mod lock;
pub(super) mod lossy_text;
pub(in crate::store) mod migrations;
pub(super) mod move_database;
mod moved_mark;
pub(super) mod open;
mod position_file;
pub(super) mod postgres;
pub(super) mod postgres_database;
pub(super) mod reader;
mod rights;
pub(super) mod rollback_detection;
pub(super) mod server_check;
pub(super) mod table_rows;
mod values;
pub(super) mod watch;
pub(super) mod write_transaction;
