//! Detection of a rolled-back database: a restored copy, or a file of another tool or machine
//! (docs/backup.md).
//!
//! The calls made between the copy and the restore are unknown. Repeating a change is harmless if it is
//! absolute; otherwise it doubles the effect. Changes that are not absolute are therefore held until a person
//! decides. The counter jumps over the lost positions, so no position has two meanings and the alarm is
//! raised once.

use super::error::Doing;
use super::position_file::PositionFile;
use crate::model::{Position, Timestamp, WishId};
use crate::outbox::Reason;
use crate::store::{Store, StoreError, Write};
use std::collections::BTreeSet;

/// Event of a person's declaration that the database was restored.
const DECLARED: &str = "database.declared_restored";

/// Sign that the database went back in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// Last position that is known to have been reached.
    pub reached: Position,
    /// Sign, as a sentence for the operator.
    pub how: String,
}

/// SQL: pending changes that would double an effect. A count that names its base or its moment is among them,
/// because own writes since the copy would look like sales.
const DOUBLES: &str = "
SELECT id FROM outbox WHERE state = 'pending'
  AND (kind IN ('quantity.adjust', 'shipment.create', 'tracking.submit', 'product.create', 'warehouse.create',
                'listing_template.create')
       OR (kind = 'quantity.set' AND (json_type(body, '$.seen') IS NOT NULL
                                      OR json_type(body, '$.counted_at') IS NOT NULL)))";

impl Store {
    /// Returns the sign that the database went back in time; call it at the start, before any write.
    ///
    /// `host` is this machine's name in the database ([`Belonging::host`](crate::store::Belonging::host)).
    /// With `None` the machine is no sign: it has no name, or its disk may come from another machine.
    ///
    /// # Errors
    /// Fails where the database cannot be read.
    pub async fn restored(&self, host: Option<&str>) -> Result<Option<Restored>, StoreError> {
        let stands = self.position().await?;
        let file = self.position_file.as_deref();
        let noted = file.and_then(PositionFile::read).unwrap_or(stands);
        let (marked, last_host, is_used) = self.origin().await?;
        if let Some(file) = file.filter(|_| !is_used) {
            file.begin(stands);
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
        Ok(Some(Restored { reached: noted.max(stands), how }))
    }

    /// Returns the signs stored in the database: its backup marker, its last host, and true if a session
    /// exists. The marker is its time, and true if a person set it.
    async fn origin(&self) -> Result<Origin, StoreError> {
        let sql = "SELECT (SELECT strftime('%Y-%m-%dT%H:%M:%fZ', made_ms / 1000.0, 'unixepoch') \
                              FROM backup_marker), \
                          EXISTS (SELECT 1 FROM backup_marker m JOIN event e ON e.position = m.position \
                              AND e.kind = ?1), \
                          (SELECT host FROM session ORDER BY id DESC LIMIT 1), EXISTS (SELECT 1 FROM session)";
        let (at, is_declared, host, is_used): (Option<String>, bool, Option<String>, bool) =
            sqlx::query_as(sql)
                .bind(DECLARED)
                .fetch_one(&mut *self.read().await?)
                .await
                .doing("look for the mark of a copy")?;
        Ok((at.map(|at| (at, is_declared)), host, is_used))
    }
}

type Origin = (Option<(String, bool)>, Option<String>, bool);

impl Write {
    /// Marks the database as restored by a person's declaration; the next start holds doubtful changes.
    ///
    /// # Errors
    /// Fails where the database cannot be written.
    pub async fn restored_declare(&mut self, at: Timestamp) -> Result<(), StoreError> {
        let position = self.event_append(at, DECLARED, "database", None).await?;
        let sql = "INSERT OR REPLACE INTO backup_marker (id, made_ms, position) VALUES (1, ?1, ?2)";
        let done = sqlx::query(sql).bind(at.0).bind(position.0).execute(&mut *self.tx).await;
        done.map(drop).doing("mark the database as restored")
    }

    /// Holds the changes that may have taken effect since, and returns their number.
    ///
    /// Call it after [`Write::session_begin`], which puts open writes in doubt. It also jumps over the lost
    /// positions and deletes the backup marker.
    pub async fn restored_hold(&mut self, restored: &Restored, at: Timestamp) -> Result<u64, StoreError> {
        let sql = "UPDATE journal_sequence SET position = max(position, ?1)";
        let jump = sqlx::query(sql).bind(restored.reached.0).execute(&mut *self.tx).await;
        jump.doing("jump over the positions that were lost")?;
        let done = sqlx::query("DELETE FROM backup_marker").execute(&mut *self.tx).await;
        done.doing("take a copy into use")?;
        self.forget_doubts(at).await?;
        self.forget_bases().await?;
        let found = sqlx::query_scalar(DOUBLES).fetch_all(&mut *self.tx).await;
        let doubles: Vec<i64> = found.doing("find the wishes that may have been done")?;
        let doubles: BTreeSet<WishId> = doubles.into_iter().map(WishId).collect();
        if doubles.is_empty() {
            return Ok(0);
        }
        let what = format!("{}; this may have been done since", restored.how);
        Ok(self.brake_trip(Reason::Restored, &what, &doubles, at).await?.1)
    }

    /// Moves adjusts in doubt to `pending`, so that [`DOUBLES`] holds them with the other changes. A check
    /// cannot decide them any more, because the stock level may have changed and returned since.
    async fn forget_doubts(&mut self, at: Timestamp) -> Result<(), StoreError> {
        let sql = "UPDATE outbox SET revision = revision + 1, state = 'pending', reason = 'not_sent', \
                   state_changed_ms = ?1 \
                   WHERE state IN ('sending', 'held', 'in_doubt') AND state = 'in_doubt' AND kind = 'quantity.adjust'";
        let done = sqlx::query(sql).bind(at.0).execute(&mut *self.tx).await;
        done.doing("hold the adjusts in doubt")?;
        self.cells_free(at).await
    }

    /// Clears the bases of counts, which lack our writes since the copy; the next read sets them
    /// (docs/rules.md 3). `base_ms` 0 excludes earlier facts as a base. NULL would mean that the SKU was not
    /// resolved.
    async fn forget_bases(&mut self) -> Result<(), StoreError> {
        let sql = "UPDATE outbox SET revision = revision + 1, base_quantity = NULL, base_own_delta = NULL, \
                   base_ms = 0, \
                       position = (SELECT position FROM journal_sequence) WHERE state = 'pending' \
                           AND kind = 'quantity.set'";
        sqlx::query(sql).execute(&mut *self.tx).await.map(drop).doing("forget the bases of counts")
    }
}
