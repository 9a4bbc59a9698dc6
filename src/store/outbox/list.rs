//! Lists of changes: by filter, their groups, and a change by a part of its key.
//!
//! The open changes are found by their indexes, so that the usual list reads no history.

use super::changes::{ChangeRow, body_columns, calendar_goes_back, change_columns};
use crate::model::Timestamp;
use crate::outbox::ChangeState;
use crate::store::engine::fetch::SqlValues;
use crate::store::engine::lossy_text::LossyText;
use crate::store::mirror::stock_levels::json_rows;
use crate::store::{Result, Store};
use sqlx::AssertSqlSafe;
use sqlx_macros::FromRow;

/// Largest number of changes that a part of a key is compared with; more are as ambiguous.
const NAMESAKES_MAX: i64 = 5;

/// Filter for a list of changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct OutboxFilter {
    /// True to leave out applied, cancelled and acknowledged changes.
    pub is_open: bool,
    pub states: Vec<ChangeState>,
    pub kind: Option<String>,
    /// Code of the reason to include; `None`: all.
    pub reason: Option<String>,
    /// Spellings of the SKU to include; empty: all.
    pub skus: Vec<String>,
    /// First characters of the keys to include; `None`: all.
    pub key_prefix: Option<String>,
    /// Earliest time of the insertion; `None`: any.
    pub inserted_from: Option<Timestamp>,
    /// Latest time of the insertion; `None`: any.
    pub inserted_to: Option<Timestamp>,
    /// Largest number of changes, newest first.
    pub limit: u32,
}

/// Changes with one state and reason.
#[derive(Clone, Debug, FromRow)]
pub(crate) struct OutboxGroup {
    pub state: ChangeState,
    pub reason: Option<String>,
    pub changes: i64,
}

/// Change that an operator names by its key, its id or the first characters of its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NamedChange {
    Found(String),
    /// Keys of the first of several changes.
    Ambiguous(Vec<String>),
    Unknown,
}

/// SQL: the changes that the filter includes; parameters 1 to 8.
const FILTERED: &str = "FROM outbox \
    WHERE (json_array_length($1) = 0 OR state IN (SELECT atom FROM json_each($1))) \
      AND (CAST($2 AS TEXT) IS NULL OR kind = $2) AND (CAST($3 AS TEXT) IS NULL OR reason = $3) \
      AND (json_array_length($4) = 0 OR sku IN (SELECT atom FROM json_each($4))) \
      AND (CAST($5 AS TEXT) IS NULL OR (key >= $5 AND key < $6)) \
      AND (CAST($7 AS TEXT) IS NULL OR coalesce(dated_at, created_at) >= $7) \
      AND (CAST($8 AS TEXT) IS NULL OR coalesce(dated_at, created_at) <= $8)";

/// SQL: the condition of an open change, by an index for each part.
const IS_OPEN: &str = "AND id IN (SELECT id FROM outbox WHERE state = 'pending' \
    UNION ALL SELECT id FROM outbox WHERE state IN ('sending', 'held', 'in_doubt') \
    UNION ALL SELECT id FROM outbox WHERE state = 'rejected' AND acknowledged_ms IS NULL)";

impl Store {
    pub(crate) async fn outbox_list(&self, filter: &OutboxFilter) -> Result<Vec<ChangeRow>> {
        let columns = change_columns!();
        let open = if filter.is_open { IS_OPEN } else { "" };
        let sql = format!("{columns} {FILTERED} {open} ORDER BY id DESC LIMIT $9");
        self.fetch_all(AssertSqlSafe(sql), filter_values(filter), "list the changes").await
    }

    /// Returns the groups of all changes that the filter includes, without its limit.
    pub(crate) async fn outbox_groups(&self, filter: &OutboxFilter) -> Result<Vec<OutboxGroup>> {
        let open = if filter.is_open { IS_OPEN } else { "" };
        let sql = format!(
            "SELECT state, reason, count(*) AS changes {FILTERED} {open} \
             GROUP BY state, reason ORDER BY state, reason NULLS FIRST"
        );
        self.fetch_all(AssertSqlSafe(sql), filter_values(filter), "count the changes of the list").await
    }

    /// Returns the keys of all open changes that the filter includes, oldest first, without its limit.
    pub(crate) async fn outbox_open_keys(&self, filter: &OutboxFilter) -> Result<Vec<String>> {
        let sql = AssertSqlSafe(format!("SELECT key {FILTERED} {IS_OPEN} ORDER BY id"));
        let keys: Vec<LossyText> =
            self.fetch_column(sql, filter_values(filter), "read the keys of the list").await?;
        Ok(keys.into_iter().map(String::from).collect())
    }

    /// Finds the change with this key; else the only one with this id or with a key that begins so.
    pub(crate) async fn outbox_find_named(&self, name: &str) -> Result<NamedChange> {
        let sql = "SELECT key FROM outbox WHERE key = $1 OR id = $2 \
                   UNION SELECT key FROM (SELECT key FROM outbox WHERE key >= $1 AND key < $3 \
                                          ORDER BY key LIMIT $4) n";
        let values = (name, name.parse::<i64>().ok(), keys_after(name), NAMESAKES_MAX);
        let keys: Vec<LossyText> = self.fetch_column(sql, values, "find a change").await?;
        let mut keys: Vec<String> = keys.into_iter().map(String::from).collect();
        if keys.iter().any(|key| key == name) {
            return Ok(NamedChange::Found(name.to_owned()));
        }
        Ok(match keys.pop() {
            None => NamedChange::Unknown,
            Some(only) if keys.is_empty() => NamedChange::Found(only),
            Some(last) => {
                keys.push(last);
                NamedChange::Ambiguous(keys)
            }
        })
    }
}

/// Returns the values of the filter's condition, and its limit.
fn filter_values(filter: &OutboxFilter) -> impl SqlValues<'_> {
    let states: Vec<&str> = filter.states.iter().map(|state| state.as_str()).collect();
    let prefix = filter.key_prefix.as_deref();
    (
        json_rows(&states),
        filter.kind.as_deref(),
        filter.reason.as_deref(),
        json_rows(&filter.skus),
        prefix,
        prefix.map(keys_after),
        filter.inserted_from.map(Timestamp::to_rfc3339),
        filter.inserted_to.map(Timestamp::to_rfc3339),
        i64::from(filter.limit),
    )
}

/// Returns a text behind all keys that begin with `prefix`, in the order of both engines, which is that of bytes.
pub(super) fn keys_after(prefix: &str) -> String {
    format!("{prefix}{}", char::MAX)
}
