//! Decisions on many changes: by their keys, or on all that a filter selects, after a look at them.
//!
//! Without a terminal a selection is only listed; `--yes` carries it out. The decision takes exactly the changes
//! that were listed, not those that came since.

use super::list::grouped_text;
use super::select::{OutboxFilterArgs, find_key};
use crate::cli::context::CliContext;
use crate::cli::output::{SHOWN_MAX, lines_text, print_error, print_text, shortened};
use crate::cli::{CommandFailure, CommandOutput, CommandResult};
use crate::model::counted;
use crate::present::decisions::{KeyDecision, decide};
use crate::store::OutboxFilter;
use clap::Args;
use std::io::{BufRead, IsTerminal, stdin, stdout};

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

pub(super) async fn decide_selected(
    context: &CliContext,
    args: &OutboxBulkArgs,
    decision: KeyDecision,
) -> CommandResult {
    let has_filter = args.all || !args.filter.is_empty();
    match (args.keys.is_empty(), has_filter) {
        (false, false) => decide_named(context, &args.keys, decision).await,
        (true, true) => decide_all(context, args, decision).await,
        (false, true) => Err(CommandFailure::usage("name changes by their keys or by filters, not by both")),
        (true, false) => Err(CommandFailure::usage(
            "name the changes by their keys, or select them with --all or a filter such as --reason",
        )),
    }
}

/// Decides on each named change, with a line for each. The exit code is 1 if any decision was refused.
pub(super) async fn decide_named(
    context: &CliContext,
    names: &[String],
    decision: KeyDecision,
) -> CommandResult {
    let store = context.open_store().await?;
    let (mut keys, mut unknown) = (Vec::new(), Vec::new());
    for name in names {
        match find_key(&store, name).await? {
            Ok(key) => keys.push(key),
            Err(why) => unknown.push((name.clone(), why)),
        }
    }
    let mut decided = decide(&store, decision, &keys, context.now()).await?;
    decided.refused.extend(unknown);
    let mut lines: Vec<String> = match decision {
        KeyDecision::Release if decided.done.is_empty() => Vec::new(),
        KeyDecision::Release => vec![decided.summary()],
        _ => decided.done.iter().map(|key| format!("{key}: {}", decision.words().1)).collect(),
    };
    lines.extend(decided.refusals());
    Ok(CommandOutput { text: lines_text(&lines), exit_code: u8::from(!decided.refused.is_empty()) })
}

async fn decide_all(context: &CliContext, args: &OutboxBulkArgs, decision: KeyDecision) -> CommandResult {
    let store = context.open_store().await?;
    let (verb, past, states) = decision.words();
    let filter = args.filter.filter(context, &store, states).await?;
    let limit = u32::try_from(SHOWN_MAX).unwrap_or(u32::MAX);
    let filter = OutboxFilter { is_open: true, limit, ..filter };
    let keys = store.outbox_open_keys(&filter).await?;
    let count = counted(keys.len(), "change");
    let states: Vec<&str> = states.iter().map(|state| state.as_str()).collect();
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
    let decided = decide(&store, decision, &keys, context.now()).await?;
    let mut text = format!("{}, {} not {past}\n", decided.summary(), decided.refused.len());
    text.push_str(&lines_text(&shortened(decided.refusals(), SHOWN_MAX)));
    Ok(CommandOutput { text, exit_code: u8::from(!decided.refused.is_empty()) })
}

fn first_line() -> String {
    let mut line = String::new();
    // A terminal that cannot be read gives no consent.
    drop(stdin().lock().read_line(&mut line));
    line.trim().to_owned()
}
