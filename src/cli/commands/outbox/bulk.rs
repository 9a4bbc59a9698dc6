//! Decisions on many changes: by their keys, or on all that a filter selects, after a look at them.
//!
//! Without a terminal a selection is only listed; `--yes` carries it out. The decision takes exactly the changes
//! that were listed, not those that came since.

use super::list::grouped_text;
use super::select::{OutboxFilterArgs, find_key};
use crate::cli::context::{CliContext, write_and_commit};
use crate::cli::output::{plain_line, print_error, print_text};
use crate::cli::{CommandFailure, CommandOutput, CommandResult};
use crate::model::counted;
use crate::outbox::ChangeState;
use crate::store::{DecisionResult, OutboxFilter, Store, StoreError, WriteTransaction};
use clap::Args;
use std::io::{BufRead, IsTerminal, stdin, stdout};

/// Changes that a look shows, for each selection.
const SHOWN_MAX: u32 = 20;
/// Decisions of one commit, so that programs beside it can write in between.
const BATCH: usize = 200;
/// Refusals that are printed, of a selection.
const REFUSALS_MAX: usize = 20;

#[derive(Debug, Args)]
pub(in crate::cli) struct OutboxBulkArgs {
    /// Keys of the changes, their first characters, or ids
    #[arg(value_name = "KEY")]
    keys: Vec<String>,
    /// Select all changes that the command can decide, or all that match the filters
    #[arg(long, conflicts_with = "keys")]
    all: bool,
    #[command(flatten)]
    filter: OutboxFilterArgs,
    /// Decide without a question; without it and without a terminal, the selected changes are only listed
    #[arg(long)]
    yes: bool,
}

/// Kind of a decision: its words in the output, and the states that it applies to.
pub(super) struct DecisionKind {
    pub(super) verb: &'static str,
    pub(super) past: &'static str,
    /// State of a single change afterwards.
    pub(super) done: &'static str,
    pub(super) refused: &'static str,
    pub(super) states: &'static [ChangeState],
}

/// Decides on each named change, or on each selected one.
pub(super) async fn decide_selected(
    context: &CliContext,
    args: &OutboxBulkArgs,
    kind: &DecisionKind,
    decide: impl AsyncFn(&Store, &mut WriteTransaction, &str) -> Result<DecisionResult<()>, StoreError>,
) -> CommandResult {
    let has_filter = args.all || !args.filter.is_empty();
    match (args.keys.is_empty(), has_filter) {
        (false, false) => decide_each(context, &args.keys, [kind.done, kind.refused], decide).await,
        (true, true) => decide_all(context, args, kind, decide).await,
        (false, true) => Err(CommandFailure::usage("name changes by their keys or by filters, not by both")),
        (true, false) => Err(CommandFailure::usage(
            "name the changes by their keys, or select them with --all or a filter such as --reason",
        )),
    }
}

/// Decides on each change in its own transaction, with a line for each: `done`, or `refused` and the reason.
///
/// The exit code is 1 if any decision was refused.
pub(super) async fn decide_each(
    context: &CliContext,
    names: &[String],
    [done, refused]: [&str; 2],
    decide: impl AsyncFn(&Store, &mut WriteTransaction, &str) -> Result<DecisionResult<()>, StoreError>,
) -> CommandResult {
    let store = context.open_store().await?;
    let mut output = CommandOutput::default();
    for name in names {
        let decided = match find_key(&store, name).await? {
            Ok(key) => {
                let decision = write_and_commit(&store, async |write| decide(&store, write, &key).await);
                decision.await?.map(|()| key)
            }
            Err(why) => Err(why),
        };
        output.text.push_str(&match decided {
            Ok(key) => format!("{}: {done}\n", plain_line(&key)),
            Err(why) => {
                output.exit_code = 1;
                format!("{}: {refused}: {}\n", plain_line(name), plain_line(&why))
            }
        });
    }
    Ok(output)
}

async fn decide_all(
    context: &CliContext,
    args: &OutboxBulkArgs,
    kind: &DecisionKind,
    decide: impl AsyncFn(&Store, &mut WriteTransaction, &str) -> Result<DecisionResult<()>, StoreError>,
) -> CommandResult {
    let store = context.open_store().await?;
    let filter = args.filter.filter(context, &store, kind.states).await?;
    let filter = OutboxFilter { is_open: true, limit: SHOWN_MAX, ..filter };
    let keys = store.outbox_open_keys(&filter).await?;
    let (count, DecisionKind { verb, past, .. }) = (counted(keys.len(), "change"), kind);
    let states: Vec<&str> = kind.states.iter().map(|state| state.as_str()).collect();
    if keys.is_empty() {
        return Ok(format!("no {} change matches; nothing was {past}\n", states.join(" or ")).into());
    }
    if !args.yes {
        let shown = grouped_text(&store, &filter).await?;
        if !(stdin().is_terminal() && stdout().is_terminal()) {
            return Ok(format!(
                "{shown}\n{count} selected; nothing was {past}. Repeat the command with --yes to {verb} them\n"
            )
            .into());
        }
        print_text(&shown);
        print_error(&format!("{verb} {count}? Type yes to {verb}:"));
        if !matches!(first_line().to_lowercase().as_str(), "y" | "yes") {
            return Ok(format!("nothing was {past}\n").into());
        }
    }
    let mut refusals = Vec::new();
    for batch in keys.chunks(BATCH) {
        let decided = write_and_commit(&store, async |write| {
            let mut refused = Vec::new();
            for key in batch {
                if let Err(why) = decide(&store, write, key).await? {
                    refused.push(format!("{}: {}: {}\n", plain_line(key), kind.refused, plain_line(&why)));
                }
            }
            Ok(refused)
        });
        refusals.extend(decided.await?);
    }
    let mut text = format!(
        "{} {past}, {} {}\n",
        counted(keys.len() - refusals.len(), "change"),
        refusals.len(),
        kind.refused
    );
    text.extend(refusals.iter().take(REFUSALS_MAX).map(String::as_str));
    if let Some(more) = refusals.len().checked_sub(REFUSALS_MAX + 1) {
        text.push_str(&format!("and {} more\n", more + 1));
    }
    Ok(CommandOutput { text, exit_code: u8::from(!refusals.is_empty()) })
}

/// Returns the answer of the terminal; empty at its end.
fn first_line() -> String {
    let mut line = String::new();
    // A terminal that cannot be read gives no consent.
    drop(stdin().lock().read_line(&mut line));
    line.trim().to_owned()
}
