//! The journal as text, for a comparison of two worlds of one seed, also on two engines.
//!
//! It is all rows of the journal's tables, in order, with times and positions. Changes are not part of the
//! journal, but their transitions are stored beside it and are compared too, without their ids. The time of
//! insertion that SQLite writes is real until the world sets it, and stands in no table of this list.

use super::super::outsider::Outsider;
use sqlx::postgres::PgRow;
use sqlx::sqlite::SqliteRow;
use sqlx::{Column, ColumnIndex, Row, TypeInfo, ValueRef};
use std::fmt::Write as _;

const TABLES: [(&str, &str); 7] = [
    ("session", "SELECT id, version, boot_id, started_ms, ended_ms FROM session ORDER BY id"),
    // Both engines store a journal in its own size, which the summary of a prune tells.
    (
        "run",
        "SELECT id, session_id, job, trigger, input, started_ms, ended_ms, outcome, \
         CASE job WHEN 'prune' THEN '' ELSE summary END AS summary FROM run ORDER BY id",
    ),
    // A body's digest stands for its id, which a server gives with gaps.
    (
        "exchange",
        "SELECT e.id, e.run_id, e.session_id, e.operation, e.target, e.lane, e.sent_ms, e.sent_moment, e.ended, \
         e.answered_ms, e.answered_moment, e.verdict, e.status, e.message, e.parked, e.is_ignored, \
         a.digest AS request_body, b.digest AS response_body FROM exchange e \
         LEFT JOIN body a ON a.id = e.request_body_id LEFT JOIN body b ON b.id = e.response_body_id ORDER BY e.id",
    ),
    ("body", "SELECT digest, size, packed FROM body ORDER BY digest"),
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
    pub async fn read(database: &mut Outsider) -> Self {
        let mut tables = Vec::new();
        for (table, sql) in TABLES {
            let lines = match database {
                Outsider::Sqlite(connection) => {
                    let rows = sqlx::query(sql).fetch_all(connection).await.unwrap();
                    rows.iter().map(|row| line(row, file_text)).collect()
                }
                Outsider::Postgres(connection) => {
                    let rows = sqlx::query(sql).fetch_all(connection).await.unwrap();
                    rows.iter().map(|row| line(row, server_text)).collect()
                }
            };
            tables.push((table, lines));
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

/// Returns the columns by name, each in the form of SQLite.
fn line<R: Row>(row: &R, text: impl Fn(&R, usize, &str) -> String) -> String
where
    usize: ColumnIndex<R>,
{
    let mut columns: Vec<(&str, usize)> =
        row.columns().iter().map(|column| (column.name(), column.ordinal())).collect();
    columns.sort_unstable();
    let mut line = String::new();
    for (name, column) in columns {
        let value = row.try_get_raw(column).unwrap();
        let kind = value.type_info().name().to_owned();
        let text = if value.is_null() { "-".to_owned() } else { text(row, column, &kind) };
        let _ = write!(line, "{name}={}|", without_form_keys(&text));
    }
    line
}

/// Leaves the random part out of the keys of forms, `web:DIGEST:FORM`.
fn without_form_keys(text: &str) -> String {
    let mut parts = text.split("web:");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |known, part| {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == ':');
        known + "web:" + rest
    })
}

fn file_text(row: &SqliteRow, column: usize, kind: &str) -> String {
    match kind {
        "INTEGER" => row.get::<i64, _>(column).to_string(),
        "REAL" => row.get::<f64, _>(column).to_string(),
        "BLOB" => format!("{:02x?}", row.get::<Vec<u8>, _>(column)),
        _ => row.get::<String, _>(column),
    }
}

fn server_text(row: &PgRow, column: usize, kind: &str) -> String {
    match kind {
        "INT8" => row.get::<i64, _>(column).to_string(),
        "BOOL" => u8::from(row.get::<bool, _>(column)).to_string(),
        "FLOAT8" => row.get::<f64, _>(column).to_string(),
        "BYTEA" => format!("{:02x?}", row.get::<Vec<u8>, _>(column)),
        _ => row.get::<String, _>(column),
    }
}
