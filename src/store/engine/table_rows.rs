//! Rows of any table in one form for both engines: to move, compare and hash them.
//!
//! A row is a list of [`StoredValue`]s. A flag is 0 or 1, as in SQLite; a fraction has no negative
//! zero, which SQLite does not store.
//!
//! PostgreSQL refuses some texts that SQLite stores: bytes that are no UTF-8, U+0000, and in JSON `\u0000` or
//! half a surrogate pair. Each becomes U+FFFD, as every command shows the first of them already. A refusal
//! would keep an account from a server for ever, because a change with such a text is never deleted. Each row
//! with such a text is reported.

use super::connection::Connection;
use super::error::SqlContext;
use crate::model::{storable_json, storable_text};
use crate::store::Result;
use serde::{Serialize, Serializer};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use sqlx::error::BoxDynError;
use sqlx::postgres::PgRow;
use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, ColumnIndex, Database, Decode, Row, TypeInfo as _, ValueRef as _};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::task::{Context, Poll};

/// Rows of one statement, which holds their bodies in memory.
pub(super) const ROWS_PER_INSERT: usize = 100;

/// Tables of a schema, a referenced table before the tables that reference it.
const TABLES_IN_ORDER: &str = "WITH RECURSIVE level (id, n) AS (
    SELECT oid, 0 FROM pg_class
    WHERE relnamespace = CAST(current_schema() AS regnamespace) AND relkind = 'r'
      AND relname <> '_sqlx_migrations'
    UNION ALL SELECT conrelid, n + 1 FROM level JOIN pg_constraint ON confrelid = id AND contype = 'f')
SELECT CAST(c.relname AS TEXT) FROM level l JOIN pg_class c ON c.oid = l.id
GROUP BY c.relname ORDER BY max(l.n), c.relname";

/// Text that PostgreSQL refuses, stored with U+FFFD in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplacedText {
    pub table: String,
    pub column: String,
    /// First column of the row and its value, such as `id 17`.
    pub row: String,
}

/// Value of a column on either engine. As JSON, a text is never equal to a number or to bytes.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(in crate::store) enum StoredValue {
    Null,
    Integer(i64),
    Fraction(f64),
    Text(String),
    /// Bytes, or a text that is no UTF-8.
    #[serde(serialize_with = "serialize_bytes")]
    Bytes(Vec<u8>),
}

/// Serialises bytes as a list of one text, because a number for each byte would take twice as long to hash.
fn serialize_bytes<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
    let digit = |half: u8| char::from(b"0123456789abcdef"[usize::from(half)]);
    let hex: String = bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect();
    [hex].serialize(to)
}

/// Number of a table's rows and the sum of their hashes, which does not depend on the order of the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TableSum {
    pub(crate) rows: u64,
    digest: u128,
}

/// Name and columns of a table.
#[derive(Debug)]
pub(in crate::store) struct TableColumns {
    pub(in crate::store) name: String,
    columns: Vec<TableColumn>,
}

#[derive(Debug)]
struct TableColumn {
    name: String,
    /// Type, by its name on the engine.
    kind: String,
    /// True if the column holds JSON that the database checks.
    is_json: bool,
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

/// Returns the tables and columns that a file and a server share; each has others of its own.
pub(super) async fn shared_tables(one: &mut Connection, other: &mut Connection) -> Result<Vec<TableColumns>> {
    let (file, server) = file_and_server(one, other);
    let names: Vec<(String,)> = server.rows(TABLES_IN_ORDER, ()).await.context("list the tables")?;
    let mut tables = Vec::new();
    for (name,) in names {
        let of_file = TableColumns::read(file, &name).await?;
        let mut table = TableColumns::read(server, &name).await?;
        table.columns.retain(|column| of_file.names().any(|name| name == column.name));
        tables.extend((!table.columns.is_empty()).then_some(table));
    }
    Ok(tables)
}

/// Reads the rows of a query, to be polled with `poll_fn`.
pub(in crate::store) fn read_rows(
    from: &mut Connection,
    sql: String,
) -> impl FnMut(&mut Context<'_>) -> Poll<Option<sqlx::Result<Vec<StoredValue>>>> + Send {
    let query = AssertSqlSafe(sql);
    let mut rows = match from {
        Connection::Sqlite(from) => {
            sqlx::query(query).persistent(false).try_map(|row: SqliteRow| row_values(&row)).fetch(from)
        }
        Connection::Postgres(from) => {
            let query = sqlx::query(query).persistent(false);
            query.try_map(|row: PgRow| row_values(&row)).fetch(&mut from.connection)
        }
    };
    move |cx| rows.as_mut().poll_next(cx)
}

pub(super) fn row_values<'r, R: Row>(row: &'r R) -> sqlx::Result<Vec<StoredValue>>
where
    usize: ColumnIndex<R>,
    bool: Decode<'r, R::Database>,
    i64: Decode<'r, R::Database>,
    f64: Decode<'r, R::Database>,
    &'r [u8]: Decode<'r, R::Database>,
{
    let value = |index| StoredValue::of::<R::Database>(row.try_get_raw(index)?).map_err(sqlx::Error::Decode);
    (0..row.len()).map(value).collect()
}

impl StoredValue {
    fn of<'r, D: Database>(value: D::ValueRef<'r>) -> Result<Self, BoxDynError>
    where
        bool: Decode<'r, D>,
        i64: Decode<'r, D>,
        f64: Decode<'r, D>,
        &'r [u8]: Decode<'r, D>,
    {
        if value.is_null() {
            return Ok(Self::Null);
        }
        let kind = value.type_info().into_owned();
        Ok(match kind.name() {
            "BOOL" => Self::Integer(<bool as Decode<D>>::decode(value)?.into()),
            "INT8" | "INTEGER" => Self::Integer(Decode::<D>::decode(value)?),
            "FLOAT8" | "REAL" => Self::Fraction(<f64 as Decode<D>>::decode(value)? + 0.0),
            "TEXT" => {
                let bytes = <&[u8] as Decode<D>>::decode(value)?;
                str::from_utf8(bytes)
                    .map_or_else(|_| Self::Bytes(bytes.into()), |text| Self::Text(text.into()))
            }
            "BYTEA" | "BLOB" => Self::Bytes(<&[u8] as Decode<D>>::decode(value)?.into()),
            other => return Err(format!("a value has the unknown type {other}").into()),
        })
    }
}

/// Returns values, or maps of them, as JSON.
pub(in crate::store) fn to_json(of: &impl Serialize) -> String {
    serde_json::to_string(of).expect("values have a form in JSON")
}

/// Returns the sum of each table of a file by name, also of those that programs added.
pub(super) async fn table_sums(file: &mut Connection) -> Result<BTreeMap<String, TableSum>> {
    let sql = "SELECT name FROM pragma_table_list \
               WHERE schema = 'main' AND type = 'table' AND name <> 'sqlite_schema'";
    let mut sums = BTreeMap::new();
    for (table,) in file.rows::<(String,)>(sql, ()).await.context("list the tables")? {
        let query = format!("SELECT * FROM \"{}\"", table.replace('"', "\"\""));
        let sum = TableSum::of(file, query).await.context("compare a table")?;
        sums.insert(table, sum);
    }
    Ok(sums)
}

impl TableSum {
    /// Returns the first half of the hash in hexadecimal digits.
    pub(crate) fn hash(&self) -> String {
        format!("{:016x}", self.digest >> 64)
    }

    /// Sums the rows of a query.
    pub(in crate::store) async fn of(from: &mut Connection, sql: String) -> sqlx::Result<Self> {
        let (mut sum, mut rows) = (Self::default(), read_rows(from, sql));
        while let Some(row) = poll_fn(&mut rows).await {
            sum.add_row(&row?);
        }
        Ok(sum)
    }

    pub(super) fn add_row(&mut self, row: &[StoredValue]) {
        let hash = Sha256::digest(to_json(&row));
        let half = hash.first_chunk().map_or(0, |half| u128::from_be_bytes(*half));
        self.rows += 1;
        self.digest = self.digest.wrapping_add(half);
    }
}

impl TableColumns {
    /// Reads the columns of a table, in their order; none if there is no such table.
    pub(in crate::store) async fn read(from: &mut Connection, table: &str) -> Result<Self> {
        let sql = match from {
            Connection::Sqlite(_) => {
                "SELECT c.name, c.type, instr(t.sql, 'json_valid(' || c.name || ')') > 0 \
                 FROM sqlite_schema t JOIN pragma_table_info(t.name) c \
                 WHERE t.type = 'table' AND t.name = $1 ORDER BY c.cid"
            }
            Connection::Postgres(_) => {
                "SELECT CAST(a.attname AS TEXT), format_type(a.atttypid, NULL), \
                        EXISTS (SELECT 1 FROM pg_constraint k WHERE k.conrelid = a.attrelid AND k.contype = 'c' \
                                AND pg_get_constraintdef(k.oid) LIKE '%json_valid(' || a.attname || ')%') \
                 FROM pg_class t JOIN pg_attribute a ON a.attrelid = t.oid \
                 WHERE t.relnamespace = CAST(current_schema() AS regnamespace) AND t.relname = $1 \
                   AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
            }
        };
        let columns = from.rows(sql, (table,)).await.context("read the columns of a table")?;
        let column = |(name, kind, is_json)| TableColumn { name, kind, is_json };
        Ok(Self { name: table.to_owned(), columns: columns.into_iter().map(column).collect() })
    }

    /// Returns the names of the columns.
    pub(in crate::store) fn names(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|column| column.name.as_str())
    }

    /// Returns the names of the columns as SQL.
    pub(in crate::store) fn list(&self) -> String {
        self.names().collect::<Vec<_>>().join(", ")
    }

    /// Returns the query of all rows.
    pub(in crate::store) fn query(&self) -> String {
        format!("SELECT {} FROM {}", self.list(), self.name)
    }

    /// Returns the statement that inserts the rows of `$1`, a JSON list with a list of values for each.
    pub(in crate::store) fn insertion(&self, to: &Connection) -> AssertSqlSafe<String> {
        let value = |(at, column): (usize, &TableColumn)| match to {
            Connection::Sqlite(_) if column.is_bytes() => format!("unhex(value->{at}->>0)"),
            Connection::Sqlite(_) => format!("value->>{at}"),
            Connection::Postgres(_) if column.is_bytes() => format!("decode(value->{at}->>0, 'hex')"),
            Connection::Postgres(_) => format!("CAST(value->>{at} AS {})", column.kind),
        };
        let values: Vec<String> = self.columns.iter().enumerate().map(value).collect();
        let (name, columns, values) = (&self.name, self.list(), values.join(", "));
        AssertSqlSafe(format!("INSERT INTO {name} ({columns}) SELECT {values} FROM json_each($1)"))
    }

    /// Replaces the texts of a row that PostgreSQL refuses, and reports them.
    pub(super) fn make_storable(&self, row: &mut [StoredValue], replaced: &mut Vec<ReplacedText>) {
        for index in 0..row.len() {
            let Some(column) = self.columns.get(index) else { return };
            let text = match &row[index] {
                StoredValue::Text(text) => Cow::from(text),
                StoredValue::Bytes(bytes) if !column.is_bytes() => String::from_utf8_lossy(bytes),
                _ => continue,
            };
            let stored = stored_text(text, column.is_json);
            if matches!(&row[index], StoredValue::Text(text) if *text == stored) {
                continue;
            }
            row[index] = StoredValue::Text(stored.into_owned());
            let first = json!(row.first());
            let value = first.as_str().map_or_else(|| first.to_string(), str::to_owned);
            replaced.push(ReplacedText {
                table: self.name.clone(),
                column: column.name.clone(),
                row: format!("{} {value}", self.list().split(',').next().unwrap_or_default()),
            });
        }
    }
}

impl TableColumn {
    fn is_bytes(&self) -> bool {
        matches!(self.kind.as_str(), "BLOB" | "bytea")
    }
}

/// Returns text as PostgreSQL stores it.
fn stored_text(text: Cow<'_, str>, is_json: bool) -> Cow<'_, str> {
    let text = storable_text(text);
    if is_json { storable_json(text) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqlx::Connection as _;
    use sqlx::sqlite::SqliteConnection;

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
            assert_eq!(stored_text(String::from_utf8_lossy(stored), is_json), expected);
        }
    }

    #[tokio::test]
    async fn a_fraction_comes_back_from_json_as_it_was() {
        let mut memory = SqliteConnection::connect("sqlite::memory:").await.unwrap();
        // Prices, quantities, and numbers whose digits fill a double.
        let fractions: Vec<f64> = (1..20_000)
            .flat_map(|n| [f64::from(n) / 100.0, f64::from(n) / 7.0, 1e9 / f64::from(n)])
            .collect();
        let rows: Vec<StoredValue> = fractions.iter().copied().map(StoredValue::Fraction).collect();
        let sql = "SELECT atom FROM json_each($1)";
        let read: Vec<f64> =
            sqlx::query_scalar(sql).bind(to_json(&rows)).fetch_all(&mut memory).await.unwrap();
        assert_eq!(read, fractions);
    }

    #[test]
    fn each_value_has_its_form_in_json() {
        let row = [
            StoredValue::Null,
            StoredValue::Integer(-17),
            StoredValue::Fraction(0.1 + 0.2),
            StoredValue::Text("a\tb\\c\r\nÄ\\N".into()),
            StoredValue::Bytes(vec![0, 0xaf]),
        ];
        assert_eq!(to_json(&row), r#"[null,-17,0.30000000000000004,"a\tb\\c\r\nÄ\\N",["00af"]]"#);
    }

    #[test]
    fn a_sum_is_that_of_the_rows_in_any_order() {
        let sum = |rows: &[&str]| {
            let mut sum = TableSum::default();
            rows.iter().for_each(|row| sum.add_row(&[StoredValue::Text((*row).into())]));
            sum
        };
        assert_eq!(sum(&["a", "b"]), sum(&["b", "a"]));
        assert_ne!(sum(&["a", "b"]), sum(&["a", "c"]));
        assert_ne!(sum(&["a"]), sum(&["a", "a"]));
    }

    /// Returns the sums of three tables of 1200 rows with every type, after the statement `change`.
    async fn sums(change: &'static str) -> BTreeMap<String, TableSum> {
        let mut file = Connection::Sqlite(SqliteConnection::connect("sqlite::memory:").await.unwrap());
        let fill = "CREATE TABLE a (id INTEGER PRIMARY KEY, t TEXT, r REAL, b BLOB);
                    CREATE TABLE k (x TEXT, y INTEGER, v, PRIMARY KEY (x, y)) WITHOUT ROWID;
                    CREATE TABLE \"o\"\"dd\" (v);
                    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1200)
                    INSERT INTO a SELECT i, 't''' || i, i / 7.0, x'00ff' FROM n;
                    INSERT INTO k SELECT t, id % 3, NULL FROM a;
                    INSERT INTO \"o\"\"dd\" SELECT id FROM a;";
        file.run(fill).await.unwrap();
        file.run(change).await.unwrap();
        table_sums(&mut file).await.unwrap()
    }

    #[tokio::test]
    async fn any_change_of_any_value_changes_its_tables_sum_and_no_other() {
        let before = sums("SELECT 1").await;
        assert_eq!(before.values().map(|sum| sum.rows).collect::<Vec<_>>(), [1200; 3]);
        assert_eq!(sums("SELECT 2").await, before);
        let changes = [
            ("a", "UPDATE a SET b = x'00fe' WHERE id = 1200"),
            ("a", "UPDATE a SET t = CAST(x'e8' AS TEXT) WHERE id = 1200"),
            ("a", "UPDATE a SET t = NULL WHERE id = 501"),
            ("a", "DELETE FROM a WHERE id = 500"),
            ("k", "UPDATE k SET v = 1 WHERE x = 't''77'"),
            ("k", "DELETE FROM k WHERE x = 't''1000'"),
            ("o\"dd", "UPDATE \"o\"\"dd\" SET v = '7' WHERE v = 7"),
            ("o\"dd", "UPDATE \"o\"\"dd\" SET v = 7.0 WHERE v = 7"),
        ];
        for (table, change) in changes {
            let after = sums(change).await;
            let changed: Vec<&String> = after.keys().filter(|name| after[*name] != before[*name]).collect();
            assert_eq!(changed, [table], "{change}");
        }
    }
}
