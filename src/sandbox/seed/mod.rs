//! Generated data of a new company: master data (`catalog.rs`) and history (`orders.rs`).

pub(crate) mod catalog;
pub(crate) mod orders;

use serde_json::{Value, json};
use sqlx::SqliteConnection;

use super::random::SandboxRandom;

/// A new company whose data is being generated.
pub(crate) struct CompanySeed<'a> {
    pub(crate) db: &'a mut SqliteConnection,
    pub(crate) company_id: i64,
    pub(crate) now_ms: i64,
    pub(crate) random: SandboxRandom,
}

impl CompanySeed<'_> {
    /// Returns the ids that a statement selects, or inserts, for the company (?1).
    async fn company_ids(&mut self, statement: &'static str) -> Result<Vec<i64>, sqlx::Error> {
        sqlx::query_scalar(statement).bind(self.company_id).fetch_all(&mut *self.db).await
    }

    /// Runs a statement over rows as a JSON array (?1).
    async fn insert_rows(&mut self, statement: &'static str, rows: &[Value]) -> Result<(), sqlx::Error> {
        sqlx::query(statement).bind(json!(rows).to_string()).execute(&mut *self.db).await.map(drop)
    }
}
