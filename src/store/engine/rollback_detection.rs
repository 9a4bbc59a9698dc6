//! Detection of a rolled-back database: a restored copy, or a file of another tool or machine
//! (docs/backup.md).
//!
//! The calls made between the copy and the restore are unknown. Repeating a change is harmless if it is
//! absolute; otherwise it doubles the effect. Changes that are not absolute are therefore held until a person
//! decides. The counter jumps over the lost positions, so no position has two meanings and the alarm is
//! raised once.

use super::position_file::PositionFile;
use crate::model::{ChangeId, Position, Timestamp};
use crate::outbox::Reason;
use crate::store::{Result, Store, WriteTransaction};
use std::collections::BTreeSet;

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
                format!("`tallyd restored` declared at {at} that the database was restored")
            }
            (Some(at), _) => format!("the database is a copy made at {at}"),
            (None, Some(file)) => {
                let file = file.path().display();
                format!("there is no {file} beside the database: another tool copied or restored it")
            }
            (None, None) if noted > position => {
                let lost = noted.0 - position.0;
                format!("the database is older than it was: {lost} position(s) of its journal are missing")
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

    /// Holds the changes that may have taken effect since, and returns their number.
    ///
    /// Call it after [`WriteTransaction::session_begin`], which puts open writes in doubt. It also jumps over
    /// the lost positions and deletes the backup marker.
    pub async fn rollback_hold(&mut self, restored: &RollbackSign, at: Timestamp) -> Result<u64> {
        let sql = "UPDATE journal_sequence SET position = $1 WHERE position < $1";
        self.execute(sql, (restored.reached_position.0,), "skip the lost positions").await?;
        self.execute("DELETE FROM backup_marker", (), "delete the backup marker").await?;
        self.requeue_adjusts_in_doubt(at).await?;
        self.clear_count_bases().await?;
        let held: Vec<ChangeId> = self
            .fetch_column(NON_IDEMPOTENT_CHANGES, (), "find the changes that may have taken effect")
            .await?;
        if held.is_empty() {
            return Ok(0);
        }
        let held: BTreeSet<ChangeId> = held.into_iter().collect();
        let detail = format!("{}; this change may have taken effect since", restored.description);
        Ok(self.brake_trip_hold(Reason::Restored, &detail, &held, at).await?.1)
    }

    /// Moves adjusts in doubt to `pending`, so that [`NON_IDEMPOTENT_CHANGES`] holds them with the other
    /// changes. A check cannot decide them any more, because the stock level may have changed and returned
    /// since.
    async fn requeue_adjusts_in_doubt(&mut self, at: Timestamp) -> Result<()> {
        let sql = "UPDATE outbox SET revision = revision + 1, state = 'pending', reason = 'not_sent', \
                   state_changed_ms = $1 \
                   WHERE state IN ('sending', 'held', 'in_doubt') AND state = 'in_doubt' AND kind = 'quantity.adjust'";
        self.execute(sql, (at.0,), "hold the adjusts in doubt").await?;
        self.stock_level_writes_end_orphaned(at).await
    }

    /// Clears the bases of counts, which lack our writes since the copy; the next read sets them
    /// (docs/rules.md 3). `base_ms` 0 excludes earlier facts as a base. NULL would mean that the SKU was not
    /// resolved.
    async fn clear_count_bases(&mut self) -> Result<()> {
        let sql = "UPDATE outbox SET revision = revision + 1, base_quantity = NULL, base_own_delta = NULL, \
                   base_ms = 0, \
                       position = (SELECT position FROM journal_sequence) WHERE state = 'pending' \
                           AND kind = 'quantity.set'";
        self.execute(sql, (), "clear the bases of counts").await
    }
}
