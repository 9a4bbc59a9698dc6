//! Another program's connection to the database of a store, on either engine.

use sqlx::postgres::{PgConnection, PgRow};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteRow};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, FromRow};
use std::time::Duration;
use tallyd::store::DatabaseLocation;
use tokio::sync::Mutex;

pub enum Outsider {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
}

/// A connection that many short questions share. SQLite reads the whole schema for each new one, which costs more
/// than the question.
#[derive(Default)]
pub struct SharedOutsider(Mutex<Option<Outsider>>);

impl SharedOutsider {
    /// Asks the connection, or a new one if there is none or the server has ended it.
    pub async fn ask<T>(
        &self,
        location: &DatabaseLocation,
        question: impl AsyncFnOnce(&mut Outsider) -> T,
    ) -> T {
        let mut shared = self.0.lock().await;
        if let Some(kept) = &mut *shared
            && !kept.is_alive().await
        {
            *shared = None;
        }
        let mut outsider = match shared.take() {
            Some(kept) => kept,
            None => Outsider::at(location).await,
        };
        let answer = question(&mut outsider).await;
        *shared = Some(outsider);
        answer
    }

    pub async fn close(&self) {
        *self.0.lock().await = None;
    }
}

/// Returns text as a literal of SQL.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A row that both engines give.
pub trait OutsideRow: for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + Send + Unpin {}

impl<R: for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + Send + Unpin> OutsideRow for R {}

impl Outsider {
    pub async fn at(location: &DatabaseLocation) -> Self {
        Self::try_at(location).await.unwrap()
    }

    pub async fn try_at(location: &DatabaseLocation) -> sqlx::Result<Self> {
        match location.server() {
            Some(server) => {
                let mut connection = server.bare_options()?.application_name("test").connect().await?;
                let sql = format!("SET search_path = '{}'", server.schema());
                sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await?;
                Ok(Self::Postgres(connection))
            }
            None => {
                let file = SqliteConnectOptions::new().filename(location.path());
                let file = file.busy_timeout(Duration::from_secs(10)).pragma("wal_autocheckpoint", "0");
                file.connect().await.map(Self::Sqlite)
            }
        }
    }

    async fn is_alive(&mut self) -> bool {
        match self {
            Self::Sqlite(_) => true,
            Self::Postgres(connection) => connection.ping().await.is_ok(),
        }
    }

    /// Returns the connection to a file, for a test of SQLite's own statements.
    pub fn into_sqlite(self) -> SqliteConnection {
        let Self::Sqlite(connection) = self else { panic!("this test is of the file") };
        connection
    }

    /// Runs statements without values.
    pub async fn run(&mut self, sql: &str) -> sqlx::Result<()> {
        let text = sqlx::raw_sql(AssertSqlSafe(sql));
        match self {
            Self::Sqlite(connection) => text.execute(connection).await.map(drop),
            Self::Postgres(connection) => text.execute(connection).await.map(drop),
        }
    }

    /// Tracks these SKUs.
    pub async fn track_skus(&mut self, skus: &[impl AsRef<str>]) {
        let rows: Vec<String> = skus.iter().map(|sku| format!("({})", quoted(sku.as_ref()))).collect();
        self.insert("tracked_sku (sku)", &rows).await;
    }

    /// Tracks these orders.
    pub async fn track_orders(&mut self, orders: &[i64]) {
        let rows: Vec<String> = orders.iter().map(|order| format!("({order})")).collect();
        self.insert("tracked_order (order_id)", &rows).await;
    }

    async fn insert(&mut self, columns: &str, rows: &[String]) {
        if !rows.is_empty() {
            self.run(&format!("INSERT INTO {columns} VALUES {}", rows.join(", "))).await.unwrap();
        }
    }

    pub async fn rows<R: OutsideRow>(&mut self, sql: &str) -> Vec<R> {
        let rows = match self {
            Self::Sqlite(connection) => sqlx::query_as(AssertSqlSafe(sql)).fetch_all(connection).await,
            Self::Postgres(connection) => sqlx::query_as(AssertSqlSafe(sql)).fetch_all(connection).await,
        };
        rows.unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// Returns every row of every table, as the engine writes it.
    pub async fn everything(&mut self) -> Vec<(String, Vec<String>)> {
        let tables: Vec<(String, String)> = match self {
            Self::Sqlite(_) => {
                self.rows(
                    "SELECT t.name, 'concat_ws(''|'', ' || group_concat('quote(\"' || c.name || '\")', ', ') || ')' \
                     FROM pragma_table_list t, pragma_table_info(t.name) c \
                     WHERE t.schema = 'main' AND t.type = 'table' AND t.name <> 'sqlite_schema' GROUP BY 1",
                )
                .await
            }
            Self::Postgres(_) => {
                self.rows(
                    "SELECT CAST(relname AS TEXT), 'CAST(t AS TEXT)' FROM pg_class \
                     WHERE relnamespace = CAST(current_schema() AS regnamespace) AND relkind = 'r' ORDER BY 1",
                )
                .await
            }
        };
        let mut all = Vec::new();
        for (table, row) in tables {
            let rows: Vec<(String,)> = self.rows(&format!("SELECT {row} FROM {table} t ORDER BY 1")).await;
            all.push((table, rows.into_iter().map(|(row,)| row).collect()));
        }
        assert!(all.len() > 40, "the query finds the tables: {}", all.len());
        all
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
