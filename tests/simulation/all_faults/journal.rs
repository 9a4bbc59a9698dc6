//! The journal as bytes, for a comparison of two worlds of one seed.
//!
//! It is all rows of the journal's tables, in order, with times and positions. It leaves out
//! `session.boot_id`, which names the boot of the real machine. Changes are not part of the journal, but
//! their transitions are stored beside it and are compared too, without their ids. The time of insertion that
//! SQLite writes is real until the world sets it, and stands in no table of this list.

use sqlx::{Row, SqliteConnection, TypeInfo, ValueRef};
use std::fmt::Write as _;

const TABLES: [(&str, &str); 7] = [
    ("session", "SELECT id, version, started_ms, ended_ms FROM session ORDER BY id"),
    ("run", "SELECT * FROM run ORDER BY id"),
    ("exchange", "SELECT * FROM exchange ORDER BY id"),
    ("body", "SELECT * FROM body ORDER BY id"),
    ("event", "SELECT * FROM event ORDER BY position"),
    ("change_transition", "SELECT * FROM change_transition ORDER BY change_id, revision"),
    (
        "outbox",
        "SELECT id, key, state, reason, detail, position, base_quantity, base_own_delta, base_ms, \
         exchange_id, written, state_changed_ms FROM outbox ORDER BY id",
    ),
];

/// The rows of a journal, by table.
#[derive(Debug, Default)]
pub struct Journal(Vec<(&'static str, Vec<String>)>);

impl Journal {
    pub async fn read(database: &mut SqliteConnection) -> Self {
        let mut tables = Vec::new();
        for (table, sql) in TABLES {
            let rows = sqlx::query(sql).fetch_all(&mut *database).await.unwrap();
            tables.push((table, rows.iter().map(line).collect()));
        }
        Self(tables)
    }

    /// Returns the first row that differs.
    pub fn differs(&self, other: &Self) -> Option<String> {
        for ((table, mine), (_, theirs)) in self.0.iter().zip(&other.0) {
            for number in 0..mine.len().max(theirs.len()) {
                let (mine, theirs) = (mine.get(number), theirs.get(number));
                if mine != theirs {
                    return Some(format!("{table}, row {number}:\n{mine:?}\n{theirs:?}"));
                }
            }
        }
        None
    }

    pub fn rows(&self) -> usize {
        self.0.iter().map(|(_, rows)| rows.len()).sum()
    }
}

fn line(row: &sqlx::sqlite::SqliteRow) -> String {
    let mut line = String::new();
    for column in 0..row.len() {
        let value = row.try_get_raw(column).unwrap();
        let kind = value.type_info().name().to_owned();
        let text = match kind.as_str() {
            _ if value.is_null() => "-".to_owned(),
            "INTEGER" => row.get::<i64, _>(column).to_string(),
            "REAL" => row.get::<f64, _>(column).to_string(),
            "BLOB" => format!("{:02x?}", row.get::<Vec<u8>, _>(column)),
            _ => row.get::<String, _>(column),
        };
        let _ = write!(line, "{text}|");
    }
    line
}
