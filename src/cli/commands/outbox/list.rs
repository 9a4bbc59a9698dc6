//! `outbox list`: the changes, grouped by state and reason.

use super::select::OutboxFilterArgs;
use crate::cli::code_parser::code_parser;
use crate::cli::context::CliContext;
use crate::cli::local_time::local_sentence;
use crate::cli::output::{columns, plain_line, pretty_json, table_text};
use crate::cli::{CommandFailure, CommandResult, OutputArgs};
use crate::model::{counted, in_words};
use crate::outbox::{ChangeBody, ChangeState, Reason};
use crate::present::change::{change_json, state_rank};
use crate::present::listing::{ListColumns, sentence_cell};
use crate::store::{ChangeRow, OutboxFilter, OutboxGroup, Store};
use clap::Args;
use std::collections::BTreeMap;

#[derive(Debug, Args)]
pub(in crate::cli) struct OutboxListArgs {
    /// Show also applied, cancelled and acknowledged changes
    #[arg(long)]
    all: bool,
    /// Show only changes in this state, also acknowledged ones (may be repeated)
    #[arg(long, value_name = "STATE", value_parser = code_parser(ChangeState::ALL, ChangeState::as_str))]
    state: Vec<ChangeState>,
    #[command(flatten)]
    filter: OutboxFilterArgs,
    /// Maximum number of changes, newest kept; the groups count all
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: u32,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) async fn list_changes(context: &CliContext, args: OutboxListArgs) -> CommandResult {
    let store = context.open_store().await?;
    let filter = args.filter.filter(context, &store, &args.state).await?;
    let is_open = !args.all && args.state.is_empty();
    let filter = OutboxFilter { is_open, limit: args.limit, ..filter };
    if args.output.json {
        let rows = store.outbox_list(&filter).await?;
        return Ok(pretty_json(&rows.iter().map(change_json).collect::<Vec<_>>()).into());
    }
    let text = grouped_text(&store, &filter).await?;
    if !text.is_empty() {
        return Ok(text.into());
    }
    let all: i64 = store.outbox_counts().await?.iter().map(|(_, count)| count).sum();
    Ok(match (all, is_open && args.filter.is_empty()) {
        (0, _) => "the outbox is empty: no change was ever queued\n".to_owned(),
        (_, true) => format!("no change is open; {all} finished: tallyd outbox list --all\n"),
        (_, false) => "no change matches\n".to_owned(),
    }
    .into())
}

/// Formats a group for each state and reason; within it the newest first. Empty without a change.
pub(super) async fn grouped_text(store: &Store, filter: &OutboxFilter) -> Result<String, CommandFailure> {
    let mut groups = store.outbox_groups(filter).await?;
    groups.sort_by(|a, b| (state_rank(a.state), &a.reason).cmp(&(state_rank(b.state), &b.reason)));
    let rows = store.outbox_list(filter).await?;
    let texts = groups.iter().map(|group| {
        let is_of_group = |row: &&ChangeRow| (row.state, &row.reason) == (group.state, &group.reason);
        group_text(group, &rows.iter().filter(is_of_group).collect::<Vec<_>>())
    });
    Ok(texts.collect::<Vec<_>>().join("\n"))
}

/// Formats a group. A sentence that several changes share stands once, above them.
fn group_text(group: &OutboxGroup, rows: &[&ChangeRow]) -> String {
    let mut text = in_words(group.state.as_str());
    if let Some(reason) = &group.reason {
        text.push_str(&format!(", {}", plain_line(reason)));
    }
    text.push_str(&format!(": {}", counted(group.changes, "change")));
    match i64::try_from(rows.len()).unwrap_or(i64::MAX) {
        0 => text.push_str(", none of them among the newest"),
        shown if shown < group.changes => text.push_str(&format!(", the newest {shown} shown")),
        _ => {}
    }
    text.push('\n');
    if let Some(reason) = group.reason.as_deref().and_then(Reason::from_code) {
        text.push_str(&format!("what to do: {}\n", reason.what_to_do()));
    }
    let mut uses: BTreeMap<&str, usize> = BTreeMap::new();
    for detail in rows.iter().filter_map(|row| row.detail.as_deref()) {
        *uses.entry(detail).or_default() += 1;
    }
    uses.retain(|_, count| *count > 1);
    let is_shared = |row: &&ChangeRow| row.detail.as_deref().is_some_and(|detail| uses.contains_key(detail));
    let single = rows.iter().copied().filter(|row| !is_shared(row)).map(|row| {
        let detail = columns! {"detail": sentence_cell(row.detail.as_deref())};
        change_columns(row).into_iter().chain(detail).collect()
    });
    text.push_str(&table_text(single, ""));
    for shared in uses.keys().copied() {
        let same = rows.iter().filter(|row| row.detail.as_deref() == Some(shared));
        let table = table_text(same.map(|row| change_columns(row)), "");
        text.push_str(&format!("{}:\n{table}", plain_line(&local_sentence(shared))));
    }
    text
}

fn change_columns(row: &ChangeRow) -> ListColumns {
    let level = row.content.body.as_ref().ok().and_then(ChangeBody::stock_level);
    let level = level.map(|level| format!("{} @{}", level.sku, level.warehouse_id));
    columns! {"id": row.id.0, "key": row.key, "kind": row.content.kind, "stock level": level}
}
