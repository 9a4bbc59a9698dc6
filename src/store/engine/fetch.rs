//! Statements with their values as a tuple, in the order of `$1`, `$2` and so on.
//!
//! Rows come as structs or tuples. `action` names the statement in an error, to follow "cannot".

use super::error::SqlContext;
use crate::store::{JournalReader, Result, Store, WriteTransaction};
use sqlx::sqlite::{SqliteArguments, SqliteConnection, SqliteRow};
use sqlx::{Arguments as _, Encode, FromRow, SqlSafeStr, Sqlite, Type};

/// Connection of a statement.
pub(in crate::store) type Connection = SqliteConnection;

pub(in crate::store) trait SqlValues<'q> {
    fn into_arguments(self) -> sqlx::Result<SqliteArguments>;
}

impl SqlValues<'_> for () {
    fn into_arguments(self) -> sqlx::Result<SqliteArguments> {
        Ok(SqliteArguments::default())
    }
}

macro_rules! sql_values_of_tuple {
    ($($value:ident: $of:ident),*) => {
        impl<'q, $($of: Encode<'q, Sqlite> + Type<Sqlite>),*> SqlValues<'q> for ($($of,)*) {
            fn into_arguments(self) -> sqlx::Result<SqliteArguments> {
                let ($($value,)*) = self;
                let mut arguments = SqliteArguments::default();
                $(arguments.add($value).map_err(sqlx::Error::Encode)?;)*
                Ok(arguments)
            }
        }
    };
}

sql_values_of_tuple!(a: A);
sql_values_of_tuple!(a: A, b: B);
sql_values_of_tuple!(a: A, b: B, c: C);
sql_values_of_tuple!(a: A, b: B, c: C, d: D);
sql_values_of_tuple!(a: A, b: B, c: C, d: D, e: E);
sql_values_of_tuple!(a: A, b: B, c: C, d: D, e: E, f: F);
sql_values_of_tuple!(a: A, b: B, c: C, d: D, e: E, f: F, g: G);
sql_values_of_tuple!(a: A, b: B, c: C, d: D, e: E, f: F, g: G, h: H);
sql_values_of_tuple!(a: A, b: B, c: C, d: D, e: E, f: F, g: G, h: H, i: I);
sql_values_of_tuple!(a: A, b: B, c: C, d: D, e: E, f: F, g: G, h: H, i: I, j: J);

pub(in crate::store) trait SqlRow: for<'r> FromRow<'r, SqliteRow> + Send + Unpin {}

impl<R: for<'r> FromRow<'r, SqliteRow> + Send + Unpin> SqlRow for R {}

pub(in crate::store) async fn all<R: SqlRow>(
    from: &mut Connection,
    sql: impl SqlSafeStr,
    values: impl SqlValues<'_>,
    action: &'static str,
) -> Result<Vec<R>> {
    let query = sqlx::query_as_with(sql, values.into_arguments().context(action)?);
    query.fetch_all(from).await.context(action)
}

async fn first<R: SqlRow>(
    from: &mut Connection,
    sql: impl SqlSafeStr,
    values: impl SqlValues<'_>,
    action: &'static str,
) -> Result<Option<R>> {
    let query = sqlx::query_as_with(sql, values.into_arguments().context(action)?);
    query.fetch_optional(from).await.context(action)
}

/// Implements the reading statements: all rows, the first row if there is one, one row, one column of all
/// rows, and one value.
macro_rules! fetch_methods {
    ($of:ty, $self:ident: $receiver:ty, $connection:expr) => {
        impl $of {
            pub(in crate::store) async fn fetch_all<R: SqlRow>(
                $self: $receiver,
                sql: impl SqlSafeStr,
                values: impl SqlValues<'_>,
                action: &'static str,
            ) -> Result<Vec<R>> {
                all(&mut *$connection, sql, values, action).await
            }

            pub(in crate::store) async fn fetch_optional<R: SqlRow>(
                $self: $receiver,
                sql: impl SqlSafeStr,
                values: impl SqlValues<'_>,
                action: &'static str,
            ) -> Result<Option<R>> {
                first(&mut *$connection, sql, values, action).await
            }

            pub(in crate::store) async fn fetch_one<R: SqlRow>(
                $self: $receiver,
                sql: impl SqlSafeStr,
                values: impl SqlValues<'_>,
                action: &'static str,
            ) -> Result<R> {
                $self
                    .fetch_optional(sql, values, action)
                    .await?
                    .ok_or(sqlx::Error::RowNotFound)
                    .context(action)
            }

            pub(in crate::store) async fn fetch_column<T>(
                $self: $receiver,
                sql: impl SqlSafeStr,
                values: impl SqlValues<'_>,
                action: &'static str,
            ) -> Result<Vec<T>>
            where
                (T,): SqlRow,
            {
                Ok($self.fetch_all(sql, values, action).await?.into_iter().map(|(value,)| value).collect())
            }

            pub(in crate::store) async fn fetch_value<T>(
                $self: $receiver,
                sql: impl SqlSafeStr,
                values: impl SqlValues<'_>,
                action: &'static str,
            ) -> Result<T>
            where
                (T,): SqlRow,
            {
                $self.fetch_one(sql, values, action).await.map(|(value,)| value)
            }
        }
    };
}

fetch_methods!(Store, self: &Self, self.read_connection().await?);
fetch_methods!(WriteTransaction, self: &mut Self, self.tx);
fetch_methods!(JournalReader, self: &mut Self, &mut self.connection);

impl WriteTransaction {
    pub(in crate::store) async fn execute(
        &mut self,
        sql: impl SqlSafeStr,
        values: impl SqlValues<'_>,
        action: &'static str,
    ) -> Result<()> {
        self.execute_counting(sql, values, action).await.map(drop)
    }

    /// Runs a statement and returns the number of changed rows.
    pub(in crate::store) async fn execute_counting(
        &mut self,
        sql: impl SqlSafeStr,
        values: impl SqlValues<'_>,
        action: &'static str,
    ) -> Result<u64> {
        let statement = sqlx::query_with(sql, values.into_arguments().context(action)?);
        Ok(statement.execute(&mut *self.tx).await.context(action)?.rows_affected())
    }

    /// Runs a text that ends with `COMMIT`.
    ///
    /// That saves one round trip to the connection's thread. Only for
    /// [`Durability::Normal`](crate::store::Durability::Normal), whose commits are not noted in the position
    /// file.
    pub(in crate::store) async fn commit_with(
        self,
        sql: &'static str,
        values: impl SqlValues<'_>,
        action: &'static str,
    ) -> Result<()> {
        self.commit_rows(sql, values, action).await.map(drop)
    }

    /// Runs a text as [`Self::commit_with`] does and returns the value of its first row.
    pub(in crate::store) async fn commit_with_value<T>(
        self,
        sql: &'static str,
        values: impl SqlValues<'_>,
        action: &'static str,
    ) -> Result<T>
    where
        (T,): SqlRow,
    {
        let rows = self.commit_rows(sql, values, action).await?;
        let row = rows.first().ok_or(sqlx::Error::RowNotFound).and_then(<(T,)>::from_row);
        row.map(|(value,)| value).context(action)
    }

    async fn commit_rows(
        self,
        sql: &'static str,
        values: impl SqlValues<'_>,
        action: &'static str,
    ) -> Result<Vec<SqliteRow>> {
        debug_assert!(!self.notes_position(), "a Full commit must note its position");
        let statement = sqlx::query_with(sql, values.into_arguments().context(action)?);
        self.tx.commit_with(statement).await.context(action)
    }
}
