//! Changes queued from the command line, validated as the daemon validates them.

mod import;
mod known;
mod report;
mod wait;

pub(super) use self::import::sum_counts;
pub(super) use self::known::WarehouseNames;
pub(super) use crate::present::queue::without_nulls;

use self::import::RepeatArgs;
use self::report::QueueReport;
use super::context::CliContext;
use super::output::{OutputArgs, SHOWN_MAX, plain_line, print_error, shortened};
use super::wait_notes::with_wait_notes;
use super::{CommandFailure, CommandResult, csv};
use crate::config::parse_duration;
use crate::model::counted;
pub(super) use crate::present::queue::ChangeToQueue;
use crate::present::queue::insert_changes;
use crate::present::status::find_obstacles;
use crate::store::{Durability, Store};
use clap::Args;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::time::Duration;

/// The longest wait; a change that needs longer needs a person.
const WAIT_MAX: Duration = Duration::from_hours(24);

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

/// The options of a command that queues the changes of a file.
#[derive(Debug, Args)]
pub(super) struct FileChangeArgs {
    #[command(flatten)]
    pub(super) file: csv::CsvImportArgs,
    #[command(flatten)]
    repeat: RepeatArgs,
    #[command(flatten)]
    queue: QueueArgs,
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

pub(super) fn change_from_csv(
    line: &csv::CsvRow,
    kind: &'static str,
    body: impl Display,
) -> Result<ChangeToQueue, String> {
    let (key, line_number) = (line.get("key")?.map(str::to_owned), Some(line.line_number));
    let change = ChangeToQueue { kind, body: body.to_string(), key, line_number };
    change.parsed_body().map_err(|error| error.to_string())?;
    Ok(change)
}

/// Queues a change typed by an operator, with priority over bulk changes.
pub(super) async fn queue_change(
    context: &CliContext,
    kind: &'static str,
    body: impl Display,
    args: ChangeArgs,
    unknown: UnknownArgs,
) -> CommandResult {
    let key = args.key.unwrap_or_else(|| format!("cli-{}-{}", context.now(), std::process::id()));
    let change = ChangeToQueue::typed(key, kind, body.to_string());
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
    print_lines("", &known::inactive_warehouses(&store, &subjects).await?);
    queue_changes(context, &store, &[change], None, args.queue).await
}

/// Prints sentences on standard error, each after `prefix`, and the number of those that are too many.
fn print_lines(prefix: &str, lines: &[String]) {
    let lines = shortened(lines.iter().cloned(), SHOWN_MAX);
    lines.iter().for_each(|line| print_error(&plain_line(&format!("{prefix}{line}"))));
}

/// Queues the changes of a file.
///
/// A line with an unknown name is an invalid line, unless `--unknown` is set. So are lines that contradict each other.
pub(super) async fn queue_file(
    context: &CliContext,
    mut changes: Vec<ChangeToQueue>,
    args: &FileChangeArgs,
    unknown: UnknownArgs,
) -> CommandResult {
    let bodies = changes.iter().map(ChangeToQueue::parsed_body).collect::<Result<Vec<_>, _>>()?;
    let store = context.open_or_create_store().await?;
    print_lines("", &known::inactive_warehouses(&store, &bodies).await?);
    let line = |(index, problem): (usize, String)| {
        let number = changes.get(index).and_then(|change| change.line_number).unwrap_or(0);
        (index, format!("line {number}: {problem}"))
    };
    let names: Vec<_> = known::unknown_names(&store, &bodies).await?.into_iter().map(line).collect();
    let name_lines = known::join_many(names.iter().map(|(_, problem)| problem.clone()).collect());
    let contradictions = import::contradictions(&changes, &bodies).into_iter().map(line);
    let (mut left_out, mut problems): (BTreeSet<usize>, Vec<String>) = contradictions.unzip();
    let mut kits = Vec::new();
    if unknown.unknown {
        print_lines("warning: ", &name_lines);
    } else {
        let hint = |problem| format!("{problem}; add --unknown if the platform has it");
        problems.extend(name_lines.into_iter().map(hint));
        left_out.extend(names.iter().map(|(index, _)| *index));
        // A file of the full stock has kits every day, so they refuse no file.
        kits.extend(known::kits(&store, &bodies).await?.into_iter().map(line));
    }
    args.file.leave_out(&problems, left_out.len() == changes.len())?;
    let (kits, kit_lines): (BTreeSet<usize>, Vec<String>) = kits.into_iter().unzip();
    print_lines("left out: ", &kit_lines);
    let mut index = 0..;
    changes
        .retain(|_| index.next().is_some_and(|index| !left_out.contains(&index) && !kits.contains(&index)));
    queue_changes(context, &store, &changes, Some(args), args.queue).await
}

/// Inserts changes into the outbox, all or none, waits for them with `--wait`, and reports them.
async fn queue_changes(
    context: &CliContext,
    store: &Store,
    changes: &[ChangeToQueue],
    file: Option<&FileChangeArgs>,
    queue: QueueArgs,
) -> CommandResult {
    let mut write = store.begin_write(Durability::Full).await?;
    // In the transaction of the insertion, so that of two imports of one file at a time one is refused.
    let keys = match file {
        Some(file) => import::line_keys(&mut write, changes, file).await?,
        None => changes.iter().filter_map(|change| change.key.clone()).collect(),
    };
    let new = insert_changes(&mut write, changes, &keys).await?;
    write.commit().await?;
    let report = async {
        let config = context.readable_config()?;
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        if let Some(limit) = queue.wait {
            with_wait_notes(context, wait::wait_for_outcomes(config, store, &keys, limit)).await?;
        }
        let rows = store.outbox_queued(&keys).await?;
        let obstacles = find_obstacles(config, &context.clock(), store).await?;
        Ok::<_, CommandFailure>(QueueReport { rows, new, obstacles, wait: queue.wait })
    };
    // The changes are in the outbox: a failure from here on must not read as one of the insertion.
    let report = report.await.map_err(|failure| {
        let (count, why) = (counted(changes.len(), "change"), failure.message);
        let text = format!("{count} queued, but the state cannot be read: {why}; see: tallyd outbox list");
        CommandFailure::new(text, if queue.wait.is_some() { report::EXIT_OUTSTANDING } else { 1 })
    })?;
    if queue.output.json {
        return Ok(report.to_json_output(file.is_none()));
    }
    if let Some(warning) = report.warning() {
        print_error(&format!("warning: {}", plain_line(&warning)));
    }
    Ok(report.to_text_output())
}
