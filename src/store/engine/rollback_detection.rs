//! Detection of a rolled-back database: a restored copy, or a file of another tool or machine (docs/backup.md).
//!
//! The calls made between the copy and the restore are unknown. A change of the copy may have been sent, and a
//! count would undo what happened since. All of them are therefore held until a person decides. The trip that
//! holds them stores the position of the restore. What was seen before that position is neither fresh nor a
//! base (view `last_restore`). Until the trip is released, inserted changes whose second effect would do harm
//! join it (trigger `outbox_restored_hold`), because programs insert their lost keys again. The counter jumps
//! over the lost positions, so no position has two meanings and the alarm is raised once.

use super::position_file::PositionFile;
use crate::model::{Position, Timestamp, counted, cut_reason};
use crate::outbox::Reason;
use crate::store::{Result, Store, WriteTransaction};
use sqlx::AssertSqlSafe;

const RESTORE_DECLARED: &str = "database.declared_restored";

/// Sign that the database went back in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RollbackSign {
    /// Last position that is known to have been reached.
    pub reached_position: Position,
    /// Sign, as a sentence for the operator.
    pub description: String,
}

/// SQL: the changes of a copy that may have been sent since, also those that were held for another reason. A check
/// cannot decide a quantity in doubt any more, because the stock level may have changed and returned since.
const COPIED_CHANGES: &str = "state IN ('pending', 'held') OR (state = 'in_doubt' AND sku IS NOT NULL)";

impl Store {
    /// Returns the sign that the database went back in time; call it at the start, before any write.
    ///
    /// `host` is this machine's name in the database (`AccountBinding::host_digest`).
    /// With `None` the machine is no sign: it has no name, or its disk may come from another machine.
    pub async fn rollback_sign(&self, host: Option<&str>) -> Result<Option<RollbackSign>> {
        let position = self.journal_position().await?;
        let file = self.position_file.as_deref();
        let noted = file.and_then(PositionFile::read_position).unwrap_or(position);
        let sql = "SELECT (SELECT strftime('%Y-%m-%dT%H:%M:%fZ', made_ms / 1000.0, 'unixepoch') \
                              FROM backup_marker), \
                          EXISTS (SELECT 1 FROM backup_marker m JOIN event e ON e.position = m.position \
                              AND e.kind = $1), \
                          (SELECT host FROM session ORDER BY id DESC LIMIT 1), EXISTS (SELECT 1 FROM session)";
        let (copied_at, is_declared, last_host, is_used): (Option<String>, bool, Option<String>, bool) =
            self.fetch_one(sql, (RESTORE_DECLARED,), "read the backup marker").await?;
        // Another host may lead a server's schema for the first time.
        let is_shared = self.location().server().is_some();
        if let Some(file) = file.filter(|file| !is_used || is_shared && file.is_missing()) {
            file.create_synced(position);
        }
        let missing = file.filter(|file| file.is_missing());
        let description = match (copied_at, missing) {
            (Some(at), _) if is_declared => {
                format!(
                    "the database was restored, as `tallyd restore` or `tallyd restored` declared at {at}"
                )
            }
            (Some(at), _) => format!("the database is a copy made at {at}"),
            (None, Some(file)) => {
                let file = file.path().display();
                format!("there is no {file} beside the database: another tool copied or restored it")
            }
            (None, None) if noted > position => {
                let lost = counted(noted.0 - position.0, "position");
                format!("the database is older than it was: its journal lacks {lost}")
            }
            (None, None) if host.zip(last_host.as_deref()).is_some_and(|(host, last)| host != last) => {
                "the database was last used on another machine, so that machine may have sent changes since \
                 (set `database.moves_between_hosts` if the disk itself moves)"
                    .into()
            }
            (None, None) => return Ok(None),
        };
        Ok(Some(RollbackSign { reached_position: noted.max(position), description }))
    }
}

impl WriteTransaction {
    /// Marks the database as restored by a person's declaration; the next start holds doubtful changes.
    pub async fn restore_declare(&mut self, at: Timestamp) -> Result<()> {
        let position = self.event_append(at, RESTORE_DECLARED, "database", None).await?;
        let sql = "INSERT INTO backup_marker (id, made_ms, position) VALUES (1, $1, $2) \
                   ON CONFLICT (id) DO UPDATE SET made_ms = excluded.made_ms, position = excluded.position";
        self.execute(sql, (at.0, position.0), "store the backup marker").await
    }

    /// Holds the changes of the copy, and returns their number; from now on, inserted ones join them.
    ///
    /// Call it after [`WriteTransaction::session_begin`], which puts open writes in doubt. It also jumps over
    /// the lost positions and deletes the backup marker.
    pub(crate) async fn rollback_hold(&mut self, restored: &RollbackSign, at: Timestamp) -> Result<u64> {
        self.insertions_stop().await?;
        let sql = "UPDATE journal_sequence SET position = $1 WHERE position < $1";
        self.execute(sql, (restored.reached_position.0,), "skip the lost positions").await?;
        self.execute("DELETE FROM backup_marker", (), "delete the backup marker").await?;
        let sql = "INSERT INTO brake_trip (at_ms, what, restored_position) \
                   SELECT $1, $2, position FROM journal_sequence";
        let what = cut_reason(&restored.description);
        self.execute(sql, (at, what), "store the position of the restore").await?;
        let held = self.hold_copied_changes(restored, at).await?;
        // A decision on a count was measured against a fact from before the restore.
        let sql = "DELETE FROM count_resolution \
                   WHERE change_id IN (SELECT id FROM outbox WHERE state = 'held' AND reason = $1)";
        self.execute(sql, (Reason::Restored.as_str(),), "delete decisions on counts").await?;
        self.stock_level_writes_end_orphaned(at).await?;
        Ok(held)
    }

    /// Holds the changes of the copy, and returns their number. The bases of counts lack our writes since the copy; `base_ms` 0 excludes earlier facts as a base. NULL
    /// would mean that the SKU was not resolved.
    async fn hold_copied_changes(&mut self, restored: &RollbackSign, at: Timestamp) -> Result<u64> {
        let sql = format!(
            "INSERT INTO brake_trip_change (trip_id, change_id) \
             SELECT (SELECT max(id) FROM brake_trip), id FROM outbox WHERE {COPIED_CHANGES}"
        );
        let held = self.execute_counting(AssertSqlSafe(sql), (), "list the changes of the copy").await?;
        let sql = format!(
            "UPDATE outbox SET revision = revision + 1, state = 'held', reason = $1, detail = $2, \
                 state_changed_ms = $3, mine = NULL, theirs = NULL, base_quantity = NULL, base_own_delta = NULL, \
                 base_ms = CASE WHEN kind = 'quantity.set' THEN 0 END, \
                 position = (SELECT position FROM journal_sequence) WHERE {COPIED_CHANGES}"
        );
        let detail = format!(
            "{}; this change may have taken effect since: look at the platform, then `tallyd outbox release` or \
             `tallyd outbox cancel` it",
            restored.description
        );
        let values = (Reason::Restored.as_str(), cut_reason(detail), at);
        self.execute(AssertSqlSafe(sql), values, "hold the changes of the copy").await?;
        Ok(held)
    }
}
