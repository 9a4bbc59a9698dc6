//! Replay: the journal of a database folded into a fresh mirror, offline, and compared with the live one.
//!
//! The live database is only read, as of one moment; no lock is taken and no call made.

use super::{JobError, fold};
use crate::model::{Position, Timestamp};
use crate::store::{Compared, Durability, FACTS, FactRow, Journal, Store};
use std::path::Path;

/// Positions folded in one transaction: many enough that commits do not count, few enough that their bodies are held.
const STEP: i64 = 200;

/// Columns that say by which exchange and when a fact was last read: they move with every read.
const READ_BY: &[&str] =
    &["exchange_id", "observed_ms", "read_batch_id", "fact_exchange_id", "fact_ms", "changed_ms"];

/// All facts of a mirror, table by table in the order of [`FACTS`].
pub type Facts = Vec<Vec<FactRow>>;

/// A mirror on its way through a journal.
#[derive(Debug)]
pub struct Replay {
    journal: Journal,
    mirror: Store,
    at: Position,
}

/// What a replay came to.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// The position up to which the journal was folded.
    pub position: Position,
    /// The tables of facts, live and replayed.
    pub tables: Vec<Compared>,
}

impl Replay {
    /// Begins a fresh mirror in `into`, which must not be there yet, over the journal of `live`.
    pub async fn begin(live: &Path, into: &Path) -> Result<Self, JobError> {
        let mut journal = Journal::open(live).await?;
        Self::is_ours(&mut journal).await?;
        let mirror = Store::create(into).await?;
        Ok(Self { journal, mirror, at: Position(0) })
    }

    /// Goes on with the mirror in `into`, which an earlier replay of the same journal left there.
    pub async fn resume(live: &Path, into: &Path) -> Result<Self, JobError> {
        let mut journal = Journal::open(live).await?;
        Self::is_ours(&mut journal).await?;
        let mirror = Store::folded(into).await?;
        let at = mirror.position().await?;
        Ok(Self { journal, mirror, at })
    }

    /// The position up to which there is something to fold, at the latest as of `until`.
    pub async fn end(&mut self, until: Option<Timestamp>) -> Result<Position, JobError> {
        Ok(match until {
            Some(until) => self.journal.position_at(until).await?,
            None => self.journal.last().await?,
        })
    }

    /// Folds on up to `to`, telling each step's position.
    pub async fn fold(
        &mut self,
        to: Position,
        told: &mut (dyn FnMut(Position) + Send),
    ) -> Result<(), JobError> {
        if self.at == Position(0) {
            self.restore(to).await?;
        }
        while self.at < to {
            let step = Position(self.at.0.saturating_add(STEP).min(to.0));
            let entries = self.journal.entries(self.at, step).await?;
            let mut write = self.mirror.begin(Durability::Normal).await?;
            for entry in &entries {
                fold::entry(&mut write, entry).await?;
            }
            write.position_set(step).await?;
            write.commit().await?;
            self.at = step;
            told(step);
        }
        Ok(())
    }

    /// Begins with the newest snapshot that helps, if the journal before it was pruned.
    async fn restore(&mut self, to: Position) -> Result<(), JobError> {
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

    /// The same fold over the journal as it is by now.
    pub(super) async fn reopen(self, live: &Path) -> Result<Self, JobError> {
        Ok(Self { journal: Journal::open(live).await?, ..self })
    }

    /// The facts as folded so far, without by which exchange and when they were last read.
    pub async fn facts(&self, into: &Path) -> Result<Facts, JobError> {
        let mut mirror = Journal::open(into).await?;
        let mut facts = Vec::with_capacity(FACTS.len());
        for table in FACTS {
            facts.push(mirror.facts(table, READ_BY).await?);
        }
        Ok(facts)
    }

    /// What differs between the facts at two positions.
    pub fn changes(before: &Facts, after: &Facts) -> Vec<Compared> {
        let pairs = FACTS.iter().zip(before.iter().zip(after));
        let compared = pairs.map(|(table, (before, after))| Compared::of(table.name, before, after));
        compared.filter(|compared| !compared.is_equal()).collect()
    }

    /// Closes the mirror, whose file is whole from then on.
    pub async fn close(self) -> Result<(), JobError> {
        Ok(self.mirror.close().await?)
    }

    /// Compares all facts of the live mirror with the fold, and closes.
    pub async fn compare(self, into: &Path) -> Result<Replayed, JobError> {
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
    /// Whether the fold of the journal is the live mirror.
    pub fn is_equal(&self) -> bool {
        self.tables.iter().all(Compared::is_equal)
    }
}
