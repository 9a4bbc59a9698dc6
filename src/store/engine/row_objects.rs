//! Rows as JSON objects, for data that is only stored and shown. Their columns are the keys of the output.

use super::fetch::SqlValues;
use super::table_rows::{StoredValue, row_values};
use crate::store::{Result, Store};
use serde_json::{Value, json};
use sqlx::{Column as _, ColumnIndex, Decode, FromRow, Row, SqlSafeStr};

struct RowObject(Value);

impl<'r, R: Row> FromRow<'r, R> for RowObject
where
    usize: ColumnIndex<R>,
    bool: Decode<'r, R::Database>,
    i64: Decode<'r, R::Database>,
    f64: Decode<'r, R::Database>,
    &'r [u8]: Decode<'r, R::Database>,
{
    fn from_row(row: &'r R) -> sqlx::Result<Self> {
        let value = |(name, value): (&str, StoredValue)| match value {
            // SQLite stores a flag as 0 or 1.
            StoredValue::Integer(flag) if name.starts_with("is_") => (name.to_owned(), json!(flag != 0)),
            value => (name.to_owned(), json!(value)),
        };
        let names = row.columns().iter().map(|column| column.name());
        Ok(Self(names.zip(row_values(row)?).map(value).collect()))
    }
}

impl Store {
    /// Returns rows as JSON objects; a column whose name begins with `is_` is a flag.
    pub(in crate::store) async fn fetch_objects(
        &self,
        sql: impl SqlSafeStr,
        values: impl SqlValues<'_>,
        action: &'static str,
    ) -> Result<Vec<Value>> {
        let rows: Vec<RowObject> = self.fetch_all(sql, values, action).await?;
        Ok(rows.into_iter().map(|RowObject(object)| object).collect())
    }
}
