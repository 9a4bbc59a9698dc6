//! Statements with their values as a tuple, in the order of `$1`, `$2` and so on.
//!
//! Rows come as structs or tuples. `action` names the statement in an error, to follow "cannot".

use super::error::SqlContext;
use crate::store::{JournalReader, Result, Store, WriteTransaction};
use sqlx::SqlSafeStr;

pub(in crate::store) use super::connection::Connection;
pub(in crate::store) use super::values::{SqlRow, SqlValues};

macro_rules! fetch_methods {
    ($of:ty, $self:ident: $receiver:ty, $connection:expr) => {
        impl $of {
            pub(in crate::store) async fn fetch_all<R: SqlRow>(
                $self: $receiver,
                sql: impl SqlSafeStr,
                values: impl SqlValues<'_>,
                action: &'static str,
            ) -> Result<Vec<R>> {
                $connection.rows(sql, values).await.context(action)
            }

            pub(in crate::store) async fn fetch_optional<R: SqlRow>(
                $self: $receiver,
                sql: impl SqlSafeStr,
                values: impl SqlValues<'_>,
                action: &'static str,
            ) -> Result<Option<R>> {
                $connection.first_row(sql, values).await.context(action)
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
        self.tx.change(sql, values).await.context(action)
    }
}
