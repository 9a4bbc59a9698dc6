//! A database that went back in time: a restored copy, a file put back, or one that another tool or machine had
//! (docs/backup.md).
//!
//! What was done between the copy and the restore nobody here remembers. Doing it again is harmless where the wish is
//! absolute and doubles it where it is not, so what is not absolute is held until a person has looked. The counter
//! jumps over the positions that were lost: no position ever means two things, and the alarm is raised once.

use super::error::Doing;
use super::position_file::PositionFile;
use super::{Store, StoreError, Write};
use crate::model::{Position, Timestamp, WishId};
use crate::outbox::Reason;
use std::collections::BTreeSet;

/// The event of a person who says that the database was restored.
const DECLARED: &str = "database.declared_restored";

/// How a database is known to have gone back in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The last position that is known to have been reached.
    pub reached: Position,
    /// What the operator is told.
    pub how: String,
}

/// Pending wishes that would double what was done already. A count that names what it was made against is among them:
/// our own writes since the copy would look like sales.
const DOUBLES: &str = "
SELECT id FROM outbox WHERE state = 'pending'
  AND (kind IN ('quantity.adjust', 'shipment.create', 'tracking.submit', 'product.create', 'warehouse.create',
                'listing_template.create')
       OR (kind = 'quantity.set' AND (json_type(body, '$.seen') IS NOT NULL
                                      OR json_type(body, '$.counted_at') IS NOT NULL)))";

impl Store {
    /// The sign that the database may have gone back in time; `None`: there is none. Asked at the start, before anything
    /// is written.
    ///
    /// `host` is this machine's name in the database ([`Belonging::host`](super::Belonging::host)); `None`: the machine has
    /// none, or its disk may come from another one, and the machine is no sign.
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

    /// The time of the copy's mark and true if a person set it; the last session's host; true if there is a session.
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

/// See [`Store::origin`].
type Origin = (Option<(String, bool)>, Option<String>, bool);

impl Write {
    /// Notes that a person says the database was restored: the next start holds what may have been done since.
    ///
    /// # Errors
    /// Fails where the database cannot be written.
    pub async fn restored_declare(&mut self, at: Timestamp) -> Result<(), StoreError> {
        let position = self.event_append(at, DECLARED, "database", None).await?;
        let sql = "INSERT OR REPLACE INTO backup_marker (id, made_ms, position) VALUES (1, ?1, ?2)";
        let done = sqlx::query(sql).bind(at.0).bind(position.0).execute(&mut *self.tx).await;
        done.map(drop).doing("mark the database as restored")
    }

    /// Holds what may have been done since, and takes the database into use; how many wishes are held is returned.
    /// After [`Write::session_begin`], which puts in doubt what was under way.
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

    /// An adjust in doubt cannot be decided by a look any more: the cell may have moved on and come back since. It is
    /// held with the others.
    async fn forget_doubts(&mut self, at: Timestamp) -> Result<(), StoreError> {
        let sql = "UPDATE outbox SET revision = revision + 1, state = 'pending', reason = 'not_sent', \
                   state_changed_ms = ?1 \
                   WHERE state IN ('sending', 'held', 'in_doubt') AND state = 'in_doubt' AND kind = 'quantity.adjust'";
        let done = sqlx::query(sql).bind(at.0).execute(&mut *self.tx).await;
        done.doing("hold the adjusts in doubt")?;
        self.cells_free(at).await
    }

    /// The base of a count lacks our writes since the copy: the first read takes its place (docs/reconciliation.md, rule 3).
    /// A base of the year 1970 says that no earlier fact will do, where none at all means that its SKU was not understood.
    async fn forget_bases(&mut self) -> Result<(), StoreError> {
        let sql = "UPDATE outbox SET revision = revision + 1, base_quantity = NULL, base_own_delta = NULL, \
                   base_ms = 0, \
                       position = (SELECT position FROM journal_sequence) WHERE state = 'pending' \
                           AND kind = 'quantity.set'";
        sqlx::query(sql).execute(&mut *self.tx).await.map(drop).doing("forget the bases of counts")
    }
}
