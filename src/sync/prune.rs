//! `prune`: keeps the journal within its age and size (docs/rules.md 38).
//!
//! First a snapshot is built beside the database from the last snapshot and the journal after it, never from
//! the live mirror. Nothing is deleted unless the snapshot equals the live mirror row for row. The snapshot,
//! its position and the deletion commit together, in one write transaction that lasts as long as the
//! comparison.

use crate::exec::{Context, JobError, Report, Retention};
use crate::model::{Position, Timestamp, time};
use crate::projection::Replay;
use crate::store::{Compared, Durability, Gone, Journal, Store};
use crate::telemetry::event;
use std::path::PathBuf;
use std::time::Duration;

/// Largest calendar jump for which ages are trusted without an operator's confirmation.
const JUMP_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Mode of a pruning.
#[derive(Clone, Copy, Debug, Default)]
pub struct Meant {
    /// An operator asked: the calendar is right after any jump.
    pub by_hand: bool,
    /// Only report the deletion.
    pub dry: bool,
}

/// Result of a pruning.
#[derive(Clone, Copy, Debug)]
pub struct Pruned {
    /// Counts of the deleted rows.
    pub gone: Gone,
    /// Position up to which bodies were deleted; `None` if nothing was old or large enough.
    pub to: Option<Position>,
    /// True if some bodies were deleted before their age.
    pub by_size: bool,
    /// Used bytes of the database afterwards.
    pub used: u64,
    /// Bytes freed.
    pub freed: u64,
    /// Size of a calendar jump that prevented pruning by age.
    pub jump: Option<Duration>,
}

pub(crate) async fn run(context: &Context, by_hand: bool) -> Result<Report, JobError> {
    let meant = Meant { by_hand, dry: false };
    let started = context.now();
    let pruned = prune(&context.store, context.settings().retention, meant, started).await?;
    if pruned.to.is_some() {
        let elapsed_ms = time::millis(context.now().since(started));
        let (bodies, freed_bytes) = (pruned.gone.bodies, pruned.freed);
        tracing::info!(event = event::JOURNAL_PRUNED, bodies, freed_bytes, elapsed_ms, "{pruned}");
    }
    let summary = pruned.to_string();
    Ok(if pruned.jump.is_some() { Report::partial(summary) } else { Report::ok(summary) })
}

/// Prunes the journal of a database whose lock the caller holds.
pub async fn prune(
    store: &Store,
    retention: Retention,
    meant: Meant,
    now: Timestamp,
) -> Result<Pruned, JobError> {
    let jump = Duration::from_millis(store.clock_jump().await?.unsigned_abs());
    let has_jumped = jump > JUMP_MAX;
    let jump = (has_jumped && !meant.by_hand).then_some(jump);
    let by_age = match jump {
        Some(_) => Position(0),
        None => Journal::open(store.path()).await?.position_at(now.minus(retention.keep_bodies)).await?,
    };
    let mut write = store.begin(Durability::Full).await?;
    let used = write.used_bytes().await?;
    drop(write);
    let done = store.snapshot_last().await?.map_or(0, |last| last.pruned_to);
    let is_old = store.has_bodies(Position(done), by_age).await?;
    // A pruning by an operator ends the jump: the next pruning considers only jumps after its snapshot.
    let ends_jump = has_jumped && meant.by_hand;
    if !is_old && used <= retention.max_size && !ends_jump {
        return Ok(Pruned { gone: Gone::default(), to: None, by_size: false, used, freed: 0, jump });
    }
    let pruned = over_a_fold(store, retention, by_age.max(Position(done)), meant, now).await?;
    Ok(Pruned { freed: used.saturating_sub(pruned.used), jump, ..pruned })
}

async fn over_a_fold(
    store: &Store,
    retention: Retention,
    by_age: Position,
    meant: Meant,
    now: Timestamp,
) -> Result<Pruned, JobError> {
    let beside = Beside::of(store);
    let mut replay = Replay::begin(store.path(), &beside.0).await?;
    let end = replay.end(None).await?;
    replay.fold(end, &mut |_| {}).await?;
    // From here to the commit no other writer runs; the rest of the journal is short.
    let mut write = store.begin(Durability::Full).await?;
    let mut replay = replay.reopen(store.path()).await?;
    let end = replay.end(None).await?;
    replay.fold(end, &mut |_| {}).await?;
    let replayed = replay.compare(&beside.0).await?;
    if let Some(differs) = replayed.tables.iter().find(|compared| !compared.is_equal()) {
        return Err(unequal(differs));
    }
    let snapshot = Journal::open(&beside.0).await?.snapshot().await?;
    let position = write.snapshot_keep(&snapshot, now).await?;
    let mut to = by_age.min(position);
    let mut gone = write.prune(to, now).await?;
    let mut used = write.used_bytes().await?;
    let mut by_size = false;
    // In quarters of the rest, because the freed size is known only after the deletion.
    while used > retention.max_size && to < position {
        by_size = true;
        to = Position(to.0 + ((position.0 - to.0) / 4).max(1));
        gone = gone.and(write.prune(to, now).await?);
        used = write.used_bytes().await?;
    }
    write.snapshot_pruned(position, to, by_size).await?;
    // After the snapshot, which still contains these rows: only rows proved by a snapshot may go.
    gone.past = write.past_forget(to, now).await?;
    let used = write.used_bytes().await?;
    if !meant.dry {
        write.commit().await?;
    }
    Ok(Pruned { gone, to: Some(to), by_size, used, freed: 0, jump: None })
}

fn unequal(differs: &Compared) -> JobError {
    let row = differs.differences.first().map_or(String::new(), |row| row.key.to_string());
    JobError::Implausible(format!(
        "nothing was pruned: the fold of the journal differs from the live mirror in {} row(s) of {}, first {row}; \
         see tallyd replay --into FILE",
        differs.differences.len(),
        differs.table
    ))
}

/// File of the rebuilt mirror beside the database. It is deleted with this value, and a leftover of a crash
/// is replaced.
struct Beside(PathBuf);

impl Beside {
    fn of(store: &Store) -> Self {
        let mut name = store.path().as_os_str().to_owned();
        name.push(".fold");
        let beside = Self(name.into());
        beside.clear();
        beside
    }

    fn clear(&self) {
        for end in ["", "-wal", "-shm"] {
            let mut name = self.0.as_os_str().to_owned();
            name.push(end);
            // An error other than a missing file shows when the next replay creates the file.
            drop(std::fs::remove_file(PathBuf::from(name)));
        }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.clear();
    }
}

impl std::fmt::Display for Pruned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Gone { bodies, exchanges, runs, past } = self.gone;
        match self.to {
            Some(to) => write!(
                f,
                "{bodies} bodies, {exchanges} exchange(s), {runs} run(s) and {past} earlier fact(s) of cells went, up to \
                 position {to}; {} MiB in use",
                self.used >> 20
            )?,
            None => write!(f, "nothing is old or large enough to go; {} MiB in use", self.used >> 20)?,
        }
        if self.by_size {
            write!(f, "; some went before their time: journal.max_size is reached")?;
        }
        match self.jump {
            Some(jump) => write!(
                f,
                "; the clock jumped by {} h, so nothing goes by age until a person has looked at it: tallyd job run prune",
                jump.as_secs() / 3600
            ),
            None => Ok(()),
        }
    }
}
