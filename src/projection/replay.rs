//! Replay: rebuilds a mirror from the journal, offline, and compares it with the live one.
//!
//! The live database is read as of one moment. No lock is taken and no call is made.

use super::{ProjectionError, apply};
use crate::model::{Position, Timestamp};
use crate::store::{
    DatabaseLocation, Durability, FACT_TABLES, FactRow, JournalReader, RowDifference, Store, TableComparison,
    row_differences,
};
use std::path::Path;

/// Positions projected in one transaction. More would cost memory for their bodies, fewer would cost commits.
const STEP_POSITIONS: i64 = 200;

/// Exchange and time of a fact's last read, which change with every read; left out between two positions.
const DIFF_IGNORED_COLUMNS: &[&str] =
    &["exchange_id", "observed_ms", "read_batch_id", "fact_exchange_id", "fact_ms", "changed_ms"];

/// All facts of a mirror, table by table in the order of [`FACT_TABLES`].
pub(crate) type MirrorFacts = Vec<Vec<FactRow>>;

/// Name of a table, and its rows that differ.
pub(crate) type ChangedTable = (&'static str, Vec<RowDifference>);

/// A mirror that is being rebuilt from a journal.
#[derive(Debug)]
pub struct JournalReplay {
    journal: JournalReader,
    mirror: Store,
    at: Position,
}

#[derive(Clone, Debug)]
pub struct ReplayReport {
    /// Position up to which the journal was projected.
    pub position: Position,
    /// Comparison of each table of facts, live and replayed.
    pub tables: Vec<TableComparison>,
}

impl JournalReplay {
    /// Starts with an empty mirror in the new file `into`, over the journal of `live`.
    pub async fn start_empty(
        live: impl Into<DatabaseLocation>,
        into: &Path,
    ) -> Result<Self, ProjectionError> {
        let journal = Self::open_journal(live).await?;
        let mirror = Store::create_unlocked(into).await?;
        Ok(Self { journal, mirror, at: Position(0) })
    }

    /// Continues with the mirror in `into` of an earlier replay of the same journal.
    pub async fn resume(live: impl Into<DatabaseLocation>, into: &Path) -> Result<Self, ProjectionError> {
        let journal = Self::open_journal(live).await?;
        let mirror = Store::open_unlocked(into).await?;
        let at = mirror.journal_position().await?;
        Ok(Self { journal, mirror, at })
    }

    /// Returns the last position of the journal, or the last one as of `until`.
    pub async fn last_position(&mut self, until: Option<Timestamp>) -> Result<Position, ProjectionError> {
        Ok(match until {
            Some(until) => self.journal.position_at(until).await?,
            None => self.journal.last_position().await?,
        })
    }

    /// Projects the journal up to `to`, and reports the position after each step.
    pub async fn project_to(
        &mut self,
        to: Position,
        report_step: &mut (dyn FnMut(Position) + Send),
    ) -> Result<(), ProjectionError> {
        if self.at == Position(0) {
            self.restore_snapshot(to).await?;
        }
        while self.at < to {
            let step = Position(self.at.0.saturating_add(STEP_POSITIONS).min(to.0));
            let entries = self.journal.entries_between(self.at, step).await?;
            let mut write = self.mirror.begin_write(Durability::Normal).await?;
            for entry in &entries {
                apply::apply_entry(&mut write, entry).await?;
            }
            write.position_set(step).await?;
            write.commit().await?;
            self.at = step;
            report_step(step);
        }
        Ok(())
    }

    /// Starts from the newest suitable snapshot, if the journal before it was pruned.
    async fn restore_snapshot(&mut self, to: Position) -> Result<(), ProjectionError> {
        let Some(snapshot) = self.journal.snapshot_before(to).await? else { return Ok(()) };
        let at = Position(snapshot.position);
        let mut write = self.mirror.begin_write(Durability::Normal).await?;
        for (table, rows) in self.journal.snapshot_tables(at).await? {
            write.snapshot_restore(&table, &rows).await?;
        }
        write.position_set(at).await?;
        write.commit().await?;
        self.at = at;
        Ok(())
    }

    /// Continues over the present state of the journal.
    pub(crate) async fn reopen_journal(self, live: &DatabaseLocation) -> Result<Self, ProjectionError> {
        Ok(Self { journal: JournalReader::open(live).await?, ..self })
    }

    /// Returns the facts so far, without the exchange and time of their last read.
    pub(crate) async fn current_facts(&self, into: &Path) -> Result<MirrorFacts, ProjectionError> {
        let mut mirror = JournalReader::open(into).await?;
        let mut facts = Vec::with_capacity(FACT_TABLES.len());
        for table in FACT_TABLES {
            facts.push(mirror.fact_rows(table, DIFF_IGNORED_COLUMNS).await?);
        }
        Ok(facts)
    }

    /// Returns the differences between the facts at two positions.
    pub(crate) fn changed_facts(before: &MirrorFacts, after: &MirrorFacts) -> Vec<ChangedTable> {
        let pairs = FACT_TABLES.iter().zip(before).zip(after);
        let compared = pairs.map(|((table, old), new)| (table.name, row_differences(old, new)));
        compared.filter(|(_, differences)| !differences.is_empty()).collect()
    }

    /// Closes the mirror. Its file is complete from then on.
    pub(crate) async fn close(self) -> Result<(), ProjectionError> {
        Ok(self.mirror.close().await?)
    }

    /// Compares all facts of the live mirror with the rebuilt one, and closes both.
    pub async fn compare_mirrors(self, into: &Path) -> Result<ReplayReport, ProjectionError> {
        let Self { mut journal, mirror, at } = self;
        mirror.close().await?;
        let mut replayed = JournalReader::open(into).await?;
        let mut tables = Vec::with_capacity(FACT_TABLES.len());
        for table in FACT_TABLES {
            tables.push(TableComparison::read(table, &mut journal, &mut replayed).await?);
        }
        Ok(ReplayReport { position: at, tables })
    }
}

impl ReplayReport {
    /// Returns true if the rebuilt mirror equals the live one.
    pub fn is_equal(&self) -> bool {
        self.tables.iter().all(TableComparison::is_equal)
    }
}
