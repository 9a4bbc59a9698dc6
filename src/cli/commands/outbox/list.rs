//! `outbox list`: the changes, grouped by state and reason.

use crate::cli::context::CliContext;
use crate::cli::local_time::local_sentence;
use crate::cli::output::{TextTable, cells};
use crate::cli::{CommandFailure, CommandResult, OutputArgs};
use crate::outbox::{ChangeBody, ChangeKind, ChangeState, Reason};
use crate::present::change::change_json;
use crate::store::{ChangeRow, OutboxFilter};
use clap::Args;

/// The order of the groups: states that may need a person come first.
const GROUP_ORDER: [ChangeState; 7] = [
    ChangeState::Held,
    ChangeState::InDoubt,
    ChangeState::Rejected,
    ChangeState::Pending,
    ChangeState::Sending,
    ChangeState::Applied,
    ChangeState::Cancelled,
];

#[derive(Debug, Args)]
pub(in crate::cli) struct OutboxListArgs {
    /// Show only changes in this state (may be repeated): pending, sending, applied, held, rejected, in_doubt,
    /// cancelled
    #[arg(long, value_name = "STATE")]
    state: Vec<String>,
    /// Show only changes of this kind
    #[arg(long)]
    kind: Option<String>,
    /// Maximum number of changes, newest kept
    #[arg(long, default_value_t = 100)]
    limit: u32,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) async fn list_changes(context: &CliContext, args: OutboxListArgs) -> CommandResult {
    for state in &args.state {
        state.parse::<ChangeState>().map_err(|error| CommandFailure::usage(error.to_string()))?;
    }
    if let Some(kind) = &args.kind {
        kind.parse::<ChangeKind>().map_err(|error| CommandFailure::usage(error.to_string()))?;
    }
    let filter = OutboxFilter { states: args.state, kind: args.kind, limit: args.limit };
    let mut rows = context.open_store().await?.outbox_list(&filter).await?;
    if !args.output.json {
        let rank = |row: &ChangeRow| GROUP_ORDER.iter().position(|state| *state == row.state);
        rows.sort_by(|a, b| (rank(a), &a.reason).cmp(&(rank(b), &b.reason)));
    }
    Ok(args.output.render(|| rows.iter().map(change_json).collect::<Vec<_>>(), || grouped_text(&rows)).into())
}

/// Formats a group for each state and reason; within it the newest first.
fn grouped_text(rows: &[ChangeRow]) -> String {
    if rows.is_empty() {
        return "no change matches\n".into();
    }
    let groups = rows.chunk_by(|a, b| (&a.state, &a.reason) == (&b.state, &b.reason));
    groups.map(group_text).collect::<Vec<_>>().join("\n")
}

fn group_text(rows: &[ChangeRow]) -> String {
    let Some(first) = rows.first() else { return String::new() };
    let mut text = first.state.as_str().replace('_', " ");
    if let Some(reason) = &first.reason {
        text.push_str(&format!(", {reason}"));
    }
    text.push_str(&format!(": {} change(s)\n", rows.len()));
    if let Some(reason) = first.reason.as_deref().and_then(Reason::from_code) {
        text.push_str(&format!("what to do: {}\n", reason.what_to_do()));
    }
    let columns = |row: &ChangeRow| {
        let level = row.content.body.as_ref().ok().and_then(ChangeBody::stock_level);
        let level = level.map(|level| format!("{} @{}", level.sku, level.warehouse_id));
        cells![row.key, row.content.kind, level, row.detail.as_ref().map(local_sentence)]
    };
    text + &TextTable::new(["key", "kind", "stock level", "detail"], rows.iter().map(columns)).to_text("")
}
