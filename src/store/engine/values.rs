//! Values of statements and rows of answers, for both engines.

use sqlx::postgres::{PgArguments, PgRow};
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{Arguments as _, Encode, FromRow, Postgres, Sqlite, Type};

/// A value that both engines take.
pub(in crate::store) trait SqlValue<'q>:
    Encode<'q, Sqlite> + Type<Sqlite> + Encode<'q, Postgres> + Type<Postgres>
{
}

impl<'q, T: Encode<'q, Sqlite> + Type<Sqlite> + Encode<'q, Postgres> + Type<Postgres>> SqlValue<'q> for T {}

/// A statement's values, in the order of `$1`, `$2` and so on.
pub(in crate::store) trait SqlValues<'q> {
    fn into_sqlite(self) -> sqlx::Result<SqliteArguments>;
    /// Returns the values with these numbers, which ascend.
    fn to_postgres(&self, numbers: &[usize]) -> sqlx::Result<PgArguments>;
}

impl SqlValues<'_> for () {
    fn into_sqlite(self) -> sqlx::Result<SqliteArguments> {
        Ok(SqliteArguments::default())
    }

    fn to_postgres(&self, _: &[usize]) -> sqlx::Result<PgArguments> {
        Ok(PgArguments::default())
    }
}

macro_rules! sql_values_of_tuple {
    ($($value:ident: $of:ident),*) => {
        impl<'q, $($of: SqlValue<'q>),*> SqlValues<'q> for ($($of,)*) {
            fn into_sqlite(self) -> sqlx::Result<SqliteArguments> {
                let ($($value,)*) = self;
                let mut arguments = SqliteArguments::default();
                $(arguments.add($value).map_err(sqlx::Error::Encode)?;)*
                Ok(arguments)
            }

            fn to_postgres(&self, numbers: &[usize]) -> sqlx::Result<PgArguments> {
                let ($($value,)*) = self;
                let mut arguments = PgArguments::default();
                let mut number = 0;
                $(
                    number += 1;
                    if numbers.contains(&number) {
                        arguments.add($value).map_err(sqlx::Error::Encode)?;
                    }
                )*
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

/// A row that both engines give.
pub(in crate::store) trait SqlRow:
    for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + Send + Unpin
{
}

impl<R: for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + Send + Unpin> SqlRow for R {}
