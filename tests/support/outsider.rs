//! Another program's connection to the database of a store, on either engine.

use sqlx::postgres::{PgConnectOptions, PgConnection, PgRow};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteRow};
use sqlx::{AssertSqlSafe, ConnectOptions, FromRow};
use std::path::Path;
use tallyd::store::PostgresDatabase;

pub enum Outsider {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
}

/// A row that both engines give.
pub trait OutsideRow: for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + Send + Unpin {}

impl<R: for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + Send + Unpin> OutsideRow for R {}

impl Outsider {
    pub async fn of_file(path: &Path) -> Self {
        Self::Sqlite(SqliteConnectOptions::new().filename(path).connect().await.unwrap())
    }

    pub async fn of_server(database: &PostgresDatabase) -> Self {
        let options: PgConnectOptions = database.url.parse().unwrap();
        Self::Postgres(options.options([("search_path", &database.schema)]).connect().await.unwrap())
    }

    /// Runs statements without values.
    pub async fn run(&mut self, sql: &str) -> sqlx::Result<()> {
        let text = sqlx::raw_sql(AssertSqlSafe(sql));
        match self {
            Self::Sqlite(connection) => text.execute(connection).await.map(drop),
            Self::Postgres(connection) => text.execute(connection).await.map(drop),
        }
    }

    pub async fn rows<R: OutsideRow>(&mut self, sql: &str) -> Vec<R> {
        let rows = match self {
            Self::Sqlite(connection) => sqlx::query_as(AssertSqlSafe(sql)).fetch_all(connection).await,
            Self::Postgres(connection) => sqlx::query_as(AssertSqlSafe(sql)).fetch_all(connection).await,
        };
        rows.unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// Returns the only row.
    pub async fn row<R: OutsideRow>(&mut self, sql: &str) -> R {
        let mut rows = self.rows(sql).await;
        assert_eq!(rows.len(), 1, "{sql}");
        rows.remove(0)
    }

    /// Returns the only value.
    pub async fn value<T>(&mut self, sql: &str) -> T
    where
        (T,): OutsideRow,
    {
        self.row::<(T,)>(sql).await.0
    }
}
