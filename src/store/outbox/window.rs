//! Window of a push: the part of the outbox that is planned at once. It bounds the memory and the time
//! of a plan, for any backlog.
//!
//! A change outside of the window counts as not inserted yet. It is planned later, as one that was held until then.

use crate::model::ChangeId;
use crate::store::{Result, Store};

/// Limit of open changes in a window. Their plan takes about 10 MiB, and their claim half a second.
const CHANGES_MAX: i64 = 5_000;
/// Limit of the bodies in a window, in bytes.
const BODIES_MAX: i64 = 4 << 20;
/// End of a window that reaches to the end of the outbox.
const NO_END: ChangeId = ChangeId(i64::MAX);

/// Part of the outbox that a push plans at once: open changes between two ids, and first operators' ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutboxWindow {
    pub(super) after: ChangeId,
    pub(super) until: ChangeId,
    pub(super) urgent_until: ChangeId,
}

impl OutboxWindow {
    /// Returns the last id of the window; `None` if no change is behind it.
    pub(crate) fn end(&self) -> Option<ChangeId> {
        (self.until != NO_END).then_some(self.until)
    }

    /// Returns the id behind which operators' changes are in the window only up to its end.
    pub(super) fn late_urgent_after(&self) -> ChangeId {
        self.after.max(self.urgent_until)
    }
}

/// SQL: the first open changes after parameter 1 that meet a condition, one more than a window holds. A body
/// that is too large is not read.
macro_rules! first_open {
    ($condition:literal) => {
        concat!(
            "SELECT * FROM (SELECT id, CASE WHEN octet_length(body) <= 262144 THEN octet_length(body) ELSE 0 END AS size \
             FROM outbox WHERE ",
            $condition,
            " AND id > $1 ORDER BY id LIMIT $2 + 1) o"
        )
    };
}

/// SQL: the last of these changes that a window holds; null if it holds all.
macro_rules! window_end {
    ($changes:expr) => {
        concat!(
            "SELECT CASE WHEN count(*) > count(held) THEN max(held) END FROM ( \
             SELECT CASE WHEN row_number() OVER (ORDER BY id) <= $2 AND sum(size) OVER (ORDER BY id) <= $3 \
                         THEN id END AS held FROM (",
            $changes,
            ") open) window_change"
        )
    };
}

impl Store {
    /// Returns the window after a change.
    pub(crate) async fn outbox_window(&self, after: ChangeId) -> Result<OutboxWindow> {
        let sql = window_end!(concat!(
            first_open!("state = 'pending' AND priority = 0"),
            " UNION ALL ",
            first_open!("state = 'pending' AND priority = 1"),
            " UNION ALL ",
            first_open!("state IN ('sending', 'held', 'in_doubt') AND state = 'held'")
        ));
        let values = (after, CHANGES_MAX, BODIES_MAX);
        let Some(until) = self.fetch_value(sql, values, "find the end of the window").await? else {
            return Ok(OutboxWindow { after, until: NO_END, urgent_until: NO_END });
        };
        let sql = window_end!(first_open!("state = 'pending' AND priority = 1"));
        let values = (0, CHANGES_MAX, BODIES_MAX);
        let urgent: Option<ChangeId> =
            self.fetch_value(sql, values, "find the operators' changes of the window").await?;
        Ok(OutboxWindow { after, until, urgent_until: urgent.unwrap_or(NO_END) })
    }

    /// Returns the number of pending changes up to an id, and of those behind it.
    pub(crate) async fn outbox_pending_around(&self, id: ChangeId) -> Result<(u64, u64)> {
        let sql = "SELECT count(CASE WHEN id <= $1 THEN 1 END), count(CASE WHEN id > $1 THEN 1 END) FROM outbox \
                   WHERE state = 'pending' AND priority IN (0, 1)";
        let (within, behind): (i64, i64) = self.fetch_one(sql, (id,), "count the pending changes").await?;
        Ok((within.unsigned_abs(), behind.unsigned_abs()))
    }
}
