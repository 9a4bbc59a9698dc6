//! Bulk insertion: `INSERT … VALUES` with hundreds of rows bound at once, or `unnest` of an
//! array for each column on PostgreSQL.
//!
//! A statement crosses to the connection's thread and back, so one per row would be many times slower. One
//! JSON text for all rows (`json_each`) is simpler and takes twice as long. The longer code pays only for
//! thousands of rows at once, as in a page of balances.

use super::connection::Connection;
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArguments, PgBindIterExt as _, PgConnection};
use sqlx::sqlite::{SqliteArguments, SqliteConnection};
use sqlx::{Arguments as _, AssertSqlSafe};
use std::sync::{Arc, OnceLock};

/// Numbers of rows per statement: the largest that fits, then smaller ones, then one filled up by repetition.
/// Few sizes, so each statement is prepared once and kept.
const ROWS_PER_STATEMENT: [usize; 4] = [1000, 250, 50, 10];

/// Insertion of rows whose first column is equal in all of them and is bound once. The last statement repeats
/// its last row until it is full, so `conflict_clause` must make a repeated row change nothing. The repeated
/// rows cost less than another round trip to the connection's thread.
///
/// `COLUMNS` is the number of columns besides the first.
pub(in crate::store) struct BulkInsert<const COLUMNS: usize> {
    pub(in crate::store) target: &'static str,
    /// Conflict clause for rows that exist.
    pub(in crate::store) conflict_clause: &'static str,
    /// Texts of the statements, with the conflict clause and without, built once because they are long.
    pub(in crate::store) statements: OnceLock<[[String; ROWS_PER_STATEMENT.len()]; 2]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum RowConflicts {
    Possible,
    /// No row exists and none comes twice.
    ///
    /// SQLite then keeps no statement journal; if a statement fails, the transaction must be rolled back.
    Impossible,
}

/// Value of a column; a column has one variant in all rows.
pub(in crate::store) enum BulkValue {
    Integer(Option<i64>),
    Text(Option<Arc<str>>),
    Flag(Option<bool>),
}

impl BulkValue {
    fn bind(self, bound: &mut SqliteArguments) -> Result<(), BoxDynError> {
        match self {
            Self::Integer(value) => bound.add(value),
            Self::Text(value) => bound.add(value),
            Self::Flag(value) => bound.add(value),
        }
    }

    fn integer(&self) -> Option<i64> {
        if let Self::Integer(value) = self { *value } else { None }
    }

    fn text(&self) -> Option<&str> {
        if let Self::Text(value) = self { value.as_deref() } else { None }
    }

    fn flag(&self) -> Option<bool> {
        if let Self::Flag(value) = self { *value } else { None }
    }
}

/// Returns a text for binding with one copy; a `&str` would be copied and then boxed.
pub(in crate::store) fn shared_text(text: &str) -> Arc<str> {
    Arc::from(text)
}

impl<const COLUMNS: usize> BulkInsert<COLUMNS> {
    /// Writes the rows and returns the number that the database changed.
    pub(in crate::store) async fn insert_rows<R>(
        &'static self,
        to: &mut Connection,
        first: Option<i64>,
        (rows, are): (&[R], RowConflicts),
        columns: impl Fn(&R) -> [BulkValue; COLUMNS] + Copy,
    ) -> Result<u64, sqlx::Error> {
        match to {
            Connection::Sqlite(to) => self.insert_into_sqlite(to, first, (rows, are), columns).await,
            Connection::Postgres(to) => {
                self.insert_into_postgres(&mut to.connection, first, (rows, are), columns).await
            }
        }
    }

    /// While SQLite executes a statement on its thread, the values of the next are bound on this one.
    async fn insert_into_sqlite<R>(
        &'static self,
        to: &mut SqliteConnection,
        first: Option<i64>,
        (mut rows, are): (&[R], RowConflicts),
        columns: impl Fn(&R) -> [BulkValue; COLUMNS] + Copy,
    ) -> Result<u64, sqlx::Error> {
        let mut changed = 0;
        let mut next = self.next_statement(first, (&mut rows, are), columns)?;
        while let Some((text, bound)) = next {
            let statement = sqlx::query_with(text, bound).execute(&mut *to);
            let (done, then) =
                tokio::join!(statement, async { self.next_statement(first, (&mut rows, are), columns) });
            changed += done?.rows_affected();
            next = then?;
        }
        Ok(changed)
    }

    /// Inserts all rows at once, without repetition: an upsert of PostgreSQL refuses a row that it just wrote.
    async fn insert_into_postgres<R>(
        &self,
        to: &mut PgConnection,
        first: Option<i64>,
        (rows, are): (&[R], RowConflicts),
        columns: impl Fn(&R) -> [BulkValue; COLUMNS] + Copy,
    ) -> Result<u64, sqlx::Error> {
        let rows: Vec<[BulkValue; COLUMNS]> = rows.iter().map(columns).collect();
        let Some(one) = rows.first() else { return Ok(0) };
        let mut arrays = PgArguments::default();
        arrays.add(first).map_err(sqlx::Error::Encode)?;
        for (at, value) in one.iter().enumerate() {
            let column = rows.iter().map(|row| &row[at]);
            let added = match value {
                BulkValue::Integer(_) => arrays.add(column.map(BulkValue::integer).bind_iter()),
                BulkValue::Text(_) => arrays.add(column.map(BulkValue::text).bind_iter()),
                BulkValue::Flag(_) => arrays.add(column.map(BulkValue::flag).bind_iter()),
            };
            added.map_err(sqlx::Error::Encode)?;
        }
        let others: Vec<String> = (2..COLUMNS + 2).map(|column| format!("${column}")).collect();
        let conflict_clause = if are == RowConflicts::Impossible { "" } else { self.conflict_clause };
        let text = format!(
            "INSERT INTO {} SELECT $1, u.* FROM unnest({}) u {conflict_clause}",
            self.target,
            others.join(", ")
        );
        Ok(sqlx::query_with(AssertSqlSafe(text), arrays).execute(to).await?.rows_affected())
    }

    /// Takes the next rows off the list and returns their statement with its bound values.
    fn next_statement<R>(
        &'static self,
        first: Option<i64>,
        (rows, are): (&mut &[R], RowConflicts),
        columns: impl Fn(&R) -> [BulkValue; COLUMNS] + Copy,
    ) -> Result<Option<(&'static str, SqliteArguments)>, sqlx::Error> {
        let Some(last) = rows.len().checked_sub(1) else { return Ok(None) };
        let whole = ROWS_PER_STATEMENT[..3].iter().position(|size| *size <= rows.len());
        let which = whole.unwrap_or(if last < ROWS_PER_STATEMENT[3] { 3 } else { 2 });
        let mut bound = SqliteArguments::default();
        bound.reserve(1 + ROWS_PER_STATEMENT[which] * COLUMNS, 0);
        for index in 0..ROWS_PER_STATEMENT[which] {
            for value in columns(&rows[index.min(last)]) {
                value.bind(&mut bound).map_err(sqlx::Error::Encode)?;
            }
        }
        bound.add(first).map_err(sqlx::Error::Encode)?;
        let texts = self.statements.get_or_init(|| {
            [("INSERT", self.conflict_clause), ("INSERT OR FAIL", "")]
                .map(|(insert, tail)| ROWS_PER_STATEMENT.map(|size| self.statement_text(insert, size, tail)))
        });
        let without_clause = are == RowConflicts::Impossible && whole.is_some();
        *rows = &rows[ROWS_PER_STATEMENT[which].min(rows.len())..];
        Ok(Some((&texts[usize::from(without_clause)][which], bound)))
    }

    fn statement_text(&self, insert: &str, rows: usize, tail: &str) -> String {
        // sqlx numbers anonymous parameters separately, so the named one stands after all of them.
        let row = format!("(${}{})", 1 + rows * COLUMNS, ",?".repeat(COLUMNS));
        let others = format!("{row},").repeat(rows - 1);
        format!("{insert} INTO {} VALUES {others}{row} {tail}", self.target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqlx::Connection as _;

    #[tokio::test]
    async fn every_row_is_written_once_whatever_their_number() {
        let memory = SqliteConnection::connect("sqlite::memory:").await.unwrap();
        let mut memory = Connection::Sqlite(memory);
        memory.run("CREATE TABLE t (same, n INTEGER PRIMARY KEY, x)").await.unwrap();
        static T: BulkInsert<2> = BulkInsert {
            target: "t (same, n, x)",
            conflict_clause: "ON CONFLICT (n) DO NOTHING",
            statements: OnceLock::new(),
        };
        let rows: Vec<i64> = (0..1366).collect();
        let columns =
            |n: &i64| [BulkValue::Integer(Some(*n)), BulkValue::Text(Some(shared_text(&n.to_string())))];
        assert_eq!(
            T.insert_rows(&mut memory, Some(7), (&rows, RowConflicts::Impossible), columns).await.unwrap(),
            1366
        );
        let again =
            T.insert_rows(&mut memory, Some(8), (&rows, RowConflicts::Possible), columns).await.unwrap();
        assert_eq!(again, 0, "they are there already");
        assert!(
            T.insert_rows(&mut memory, Some(8), (&rows, RowConflicts::Impossible), columns).await.is_err(),
            "they are not new"
        );
        assert_eq!(
            T.insert_rows(&mut memory, None, (&[], RowConflicts::Impossible), columns).await.unwrap(),
            0
        );
        let sum = "SELECT sum(n) FROM t WHERE x = CAST(n AS TEXT) AND same = 7";
        let sums: Vec<(i64,)> = memory.rows(sum, ()).await.unwrap();
        assert_eq!(sums, [(1365 * 1366 / 2,)]);
    }
}
