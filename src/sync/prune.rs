//! `prune`: keeps the journal within its age and size (docs/rules.md 22).
//!
//! First a snapshot is built beside the database from the last snapshot and the journal after it, never from
//! the live mirror. Nothing is deleted unless the snapshot equals the live mirror row for row. The snapshot,
//! its position and the deletion commit together, in one write transaction that lasts as long as the
//! comparison. `store/journal/prune.rs` lists the rows that stay.

use crate::exec::{JobContext, JobError, JournalRetention, RunReport};
use crate::model::{Position, Timestamp, counted, time};
use crate::projection::JournalReplay;
use crate::store::{
    Durability, JournalReader, PrunedRows, Store, TableComparison, remove_database, with_suffix,
};
use crate::telemetry::event;
use std::path::PathBuf;
use std::time::Duration;

/// Largest calendar jump for which ages are trusted without an operator's confirmation.
const CLOCK_JUMP_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Mode of a pruning.
#[derive(Clone, Copy, Debug, Default)]
pub struct PruneOptions {
    /// An operator asked: the calendar is right after any jump.
    pub is_by_operator: bool,
    /// Only report the deletion.
    pub is_dry_run: bool,
}

/// Result of a pruning.
#[derive(Clone, Copy, Debug, Default)]
pub struct PruneReport {
    /// Counts of the deleted rows.
    pub deleted: PrunedRows,
    /// Position up to which bodies were deleted; `None` if nothing was old or large enough.
    pub pruned_to: Option<Position>,
    /// True if some bodies were deleted before their age.
    pub is_by_size: bool,
    /// Used bytes of the database afterwards.
    pub used_bytes: u64,
    /// Bytes freed.
    pub freed_bytes: u64,
    /// Size of a calendar jump that prevented pruning by age.
    pub clock_jump: Option<Duration>,
}

pub(crate) async fn run(context: &JobContext, is_by_operator: bool) -> Result<RunReport, JobError> {
    let options = PruneOptions { is_by_operator, is_dry_run: false };
    let started = context.now();
    let pruned = prune_journal(&context.store, context.settings().retention, options, started).await?;
    if pruned.pruned_to.is_some() {
        let elapsed_ms = time::whole_millis(context.now().duration_since(started));
        let (bodies, freed_bytes) = (pruned.deleted.bodies, pruned.freed_bytes);
        tracing::info!(event = event::JOURNAL_PRUNED, bodies, freed_bytes, elapsed_ms, "{pruned}");
    }
    let summary = pruned.to_string();
    Ok(if pruned.clock_jump.is_some() { RunReport::partial(summary) } else { RunReport::ok(summary) })
}

/// Prunes the journal of a database whose lock the caller holds.
pub async fn prune_journal(
    store: &Store,
    retention: JournalRetention,
    options: PruneOptions,
    now: Timestamp,
) -> Result<PruneReport, JobError> {
    let jump = Duration::from_millis(store.clock_jump().await?.unsigned_abs());
    let has_jumped = jump > CLOCK_JUMP_MAX;
    let jump = (has_jumped && !options.is_by_operator).then_some(jump);
    let by_age = match jump {
        Some(_) => Position(0),
        None => {
            JournalReader::open(store.location()).await?.position_at(now.minus(retention.keep_bodies)).await?
        }
    };
    let used = store.database_bytes().await?;
    let done = store.snapshot_last().await?.map_or(0, |last| last.pruned_to);
    let is_old = store.exchange_has_bodies(Position(done), by_age).await?;
    // A pruning by an operator ends the jump: the next pruning considers only jumps after its snapshot.
    let ends_jump = has_jumped && options.is_by_operator;
    if !is_old && used <= retention.max_size && !ends_jump {
        return Ok(PruneReport { used_bytes: used, clock_jump: jump, ..PruneReport::default() });
    }
    let pruned = prune_proved(store, retention, by_age.max(Position(done)), options, now).await?;
    Ok(PruneReport { freed_bytes: used.saturating_sub(pruned.used_bytes), clock_jump: jump, ..pruned })
}

async fn prune_proved(
    store: &Store,
    retention: JournalRetention,
    by_age: Position,
    options: PruneOptions,
    now: Timestamp,
) -> Result<PruneReport, JobError> {
    let rebuilt = RebuiltFile::new(store);
    let mut replay = JournalReplay::start_empty(store.location(), &rebuilt.0).await?;
    let end = replay.last_position(None).await?;
    replay.project_to(end, &mut |_| {}).await?;
    // From here to the commit no other writer runs; the rest of the journal is short.
    let mut write = store.begin_write(Durability::Full).await?;
    write.allow_pauses().await?;
    let mut replay = replay.reopen_journal(store.location()).await?;
    let end = replay.last_position(None).await?;
    replay.project_to(end, &mut |_| {}).await?;
    let replayed = replay.compare_mirrors(&rebuilt.0).await?;
    if let Some(differs) = replayed.tables.iter().find(|compared| !compared.is_equal()) {
        return Err(mirror_differs(differs));
    }
    let snapshot = JournalReader::open(&rebuilt.0).await?.take_snapshot().await?;
    let position = write.snapshot_store(&snapshot, now).await?;
    let mut to = by_age.min(position);
    let mut deleted = PrunedRows::default();
    write.journal_prune(to, now, &mut deleted).await?;
    let mut used_bytes = write.database_used_bytes().await?;
    let mut is_by_size = false;
    // In quarters of the rest, because the freed size is known only after the deletion.
    while used_bytes > retention.max_size && to < position {
        is_by_size = true;
        to = Position(to.0 + ((position.0 - to.0) / 4).max(1));
        write.journal_prune(to, now, &mut deleted).await?;
        used_bytes = write.database_used_bytes().await?;
    }
    write.snapshot_mark_pruned(position, to, is_by_size).await?;
    // After the snapshot, which still contains these rows: only rows proved by a snapshot may go.
    deleted.history = write.history_prune(to, now).await?;
    let used_bytes = write.database_used_bytes().await?;
    if !options.is_dry_run {
        write.commit().await?;
    }
    Ok(PruneReport { deleted, pruned_to: Some(to), is_by_size, used_bytes, ..PruneReport::default() })
}

fn mirror_differs(differs: &TableComparison) -> JobError {
    let row = differs.differences.first().map_or(String::new(), |row| row.key.to_string());
    JobError::Implausible(format!(
        "nothing was pruned: the rebuilt mirror differs from the live one in {} of {}, first {row}; \
         see tallyd replay --into FILE",
        counted(differs.differences.len(), "row"),
        differs.table
    ))
}

/// File of the rebuilt mirror beside the database. It is deleted with this value, and a leftover of a crash
/// is replaced.
struct RebuiltFile(PathBuf);

impl RebuiltFile {
    fn new(store: &Store) -> Self {
        let path = with_suffix(store.path(), ".fold");
        remove_database(&path);
        Self(path)
    }
}

impl Drop for RebuiltFile {
    fn drop(&mut self) {
        remove_database(&self.0);
    }
}

impl std::fmt::Display for PruneReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let PrunedRows { bodies, exchanges, runs, history } = self.deleted;
        match self.pruned_to {
            Some(to) => write!(
                f,
                "deleted up to position {to}: {}, {}, {} and {} of stock levels; {} MiB in use",
                counted(bodies, "body"),
                counted(exchanges, "exchange"),
                counted(runs, "run"),
                counted(history, "earlier fact"),
                self.used_bytes >> 20
            )?,
            None => write!(f, "nothing to prune; {} MiB in use", self.used_bytes >> 20)?,
        }
        if self.is_by_size {
            write!(f, "; some were deleted early, because journal.max_size was reached")?;
        }
        match self.clock_jump {
            Some(jump) => write!(
                f,
                "; the clock jumped by {} h, so nothing is pruned by age until an operator confirms the clock: tallyd job run prune",
                jump.as_secs() / 3600
            ),
            None => Ok(()),
        }
    }
}
