//! Replay: rebuilds a mirror from the journal, offline, and compares it with the live one.
//!
//! The live database is read as of one moment. No lock is taken and no call is made.

use super::apply;
use crate::model::{Position, Timestamp};
use crate::projection::ProjectionError;
use crate::store::{Compared, Durability, FACTS, FactRow, Journal, Store};
use std::path::Path;

/// Positions projected in one transaction. More would cost memory for their bodies, fewer would cost commits.
const STEP: i64 = 200;

/// Columns with the exchange and time of a fact's last read, which change with every read.
const READ_BY: &[&str] =
    &["exchange_id", "observed_ms", "read_batch_id", "fact_exchange_id", "fact_ms", "changed_ms"];

/// All facts of a mirror, table by table in the order of [`FACTS`].
pub type Facts = Vec<Vec<FactRow>>;

/// A mirror that is being rebuilt from a journal.
#[derive(Debug)]
pub struct Replay {
    journal: Journal,
    mirror: Store,
    at: Position,
}

/// Result of a replay.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// Position up to which the journal was projected.
    pub position: Position,
    /// Comparison of each table of facts, live and replayed.
    pub tables: Vec<Compared>,
}

impl Replay {
    /// Starts with an empty mirror in the new file `into`, over the journal of `live`.
    pub async fn begin(live: &Path, into: &Path) -> Result<Self, ProjectionError> {
        let mut journal = Journal::open(live).await?;
        Self::is_ours(&mut journal).await?;
        let mirror = Store::create(into).await?;
        Ok(Self { journal, mirror, at: Position(0) })
    }

    /// Continues with the mirror in `into` of an earlier replay of the same journal.
    pub async fn resume(live: &Path, into: &Path) -> Result<Self, ProjectionError> {
        let mut journal = Journal::open(live).await?;
        Self::is_ours(&mut journal).await?;
        let mirror = Store::folded(into).await?;
        let at = mirror.position().await?;
        Ok(Self { journal, mirror, at })
    }

    /// Returns the last position of the journal, or the last one as of `until`.
    pub async fn end(&mut self, until: Option<Timestamp>) -> Result<Position, ProjectionError> {
        Ok(match until {
            Some(until) => self.journal.position_at(until).await?,
            None => self.journal.last().await?,
        })
    }

    /// Projects the journal up to `to`, and reports the position after each step.
    pub async fn fold(
        &mut self,
        to: Position,
        told: &mut (dyn FnMut(Position) + Send),
    ) -> Result<(), ProjectionError> {
        if self.at == Position(0) {
            self.restore(to).await?;
        }
        while self.at < to {
            let step = Position(self.at.0.saturating_add(STEP).min(to.0));
            let entries = self.journal.entries(self.at, step).await?;
            let mut write = self.mirror.begin(Durability::Normal).await?;
            for entry in &entries {
                apply::entry(&mut write, entry).await?;
            }
            write.position_set(step).await?;
            write.commit().await?;
            self.at = step;
            told(step);
        }
        Ok(())
    }

    /// Starts from the newest suitable snapshot, if the journal before it was pruned.
    async fn restore(&mut self, to: Position) -> Result<(), ProjectionError> {
        let Some(snapshot) = self.journal.snapshot_before(to).await? else { return Ok(()) };
        let at = Position(snapshot.position);
        let mut write = self.mirror.begin(Durability::Normal).await?;
        for (table, rows) in self.journal.snapshot_tables(at).await? {
            write.snapshot_restore(&table, &rows).await?;
        }
        write.position_set(at).await?;
        write.commit().await?;
        self.at = at;
        Ok(())
    }

    /// Continues over the present state of the journal.
    pub(crate) async fn reopen(self, live: &Path) -> Result<Self, ProjectionError> {
        Ok(Self { journal: Journal::open(live).await?, ..self })
    }

    /// Returns the facts so far, without the exchange and time of their last read.
    pub async fn facts(&self, into: &Path) -> Result<Facts, ProjectionError> {
        let mut mirror = Journal::open(into).await?;
        let mut facts = Vec::with_capacity(FACTS.len());
        for table in FACTS {
            facts.push(mirror.facts(table, READ_BY).await?);
        }
        Ok(facts)
    }

    /// Returns the differences between the facts at two positions.
    pub fn changes(before: &Facts, after: &Facts) -> Vec<Compared> {
        let pairs = FACTS.iter().zip(before.iter().zip(after));
        let compared = pairs.map(|(table, (before, after))| Compared::of(table.name, before, after));
        compared.filter(|compared| !compared.is_equal()).collect()
    }

    /// Closes the mirror. Its file is complete from then on.
    pub async fn close(self) -> Result<(), ProjectionError> {
        Ok(self.mirror.close().await?)
    }

    /// Compares all facts of the live mirror with the rebuilt one, and closes both.
    pub async fn compare(self, into: &Path) -> Result<Replayed, ProjectionError> {
        let Self { mut journal, mirror, at } = self;
        mirror.close().await?;
        let mut replayed = Journal::open(into).await?;
        let mut tables = Vec::with_capacity(FACTS.len());
        for table in FACTS {
            let live = journal.facts(table, &[]).await?;
            tables.push(Compared::of(table.name, &live, &replayed.facts(table, &[]).await?));
        }
        Ok(Replayed { position: at, tables })
    }
}

impl Replayed {
    /// Returns true if the rebuilt mirror equals the live one.
    pub fn is_equal(&self) -> bool {
        self.tables.iter().all(Compared::is_equal)
    }
}
