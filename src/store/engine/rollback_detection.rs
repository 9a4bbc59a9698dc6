//! Detection of a rolled-back database: a restored copy, or a file of another tool or machine
//! (docs/backup.md).
//!
//! The calls made between the copy and the restore are unknown. Repeating a change is harmless if it is
//! absolute; otherwise it doubles the effect. Changes that are not absolute are therefore held until a person
//! decides. The counter jumps over the lost positions, so no position has two meanings and the alarm is
//! raised once.

use super::error::SqlContext;
use super::position_file::PositionFile;
use crate::model::{ChangeId, Position, Timestamp};
use crate::outbox::Reason;
use crate::store::{Store, StoreError, WriteTransaction};
use std::collections::BTreeSet;

/// Event of a person's declaration that the database was restored.
const RESTORE_DECLARED: &str = "database.declared_restored";

/// Sign that the database went back in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RollbackSign {
    /// Last position that is known to have been reached.
    pub reached_position: Position,
    /// Sign, as a sentence for the operator.
    pub description: String,
}

/// SQL: pending changes that would double an effect. A count that names its base or its moment is among them,
/// because own writes since the copy would look like sales.
const NON_IDEMPOTENT_CHANGES: &str = "
SELECT id FROM outbox WHERE state = 'pending'
  AND (kind IN ('quantity.adjust', 'shipment.create', 'tracking.submit', 'product.create', 'warehouse.create',
                'listing_template.create')
       OR (kind = 'quantity.set' AND (json_type(body, '$.seen') IS NOT NULL
                                      OR json_type(body, '$.counted_at') IS NOT NULL)))";

impl Store {
    /// Returns the sign that the database went back in time; call it at the start, before any write.
    ///
    /// `host` is this machine's name in the database ([`AccountBinding::host_digest`](crate::store::AccountBinding::host_digest)).
    /// With `None` the machine is no sign: it has no name, or its disk may come from another machine.
    ///
    /// # Errors
    /// Fails where the database cannot be read.
    pub async fn rollback_sign(&self, host: Option<&str>) -> Result<Option<RollbackSign>, StoreError> {
        let stands = self.journal_position().await?;
        let file = self.position_file.as_deref();
        let noted = file.and_then(PositionFile::read_position).unwrap_or(stands);
        let (marked, last_host, is_used) = self.rollback_marks().await?;
        if let Some(file) = file.filter(|_| !is_used) {
            file.create_synced(stands);
        }
        let missing = file.filter(|file| file.is_missing());
        let how = match (marked, missing) {
            (Some((at, true)), _) => format!("`tallyd restored` said at {at} that the database was restored"),
            (Some((at, false)), _) => format!("the database is a copy made at {at}"),
            (None, Some(file)) => {
                let file = file.path().display();
                format!("there is no {file} beside the database: another tool copied or restored it")
            }
            (None, None) if noted > stands => {
                let lost = noted.0 - stands.0;
                format!("the database was put back: {lost} position(s) of its journal are gone")
            }
            (None, None) if host.zip(last_host.as_deref()).is_some_and(|(host, last)| host != last) => {
                "the database was last used on another machine, and a copy of it may be older than what that machine sent \
                 (`database.moves_between_hosts` says that the disk itself moves)"
                    .into()
            }
            (None, None) => return Ok(None),
        };
        Ok(Some(RollbackSign { reached_position: noted.max(stands), description: how }))
    }

    /// Returns the signs stored in the database: its backup marker, its last host, and true if a session
    /// exists. The marker is its time, and true if a person set it.
    async fn rollback_marks(&self) -> Result<RollbackMarks, StoreError> {
        let sql = "SELECT (SELECT strftime('%Y-%m-%dT%H:%M:%fZ', made_ms / 1000.0, 'unixepoch') \
                              FROM backup_marker), \
                          EXISTS (SELECT 1 FROM backup_marker m JOIN event e ON e.position = m.position \
                              AND e.kind = ?1), \
                          (SELECT host FROM session ORDER BY id DESC LIMIT 1), EXISTS (SELECT 1 FROM session)";
        let (at, is_declared, host, is_used): (Option<String>, bool, Option<String>, bool) =
            sqlx::query_as(sql)
                .bind(RESTORE_DECLARED)
                .fetch_one(&mut *self.read_connection().await?)
                .await
                .context("look for the mark of a copy")?;
        Ok((at.map(|at| (at, is_declared)), host, is_used))
    }
}

type RollbackMarks = (Option<(String, bool)>, Option<String>, bool);

impl WriteTransaction {
    /// Marks the database as restored by a person's declaration; the next start holds doubtful changes.
    ///
    /// # Errors
    /// Fails where the database cannot be written.
    pub async fn restore_declare(&mut self, at: Timestamp) -> Result<(), StoreError> {
        let position = self.event_append(at, RESTORE_DECLARED, "database", None).await?;
        let sql = "INSERT OR REPLACE INTO backup_marker (id, made_ms, position) VALUES (1, ?1, ?2)";
        let done = sqlx::query(sql).bind(at.0).bind(position.0).execute(&mut *self.tx).await;
        done.map(drop).context("mark the database as restored")
    }

    /// Holds the changes that may have taken effect since, and returns their number.
    ///
    /// Call it after [`WriteTransaction::session_begin`], which puts open writes in doubt. It also jumps over the lost
    /// positions and deletes the backup marker.
    pub async fn rollback_hold(&mut self, restored: &RollbackSign, at: Timestamp) -> Result<u64, StoreError> {
        let sql = "UPDATE journal_sequence SET position = max(position, ?1)";
        let jump = sqlx::query(sql).bind(restored.reached_position.0).execute(&mut *self.tx).await;
        jump.context("jump over the positions that were lost")?;
        let done = sqlx::query("DELETE FROM backup_marker").execute(&mut *self.tx).await;
        done.context("take a copy into use")?;
        self.requeue_adjusts_in_doubt(at).await?;
        self.clear_count_bases().await?;
        let found = sqlx::query_scalar(NON_IDEMPOTENT_CHANGES).fetch_all(&mut *self.tx).await;
        let doubles: Vec<i64> = found.context("find the changes that may have been done")?;
        let doubles: BTreeSet<ChangeId> = doubles.into_iter().map(ChangeId).collect();
        if doubles.is_empty() {
            return Ok(0);
        }
        let what = format!("{}; this may have been done since", restored.description);
        Ok(self.brake_trip_hold(Reason::Restored, &what, &doubles, at).await?.1)
    }

    /// Moves adjusts in doubt to `pending`, so that [`NON_IDEMPOTENT_CHANGES`] holds them with the other changes. A check
    /// cannot decide them any more, because the stock level may have changed and returned since.
    async fn requeue_adjusts_in_doubt(&mut self, at: Timestamp) -> Result<(), StoreError> {
        let sql = "UPDATE outbox SET revision = revision + 1, state = 'pending', reason = 'not_sent', \
                   state_changed_ms = ?1 \
                   WHERE state IN ('sending', 'held', 'in_doubt') AND state = 'in_doubt' AND kind = 'quantity.adjust'";
        let done = sqlx::query(sql).bind(at.0).execute(&mut *self.tx).await;
        done.context("hold the adjusts in doubt")?;
        self.stock_level_writes_end_orphaned(at).await
    }

    /// Clears the bases of counts, which lack our writes since the copy; the next read sets them
    /// (docs/rules.md 3). `base_ms` 0 excludes earlier facts as a base. NULL would mean that the SKU was not
    /// resolved.
    async fn clear_count_bases(&mut self) -> Result<(), StoreError> {
        let sql = "UPDATE outbox SET revision = revision + 1, base_quantity = NULL, base_own_delta = NULL, \
                   base_ms = 0, \
                       position = (SELECT position FROM journal_sequence) WHERE state = 'pending' \
                           AND kind = 'quantity.set'";
        sqlx::query(sql).execute(&mut *self.tx).await.map(drop).context("forget the bases of counts")
    }
}
