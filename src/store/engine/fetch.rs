//! Statements with their values as a tuple, in the order of `?1`, `?2` and so on.
//!
//! Rows come as structs or tuples, a single column as a tuple of one. `action` names the statement in an
//! error, to follow "cannot".

use super::error::SqlContext;
use crate::store::{Store, StoreError, WriteTransaction};
use sqlx::sqlite::{SqliteArguments, SqliteConnection, SqliteRow};
use sqlx::{Arguments as _, Encode, FromRow, SqlSafeStr, Sqlite, Type};

/// Values of a statement.
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

/// Row that a statement returns.
pub(in crate::store) trait SqlRow: for<'r> FromRow<'r, SqliteRow> + Send + Unpin {}

impl<R: for<'r> FromRow<'r, SqliteRow> + Send + Unpin> SqlRow for R {}

async fn all<R: SqlRow>(
    from: &mut SqliteConnection,
    sql: impl SqlSafeStr,
    values: impl SqlValues<'_>,
) -> sqlx::Result<Vec<R>> {
    sqlx::query_as_with(sql, values.into_arguments()?).fetch_all(from).await
}

async fn first<R: SqlRow>(
    from: &mut SqliteConnection,
    sql: impl SqlSafeStr,
    values: impl SqlValues<'_>,
) -> sqlx::Result<Option<R>> {
    sqlx::query_as_with(sql, values.into_arguments()?).fetch_optional(from).await
}

impl Store {
    pub(in crate::store) async fn fetch_all<R: SqlRow>(
        &self,
        sql: impl SqlSafeStr,
        values: impl SqlValues<'_>,
        action: &'static str,
    ) -> Result<Vec<R>, StoreError> {
        all(&mut *self.read_connection().await?, sql, values).await.context(action)
    }

    pub(in crate::store) async fn fetch_optional<R: SqlRow>(
        &self,
        sql: impl SqlSafeStr,
        values: impl SqlValues<'_>,
        action: &'static str,
    ) -> Result<Option<R>, StoreError> {
        first(&mut *self.read_connection().await?, sql, values).await.context(action)
    }

    pub(in crate::store) async fn fetch_one<R: SqlRow>(
        &self,
        sql: impl SqlSafeStr,
        values: impl SqlValues<'_>,
        action: &'static str,
    ) -> Result<R, StoreError> {
        self.fetch_optional(sql, values, action).await?.ok_or(sqlx::Error::RowNotFound).context(action)
    }
}

impl WriteTransaction {
    pub(in crate::store) async fn fetch_all<R: SqlRow>(
        &mut self,
        sql: impl SqlSafeStr,
        values: impl SqlValues<'_>,
        action: &'static str,
    ) -> Result<Vec<R>, StoreError> {
        all(&mut self.tx, sql, values).await.context(action)
    }

    pub(in crate::store) async fn fetch_optional<R: SqlRow>(
        &mut self,
        sql: impl SqlSafeStr,
        values: impl SqlValues<'_>,
        action: &'static str,
    ) -> Result<Option<R>, StoreError> {
        first(&mut self.tx, sql, values).await.context(action)
    }

    pub(in crate::store) async fn fetch_one<R: SqlRow>(
        &mut self,
        sql: impl SqlSafeStr,
        values: impl SqlValues<'_>,
        action: &'static str,
    ) -> Result<R, StoreError> {
        self.fetch_optional(sql, values, action).await?.ok_or(sqlx::Error::RowNotFound).context(action)
    }

    pub(in crate::store) async fn execute(
        &mut self,
        sql: impl SqlSafeStr,
        values: impl SqlValues<'_>,
        action: &'static str,
    ) -> Result<(), StoreError> {
        self.execute_counting(sql, values, action).await.map(drop)
    }

    /// Runs a statement and returns the number of changed rows.
    pub(in crate::store) async fn execute_counting(
        &mut self,
        sql: impl SqlSafeStr,
        values: impl SqlValues<'_>,
        action: &'static str,
    ) -> Result<u64, StoreError> {
        let statement = sqlx::query_with(sql, values.into_arguments().context(action)?);
        Ok(statement.execute(&mut *self.tx).await.context(action)?.rows_affected())
    }
}
