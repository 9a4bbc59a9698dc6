//! Changes that a command queued, by their keys and without their bodies, and the keys that were ever inserted.

use crate::model::ChangeId;
use crate::outbox::{ChangeState, Reason};
use crate::store::engine::lossy_text::LossyText;
use crate::store::mirror::stock_levels::json_rows;
use crate::store::outbox::list::keys_after;
use crate::store::{Result, Store, WriteTransaction};
use sqlx_macros::FromRow;
use std::collections::HashMap;

/// Change without its body, with its state and the reason of that.
#[derive(Clone, Debug, FromRow)]
pub(crate) struct ChangeSummary {
    pub id: ChangeId,
    pub key: LossyText,
    pub sku: Option<LossyText>,
    pub warehouse_id: Option<i64>,
    pub state: ChangeState,
    pub reason: Option<String>,
    pub detail: Option<String>,
}

impl ChangeSummary {
    pub(crate) fn reason(&self) -> Option<Reason> {
        self.reason.as_deref().and_then(Reason::from_code)
    }
}

impl Store {
    /// Returns the changes with these keys, by id.
    pub(crate) async fn outbox_queued(&self, keys: &[&str]) -> Result<Vec<ChangeSummary>> {
        let sql = "SELECT id, key, sku, warehouse_id, state, reason, detail FROM outbox \
                   WHERE key IN (SELECT atom FROM json_each($1)) ORDER BY id";
        self.fetch_all(sql, (json_rows(keys),), "read the queued changes").await
    }

    /// Returns true if one of the changes with these keys is pending, being sent or in doubt.
    pub(crate) async fn outbox_has_outstanding(&self, keys: &[&str]) -> Result<bool> {
        let sql = "SELECT EXISTS (SELECT 1 FROM outbox WHERE key IN (SELECT atom FROM json_each($1)) \
                   AND state IN ('pending', 'sending', 'in_doubt'))";
        self.fetch_value(sql, (json_rows(keys),), "read the states of the queued changes").await
    }
}

impl WriteTransaction {
    /// Returns the keys ever inserted that begin so, in their order, for each of these beginnings that has one.
    pub(crate) async fn outbox_keys_by_beginning(
        &mut self,
        beginnings: impl Iterator<Item = String>,
    ) -> Result<HashMap<String, Vec<String>>> {
        let ranges: Vec<_> = beginnings.map(|beginning| (keys_after(&beginning), beginning)).collect();
        let sql = "SELECT DISTINCT r.value->>1, k.key FROM json_each($1) r CROSS JOIN outbox k \
                   WHERE k.key >= r.value->>1 AND k.key < r.value->>0 ORDER BY k.key";
        let rows: Vec<(String, LossyText)> =
            self.fetch_all(sql, (json_rows(&ranges),), "read the keys of earlier lines").await?;
        let mut keys: HashMap<String, Vec<String>> = HashMap::new();
        for (beginning, key) in rows {
            keys.entry(beginning).or_default().push(key.into());
        }
        Ok(keys)
    }

    /// Returns the first key of an imported file, and the time of its insertion.
    ///
    /// The file is known by the digest of its content, which is a part of its keys.
    pub(crate) async fn outbox_first_import(&mut self, digest: &str) -> Result<Option<(String, String)>> {
        let sql = "SELECT key, created_at FROM outbox \
                   WHERE id IN (SELECT id FROM outbox WHERE key LIKE '%:' || $1 || ':%') ORDER BY id LIMIT 1";
        let row: Option<(LossyText, String)> =
            self.fetch_optional(sql, (digest,), "read the first import of a file").await?;
        Ok(row.map(|(key, at)| (key.into(), at)))
    }
}
