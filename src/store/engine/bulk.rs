//! Bulk insertion: `INSERT … VALUES` with hundreds of rows bound at once.
//!
//! A statement crosses to the connection's thread and back, so one per row would be many times slower. One
//! JSON text for all rows (`json_each`) is simpler and takes twice as long. The longer code pays only for
//! thousands of rows at once, as in a page of balances.

use super::connection::Connection;
use super::values::StatementValues;
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArguments, PgConnection};
use sqlx::sqlite::{SqliteArguments, SqliteConnection};
use sqlx::{Arguments as _, AssertSqlSafe};
use std::sync::{Arc, OnceLock};

/// Numbers of rows per statement: the largest that fits, then smaller ones, then one filled up by repetition.
/// Few sizes, so each statement is prepared once and kept.
const ROWS_PER_STATEMENT: [usize; 4] = [1000, 250, 50, 10];

/// Insertion of rows whose first column is equal in all of them and is bound once. The last statement repeats
/// its last row until it is full, so `conflict_clause` must make a repeated row change nothing. The repeated
/// rows cost less than another round trip to the connection's thread.
pub(in crate::store) struct BulkInsert {
    pub(in crate::store) target: &'static str,
    /// Number of columns besides the first.
    pub(in crate::store) columns: usize,
    /// Conflict clause for rows that exist.
    pub(in crate::store) conflict_clause: &'static str,
    /// Texts of the statements, with the conflict clause and without. They are built once because they are
    /// thousands of characters long.
    pub(in crate::store) statements: OnceLock<[[String; ROWS_PER_STATEMENT.len()]; 2]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum RowConflicts {
    /// Rows may exist.
    Possible,
    /// No row exists and none comes twice.
    ///
    /// SQLite then keeps no statement journal; if a statement fails, the transaction must be rolled back.
    Impossible,
}

/// Function that binds a row's columns in order, without the first.
pub(super) type BindColumns<R> = fn(&R, &mut StatementValues) -> Result<(), BoxDynError>;

/// Returns a text for binding with one copy; a `&str` would be copied and then boxed.
pub(in crate::store) fn shared_text(text: &str) -> Arc<str> {
    Arc::from(text)
}

impl BulkInsert {
    /// Writes the rows and returns the number that the database changed.
    pub(in crate::store) async fn insert_rows<R>(
        &'static self,
        to: &mut Connection,
        first: Option<i64>,
        (rows, are): (&[R], RowConflicts),
        bind: BindColumns<R>,
    ) -> Result<u64, sqlx::Error> {
        match to {
            Connection::Sqlite(to) => self.insert_into_sqlite(to, first, (rows, are), bind).await,
            Connection::Postgres(to) => {
                self.insert_into_postgres(&mut to.connection, first, rows, bind).await
            }
        }
    }

    /// While SQLite executes a statement on its thread, the values of the next are bound on this one.
    async fn insert_into_sqlite<R>(
        &'static self,
        to: &mut SqliteConnection,
        first: Option<i64>,
        (mut rows, are): (&[R], RowConflicts),
        bind: BindColumns<R>,
    ) -> Result<u64, sqlx::Error> {
        let mut changed = 0;
        let mut next = self.next_statement(first, (&mut rows, are), bind)?;
        while let Some((text, bound)) = next {
            let statement = sqlx::query_with(text, bound).execute(&mut *to);
            let (done, then) =
                tokio::join!(statement, async { self.next_statement(first, (&mut rows, are), bind) });
            changed += done?.rows_affected();
            next = then?;
        }
        Ok(changed)
    }

    /// No row is repeated, because an upsert of PostgreSQL refuses a row that it just wrote.
    async fn insert_into_postgres<R>(
        &self,
        to: &mut PgConnection,
        first: Option<i64>,
        mut rows: &[R],
        bind: BindColumns<R>,
    ) -> Result<u64, sqlx::Error> {
        let mut changed = 0;
        while !rows.is_empty() {
            let size = ROWS_PER_STATEMENT.into_iter().find(|size| *size <= rows.len()).unwrap_or(rows.len());
            let mut values = StatementValues::Postgres(PgArguments::default());
            for row in &rows[..size] {
                bind(row, &mut values).map_err(sqlx::Error::Encode)?;
            }
            values.add(first).map_err(sqlx::Error::Encode)?;
            let text = AssertSqlSafe(self.postgres_text(size));
            let statement = sqlx::query_with(text, values.into_postgres());
            changed += statement.execute(&mut *to).await?.rows_affected();
            rows = &rows[size..];
        }
        Ok(changed)
    }

    fn postgres_text(&self, rows: usize) -> String {
        let first = 1 + rows * self.columns;
        let row = |row: usize| {
            let others = (1..=self.columns).map(|column| format!(",${}", row * self.columns + column));
            format!("(${first}{})", others.collect::<String>())
        };
        let rows: Vec<String> = (0..rows).map(row).collect();
        format!("INSERT INTO {} VALUES {} {}", self.target, rows.join(","), self.conflict_clause)
    }

    /// Takes the next rows off the list and returns their statement with its bound values.
    fn next_statement<R>(
        &'static self,
        first: Option<i64>,
        (rows, are): (&mut &[R], RowConflicts),
        bind: BindColumns<R>,
    ) -> Result<Option<(&'static str, SqliteArguments)>, sqlx::Error> {
        let Some(last) = rows.len().checked_sub(1) else { return Ok(None) };
        let whole = ROWS_PER_STATEMENT[..3].iter().position(|size| *size <= rows.len());
        let which = whole.unwrap_or(if last < ROWS_PER_STATEMENT[3] { 3 } else { 2 });
        let mut bound = SqliteArguments::default();
        bound.reserve(1 + ROWS_PER_STATEMENT[which] * self.columns, 0);
        let mut values = StatementValues::Sqlite(bound);
        for index in 0..ROWS_PER_STATEMENT[which] {
            bind(&rows[index.min(last)], &mut values).map_err(sqlx::Error::Encode)?;
        }
        values.add(first).map_err(sqlx::Error::Encode)?;
        let texts = self.statements.get_or_init(|| {
            [("INSERT", self.conflict_clause), ("INSERT OR FAIL", "")]
                .map(|(insert, tail)| ROWS_PER_STATEMENT.map(|size| self.statement_text(insert, size, tail)))
        });
        let without_clause = are == RowConflicts::Impossible && whole.is_some();
        *rows = &rows[ROWS_PER_STATEMENT[which].min(rows.len())..];
        Ok(Some((&texts[usize::from(without_clause)][which], values.into_sqlite())))
    }

    fn statement_text(&self, insert: &str, rows: usize, tail: &str) -> String {
        // sqlx numbers anonymous parameters separately, so the named one stands after all of them.
        let row = format!("(${}{})", 1 + rows * self.columns, ",?".repeat(self.columns));
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
        static T: BulkInsert = BulkInsert {
            target: "t (same, n, x)",
            columns: 2,
            conflict_clause: "ON CONFLICT (n) DO NOTHING",
            statements: OnceLock::new(),
        };
        let rows: Vec<i64> = (0..1366).collect();
        let bind: BindColumns<i64> = |n, bound| {
            bound.add(*n)?;
            bound.add(shared_text(&n.to_string()))
        };
        assert_eq!(
            T.insert_rows(&mut memory, Some(7), (&rows, RowConflicts::Impossible), bind).await.unwrap(),
            1366
        );
        let again = T.insert_rows(&mut memory, Some(8), (&rows, RowConflicts::Possible), bind).await.unwrap();
        assert_eq!(again, 0, "they are there already");
        assert!(
            T.insert_rows(&mut memory, Some(8), (&rows, RowConflicts::Impossible), bind).await.is_err(),
            "they are not new"
        );
        assert_eq!(T.insert_rows(&mut memory, None, (&[], RowConflicts::Impossible), bind).await.unwrap(), 0);
        let sum = "SELECT sum(n) FROM t WHERE x = CAST(n AS TEXT) AND same = 7";
        let sums: Vec<(i64,)> = memory.rows(sum, ()).await.unwrap();
        assert_eq!(sums, [(1365 * 1366 / 2,)]);
    }
}
