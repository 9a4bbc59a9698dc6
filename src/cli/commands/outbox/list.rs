//! `outbox list`: the changes, grouped by state and reason.

use super::show::change_json;
use crate::cli::code_parser::code_parser;
use crate::cli::context::CliContext;
use crate::cli::output::{TextTable, cells};
use crate::cli::{CommandResult, OutputArgs};
use crate::outbox::{ChangeBody, ChangeKind, ChangeState, Reason};
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
    /// Show only changes in this state (may be repeated)
    #[arg(long, value_name = "STATE", value_parser = code_parser(ChangeState::ALL, ChangeState::as_str))]
    state: Vec<ChangeState>,
    /// Show only changes of this kind
    #[arg(long, value_name = "KIND", value_parser = code_parser(ChangeKind::ALL, ChangeKind::as_str))]
    kind: Option<ChangeKind>,
    /// Maximum number of changes, newest kept
    #[arg(long, default_value_t = 100)]
    limit: u32,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) async fn list_changes(context: &CliContext, args: OutboxListArgs) -> CommandResult {
    let states = args.state.iter().map(|state| state.as_str().to_owned()).collect();
    let kind = args.kind.map(|kind| kind.as_str().to_owned());
    let filter = OutboxFilter { states, kind, limit: args.limit };
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
        cells![row.key, row.content.kind, level, row.detail]
    };
    text + &TextTable::new(["key", "kind", "stock level", "detail"], rows.iter().map(columns)).to_text("")
}
