//! Rows in one form for both engines, to move and to compare them.
//!
//! The form is that of PostgreSQL's binary `COPY`: the number of columns, then each value as its length and
//! bytes; NULL has the length -1. Each column has one type on both engines, because SQLite's tables are STRICT.
//!
//! PostgreSQL refuses some texts that SQLite stores: bytes that are no UTF-8, U+0000, and in JSON `\u0000` or
//! half a surrogate pair. Each becomes U+FFFD, as every command shows the first of them already. A refusal
//! would keep an account from a server for ever, because a change with such a text is never deleted. Each row
//! with such a text is reported.

use super::connection::Connection;
use super::error::SqlContext;
use crate::model::{storable_json, storable_text};
use crate::store::Result;
use sha2::{Digest as _, Sha256};
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgConnection, PgCopyIn, PgRow};
use sqlx::sqlite::{SqliteArguments, SqliteConnection, SqliteRow};
use sqlx::{Arguments as _, AssertSqlSafe, Decode, Row as _, Sqlite, ValueRef as _};
use std::borrow::Cow;
use std::future::poll_fn;

/// Rows of one INSERT into SQLite. With 25 columns they stay below SQLite's 32,766 values.
const ROWS_PER_INSERT: usize = 200;
/// Bytes that are collected before they are sent to a server.
const SEND_BYTES: usize = 64 * 1024;

/// First bytes of a binary COPY: its signature, no flags, no extension.
const COPY_HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
/// Last bytes of a binary COPY: a row of -1 columns.
const COPY_TRAILER: [u8; 2] = (-1_i16).to_be_bytes();

/// Columns of a schema's tables, a referenced table before the tables that reference it.
const SHARED_COLUMNS: &str = "WITH RECURSIVE level (id, n) AS (
    SELECT oid, 0 FROM pg_class
    WHERE relnamespace = CAST(current_schema() AS regnamespace) AND relkind = 'r'
      AND relname <> '_sqlx_migrations'
    UNION ALL SELECT conrelid, n + 1 FROM level JOIN pg_constraint ON confrelid = id AND contype = 'f')
SELECT CAST(c.relname AS TEXT), CAST(a.attname AS TEXT), format_type(a.atttypid, NULL),
       EXISTS (SELECT 1 FROM pg_constraint k WHERE k.conrelid = c.oid AND k.contype = 'c'
               AND pg_get_constraintdef(k.oid) LIKE '%json_valid(' || a.attname || ')%')
FROM (SELECT id, max(n) AS n FROM level GROUP BY id) l JOIN pg_class c ON c.oid = l.id
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY l.n, c.relname, a.attnum";

/// Text that PostgreSQL refuses, stored with U+FFFD in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplacedText {
    /// Table.
    pub table: String,
    /// Column.
    pub column: String,
    /// First column of the row and its value, such as `id 17`.
    pub row: String,
}

/// Number of a table's rows and the sum of their hashes, which does not depend on the order of the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TableSum {
    pub(super) rows: u64,
    digest: u128,
}

/// Table of both engines.
#[derive(Debug)]
pub(super) struct SharedTable {
    pub(super) name: String,
    columns: Vec<SharedColumn>,
}

#[derive(Debug)]
struct SharedColumn {
    name: String,
    kind: ColumnKind,
    /// True if the column holds JSON that PostgreSQL checks.
    is_json: bool,
}

/// Type of a column on both engines; a flag is 0 or 1 in SQLite.
#[derive(Clone, Copy, Debug)]
enum ColumnKind {
    Flag,
    Integer,
    Fraction,
    Text,
    Bytes,
}

/// Returns the connection to a file and that to a server, of one each.
pub(super) fn file_and_server<'a>(
    one: &'a mut Connection,
    other: &'a mut Connection,
) -> (&'a mut Connection, &'a mut Connection) {
    match one {
        Connection::Sqlite(_) => (one, other),
        Connection::Postgres(_) => (other, one),
    }
}

/// Returns the tables of both databases, of which one is a file. Each engine has tables of its own, and
/// programs may add theirs.
pub(super) async fn shared_tables(one: &mut Connection, other: &mut Connection) -> Result<Vec<SharedTable>> {
    let (file, server) = file_and_server(one, other);
    let sql = "SELECT name FROM sqlite_schema WHERE type = 'table'";
    let of_file: Vec<(String,)> = file.rows(sql, ()).await.context("list the tables")?;
    let found = server.rows(SHARED_COLUMNS, ()).await.context("list the tables")?;
    let mut tables: Vec<SharedTable> = Vec::new();
    for (table, name, type_name, is_json) in found {
        let type_name: String = type_name;
        let kind = match type_name.as_str() {
            "boolean" => ColumnKind::Flag,
            "bigint" => ColumnKind::Integer,
            "double precision" => ColumnKind::Fraction,
            "text" => ColumnKind::Text,
            "bytea" => ColumnKind::Bytes,
            other => {
                return Err(sqlx::Error::TypeNotFound { type_name: other.into() }).context("list the tables");
            }
        };
        let column = SharedColumn { name, kind, is_json };
        match tables.last_mut() {
            Some(last) if last.name == table => last.columns.push(column),
            _ => tables.push(SharedTable { name: table, columns: vec![column] }),
        }
    }
    tables.retain(|table| of_file.iter().any(|(name,)| *name == table.name));
    Ok(tables)
}

impl TableSum {
    fn add_row(&mut self, row: &[u8]) {
        let hash = Sha256::digest(row);
        let half = hash.first_chunk().map_or(0, |half| u128::from_be_bytes(*half));
        self.rows += 1;
        self.digest = self.digest.wrapping_add(half);
    }
}

impl SharedTable {
    fn column_names(&self) -> String {
        let names: Vec<&str> = self.columns.iter().map(|column| column.name.as_str()).collect();
        names.join(", ")
    }

    /// Reads all rows and passes each to `take`. `replaced` gets the rows whose text is not stored as it is.
    pub(super) async fn read_rows(
        &self,
        from: &mut Connection,
        replaced: &mut Vec<ReplacedText>,
        mut take: impl AsyncFnMut(Vec<u8>) -> sqlx::Result<()>,
    ) -> sqlx::Result<TableSum> {
        let mut sum = TableSum::default();
        match from {
            Connection::Sqlite(from) => {
                let sql = format!("SELECT {} FROM {}", self.column_names(), self.name);
                let mut rows = sqlx::query(AssertSqlSafe(sql)).persistent(false).fetch(from);
                while let Some(row) = poll_fn(|cx| rows.as_mut().poll_next(cx)).await {
                    let row = self.encode_sqlite(&row?, replaced).map_err(sqlx::Error::Decode)?;
                    sum.add_row(&row);
                    take(row).await?;
                }
            }
            Connection::Postgres(from) => {
                // SQLite has no negative zero.
                let read = |column: &SharedColumn| match column.kind {
                    ColumnKind::Fraction => format!("{} + 0", column.name),
                    _ => column.name.clone(),
                };
                let columns: Vec<String> = self.columns.iter().map(read).collect();
                let sql = format!("SELECT {} FROM {}", columns.join(", "), self.name);
                let mut rows = sqlx::query(AssertSqlSafe(sql)).persistent(false).fetch(&mut from.connection);
                while let Some(row) = poll_fn(|cx| rows.as_mut().poll_next(cx)).await {
                    let row = encode_postgres(&row?).map_err(sqlx::Error::Decode)?;
                    sum.add_row(&row);
                    take(row).await?;
                }
            }
        }
        Ok(sum)
    }

    fn encode_sqlite(
        &self,
        row: &SqliteRow,
        replaced: &mut Vec<ReplacedText>,
    ) -> Result<Vec<u8>, BoxDynError> {
        let mut encoded = begin_row(self.columns.len())?;
        for (index, column) in self.columns.iter().enumerate() {
            let value = row.try_get_raw(index)?;
            if value.is_null() {
                put_value(&mut encoded, None)?;
                continue;
            }
            match column.kind {
                ColumnKind::Flag => {
                    let flag = u8::try_from(<i64 as Decode<Sqlite>>::decode(value)?)?;
                    put_value(&mut encoded, Some(&[flag]))?;
                }
                ColumnKind::Integer => {
                    let number = <i64 as Decode<Sqlite>>::decode(value)?;
                    put_value(&mut encoded, Some(&number.to_be_bytes()))?;
                }
                ColumnKind::Fraction => {
                    let number = <f64 as Decode<Sqlite>>::decode(value)?;
                    put_value(&mut encoded, Some(&number.to_be_bytes()))?;
                }
                ColumnKind::Bytes => {
                    put_value(&mut encoded, Some(<&[u8] as Decode<Sqlite>>::decode(value)?))?
                }
                ColumnKind::Text => {
                    let stored = <&[u8] as Decode<Sqlite>>::decode(value)?;
                    let text = stored_text(stored, column.is_json);
                    if text.as_bytes() != stored {
                        let row = self.row_name(&encoded, &text);
                        replaced.push(ReplacedText {
                            table: self.name.clone(),
                            column: column.name.clone(),
                            row,
                        });
                    }
                    put_value(&mut encoded, Some(text.as_bytes()))?;
                }
            }
        }
        Ok(encoded)
    }

    /// Returns the name and the value of the first column; `current` is its value while it is being encoded.
    fn row_name(&self, encoded: &[u8], current: &str) -> String {
        let Some(first) = self.columns.first() else { return String::new() };
        let value = match (first.kind, values(encoded).next().flatten()) {
            (ColumnKind::Integer, Some(value)) => {
                value.first_chunk().map_or(0, |bytes| i64::from_be_bytes(*bytes)).to_string()
            }
            (_, Some(value)) => String::from_utf8_lossy(value).into_owned(),
            (_, None) => current.to_owned(),
        };
        format!("{} {value}", first.name)
    }

    fn bind_row(&self, row: &[u8], bound: &mut SqliteArguments) -> Result<(), BoxDynError> {
        for (column, value) in self.columns.iter().zip(values(row)) {
            match (value, column.kind) {
                (None, _) => bound.add(None::<i64>)?,
                (Some(value), ColumnKind::Flag) => bound.add(value.first().copied().map(i64::from))?,
                (Some(value), ColumnKind::Integer) => bound.add(i64::from_be_bytes(value.try_into()?))?,
                (Some(value), ColumnKind::Fraction) => bound.add(f64::from_be_bytes(value.try_into()?))?,
                (Some(value), ColumnKind::Text) => bound.add(str::from_utf8(value)?.to_owned())?,
                (Some(value), ColumnKind::Bytes) => bound.add(value.to_vec())?,
            }
        }
        Ok(())
    }
}

/// Writer of rows into a table that holds none of them.
pub(super) enum RowWriter<'a> {
    Sqlite { to: &'a mut SqliteConnection, table: &'a SharedTable, rows: Vec<Vec<u8>> },
    Postgres { copy: PgCopyIn<&'a mut PgConnection>, unsent: Vec<u8> },
}

impl<'a> RowWriter<'a> {
    pub(super) async fn begin(to: &'a mut Connection, table: &'a SharedTable) -> sqlx::Result<Self> {
        Ok(match to {
            Connection::Sqlite(to) => Self::Sqlite { to, table, rows: Vec::new() },
            Connection::Postgres(to) => {
                let (name, columns) = (&table.name, table.column_names());
                let sql = format!("COPY {name} ({columns}) FROM STDIN (FORMAT binary)");
                let copy = to.connection.copy_in_raw(&sql).await?;
                Self::Postgres { copy, unsent: COPY_HEADER.to_vec() }
            }
        })
    }

    pub(super) async fn add_row(&mut self, row: Vec<u8>) -> sqlx::Result<()> {
        match self {
            Self::Sqlite { to, table, rows } => {
                rows.push(row);
                if rows.len() == ROWS_PER_INSERT {
                    insert_rows(to, table, rows).await?;
                    rows.clear();
                }
            }
            Self::Postgres { copy, unsent } => {
                unsent.extend_from_slice(&row);
                if unsent.len() >= SEND_BYTES {
                    copy.send(unsent.as_slice()).await?;
                    unsent.clear();
                }
            }
        }
        Ok(())
    }

    pub(super) async fn finish(self) -> sqlx::Result<()> {
        match self {
            Self::Sqlite { to, table, rows } => insert_rows(to, table, &rows).await,
            Self::Postgres { mut copy, mut unsent } => {
                unsent.extend_from_slice(&COPY_TRAILER);
                copy.send(unsent).await?;
                copy.finish().await.map(drop)
            }
        }
    }
}

async fn insert_rows(to: &mut SqliteConnection, table: &SharedTable, rows: &[Vec<u8>]) -> sqlx::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let mut bound = SqliteArguments::default();
    for row in rows {
        table.bind_row(row, &mut bound).map_err(sqlx::Error::Encode)?;
    }
    let places = vec![format!("({})", vec!["?"; table.columns.len()].join(",")); rows.len()].join(",");
    let sql = format!("INSERT INTO {} ({}) VALUES {places}", table.name, table.column_names());
    // The statement of a full page serves the whole table; that of the rest is not used again.
    let statement = sqlx::query_with(AssertSqlSafe(sql), bound).persistent(rows.len() == ROWS_PER_INSERT);
    statement.execute(to).await.map(drop)
}

fn encode_postgres(row: &PgRow) -> Result<Vec<u8>, BoxDynError> {
    let mut encoded = begin_row(row.len())?;
    for index in 0..row.len() {
        let value = row.try_get_raw(index)?;
        let bytes = if value.is_null() { None } else { Some(value.as_bytes()?) };
        put_value(&mut encoded, bytes)?;
    }
    Ok(encoded)
}

fn begin_row(columns: usize) -> Result<Vec<u8>, BoxDynError> {
    Ok(i16::try_from(columns)?.to_be_bytes().to_vec())
}

fn put_value(row: &mut Vec<u8>, value: Option<&[u8]>) -> Result<(), BoxDynError> {
    let length = value.map_or(Ok(-1), |value| i32::try_from(value.len()))?;
    row.extend_from_slice(&length.to_be_bytes());
    row.extend_from_slice(value.unwrap_or_default());
    Ok(())
}

/// Returns the values of an encoded row; it ends early if the row is not complete yet.
fn values(row: &[u8]) -> impl Iterator<Item = Option<&[u8]>> {
    let mut rest = row.get(2..).unwrap_or_default();
    std::iter::from_fn(move || {
        let (length, tail) = rest.split_first_chunk()?;
        let length = usize::try_from(i32::from_be_bytes(*length)).ok();
        let (value, tail) = tail.split_at_checked(length.unwrap_or(0))?;
        rest = tail;
        Some(length.map(|_| value))
    })
}

/// Returns text as PostgreSQL stores it.
fn stored_text(stored: &[u8], is_json: bool) -> Cow<'_, str> {
    let text = storable_text(String::from_utf8_lossy(stored));
    if is_json { storable_json(text) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_postgresql_refuses_is_replaced_and_no_other() {
        let cases: [(&[u8], bool, &str); 9] = [
            (b"plain", true, "plain"),
            (b"Caf\xe9", false, "Caf\u{FFFD}"),
            (b"a\0b", false, "a\u{FFFD}b"),
            (br"C:\u0000", false, r"C:\u0000"),
            (br#"{"sku":"a\u0000b"}"#, true, r#"{"sku":"a\ufffdb"}"#),
            (br#"["\\u0000","\n\u00e9"]"#, true, r#"["\\u0000","\n\u00e9"]"#),
            (br#"["\ud83d\ude00"]"#, true, r#"["\ud83d\ude00"]"#),
            (br#"["\ud83d","\ude00","\ud83d\u0041"]"#, true, r#"["\ufffd","\ufffd","\ufffd\u0041"]"#),
            (br#"["\\\u0000"]"#, true, r#"["\\\ufffd"]"#),
        ];
        for (stored, is_json, expected) in cases {
            assert_eq!(stored_text(stored, is_json), expected);
        }
    }

    #[test]
    fn a_row_has_its_values_again() {
        let mut row = begin_row(3).unwrap();
        for value in [Some(&b"x"[..]), None, Some(&[])] {
            put_value(&mut row, value).unwrap();
        }
        assert_eq!(values(&row).collect::<Vec<_>>(), [Some(&b"x"[..]), None, Some(&[])]);
    }

    #[test]
    fn a_sum_is_that_of_the_rows_in_any_order() {
        let sum = |rows: &[&[u8]]| {
            let mut sum = TableSum::default();
            rows.iter().for_each(|row| sum.add_row(row));
            sum
        };
        assert_eq!(sum(&[b"a", b"b"]), sum(&[b"b", b"a"]));
        assert_ne!(sum(&[b"a", b"b"]), sum(&[b"a", b"c"]));
        assert_ne!(sum(&[b"a"]), sum(&[b"a", b"a"]));
    }
}
