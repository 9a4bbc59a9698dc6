//! Changes queued from the command line, validated as the daemon validates them.
//!
//! | file | subject |
//! |---|---|
//! | `import.rs` | the warning about a file whose lines were imported before |
//! | `known.rs` | SKUs, warehouses and orders that the mirror does not know |
//! | `report.rs` | text, JSON and exit code of the queued changes |
//! | `wait.rs` | the wait of `--wait` |

mod import;
mod known;
mod report;
mod wait;

pub(super) use self::known::WarehouseNames;
pub(super) use crate::present::queue::without_nulls;

use self::report::QueueReport;
use super::context::CliContext;
use super::output::{OutputArgs, plain_line, print_error};
use super::wait_notes::with_wait_notes;
use super::{CommandFailure, CommandResult, csv};
use crate::config::parse_duration;
use crate::outbox::{self, ChangeBody};
use crate::present::status::find_obstacles;
use crate::store::{Durability, Store};
use clap::Args;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::time::Duration;

/// The longest wait; a change that needs longer needs a person.
const WAIT_MAX: Duration = Duration::from_hours(24);

/// The number of unknown names that a warning lists.
const WARNINGS_MAX: usize = 10;

/// The options of a command that queues one change.
#[derive(Debug, Args)]
pub(super) struct ChangeArgs {
    /// Key of the change; a key that exists already has no effect [default: a new key]
    #[arg(long)]
    key: Option<String>,
    #[command(flatten)]
    queue: QueueArgs,
}

/// The options of every command that queues changes.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct QueueArgs {
    /// Wait until the change is applied, rejected, cancelled or held, for at most TIME (30s without a value)
    #[arg(
        long,
        value_name = "TIME",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "30s",
        value_parser = parse_wait
    )]
    wait: Option<Duration>,
    #[command(flatten)]
    output: OutputArgs,
}

/// The option of the commands whose change names a SKU, a warehouse or an order.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(super) struct UnknownArgs {
    /// Queue the change also if its SKU, warehouse or order is not known here
    #[arg(long)]
    unknown: bool,
}

fn parse_wait(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        wait if wait <= WAIT_MAX => Ok(wait),
        _ => Err("the longest wait is 24h".into()),
    }
}

pub(super) struct CliChange {
    key: String,
    kind: &'static str,
    /// The JSON text as given, so that the outbox can detect a duplicate field.
    body: String,
    priority: i64,
    /// The line of the imported file; `None` for a change that was typed.
    line_number: Option<u64>,
}

impl CliChange {
    /// Creates a change from a line of a file, with the line's `key` column or a derived key.
    pub(super) fn from_csv_row(
        line: &csv::CsvRow,
        kind: &'static str,
        body: impl Display,
    ) -> Result<Self, String> {
        let body = body.to_string();
        outbox::parse_body(kind, &body).map_err(|rejection| rejection.detail)?;
        let key = line.get("key").map_or_else(|| line.key.clone(), str::to_owned);
        Ok(Self { key, kind, body, priority: 0, line_number: Some(line.line_number) })
    }

    fn parsed_body(&self) -> Result<ChangeBody, CommandFailure> {
        outbox::parse_body(self.kind, &self.body).map_err(|why| CommandFailure::usage(why.detail))
    }
}

/// Queues a change typed by an operator, with priority over bulk changes.
pub(super) async fn queue_change(
    context: &CliContext,
    kind: &'static str,
    body: impl Display,
    args: ChangeArgs,
    unknown: UnknownArgs,
) -> CommandResult {
    let key = args.key.unwrap_or_else(|| context.new_change_key());
    let change = CliChange { key, kind, body: body.to_string(), priority: 1, line_number: None };
    let subjects = [change.parsed_body()?];
    let store = context.open_or_create_store().await?;
    let problems = [known::unknown_names(&store, &subjects).await?, known::kits(&store, &subjects).await?];
    if let Some((_, problem)) = problems.concat().first() {
        if !unknown.unknown {
            return Err(CommandFailure::usage(format!(
                "{problem}. Nothing was queued: correct it, or add --unknown if the platform has it"
            )));
        }
        print_error(&format!("warning: {}", plain_line(problem)));
    }
    let notes = known::inactive_warehouses(&store, &subjects).await?;
    insert_changes(context, &store, &[change], args.queue, notes).await
}

/// Queues the changes of a file; `notes` report the ignored parts of the file.
///
/// A line with an unknown name is an invalid line, unless `--unknown` is set.
pub(super) async fn queue_file(
    context: &CliContext,
    (mut changes, mut notes): (Vec<CliChange>, Vec<String>),
    file: &csv::CsvImportArgs,
    queue: QueueArgs,
    unknown: UnknownArgs,
) -> CommandResult {
    let bodies = changes.iter().map(CliChange::parsed_body).collect::<Result<Vec<_>, _>>()?;
    let store = context.open_or_create_store().await?;
    notes.extend(known::inactive_warehouses(&store, &bodies).await?);
    let kits = known::kits(&store, &bodies).await?;
    let problems: Vec<(usize, String)> = known::unknown_names(&store, &bodies).await?;
    let line = |(index, problem): &(usize, String)| {
        let number = changes.get(*index).and_then(|change| change.line_number).unwrap_or(0);
        format!("line {number}: {problem}")
    };
    let lines: Vec<String> = known::join_many(problems.iter().map(line).collect());
    if unknown.unknown {
        lines
            .iter()
            .take(WARNINGS_MAX)
            .for_each(|line| print_error(&format!("warning: {}", plain_line(line))));
        let more = lines.len().saturating_sub(WARNINGS_MAX);
        if more > 0 {
            print_error(&format!("warning: {more} more line(s) name what is not known here"));
        }
    } else {
        if !lines.is_empty() {
            file.refuse_lines(&lines, ", add --unknown if the platform has these names")?;
        }
        notes.extend(lines.iter().map(|line| format!("not imported: {line}")));
        // A file of the full stock has kits every day, so they refuse no file.
        notes.extend(kits.iter().take(WARNINGS_MAX).map(|kit| format!("left out: {}", line(kit))));
        if kits.len() > WARNINGS_MAX {
            notes.push(format!("left out: {} more kits", kits.len() - WARNINGS_MAX));
        }
        let skipped: BTreeSet<usize> = problems.iter().chain(&kits).map(|(index, _)| *index).collect();
        let mut index = 0..;
        changes.retain(|_| index.next().is_some_and(|index| !skipped.contains(&index)));
    }
    notes.extend(import::repeated_import_warning(&store, &changes).await?);
    insert_changes(context, &store, &changes, queue, notes).await
}

/// Inserts changes into the outbox, all or none, waits for them with `--wait`, and reports them.
async fn insert_changes(
    context: &CliContext,
    store: &Store,
    changes: &[CliChange],
    queue: QueueArgs,
    notes: Vec<String>,
) -> CommandResult {
    let mut write = store.begin_write(Durability::Full).await?;
    let mut new = 0;
    for change in changes {
        let inserted = write.outbox_insert(&change.key, change.kind, &change.body, change.priority).await;
        let failure =
            |error| CommandFailure::failed(format!("change `{}`: {error}; nothing was queued", change.key));
        new += usize::from(inserted.map_err(failure)?);
    }
    write.commit().await?;
    // The changes are in the outbox: a failure from here on must not read as one of the insertion.
    report_changes(context, store, changes, queue, (new, &notes)).await.map_err(|failure| {
        CommandFailure::new(
            format!(
                "{} change(s) are in the outbox, but their state cannot be read: {}; see: tallyd outbox list",
                changes.len(),
                failure.message
            ),
            if queue.wait.is_some() { report::EXIT_OUTSTANDING } else { 1 },
        )
    })
}

/// Waits for the changes with `--wait`, and returns their report.
async fn report_changes(
    context: &CliContext,
    store: &Store,
    changes: &[CliChange],
    queue: QueueArgs,
    (new, notes): (usize, &[String]),
) -> CommandResult {
    let config = context.readable_config()?;
    let keys: Vec<&str> = changes.iter().map(|change| change.key.as_str()).collect();
    if let Some(limit) = queue.wait {
        with_wait_notes(context, wait::wait_for_outcomes(config, store, &keys, limit)).await?;
    }
    let rows = store.outbox_queued(&keys).await?;
    let obstacles = find_obstacles(config, &context.clock(), store).await?;
    let report = QueueReport { rows, new, obstacles, wait: queue.wait };
    if queue.output.json {
        notes.iter().for_each(|note| print_error(&plain_line(note)));
        let is_single = matches!(changes, [change] if change.line_number.is_none());
        return Ok(report.to_json_output(is_single));
    }
    if let Some(warning) = report.warning() {
        print_error(&format!("warning: {}", plain_line(&warning)));
    }
    Ok(report.to_text_output(notes))
}
