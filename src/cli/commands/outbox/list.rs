//! `outbox list`: the changes, grouped by state and reason.

use super::show::wish;
use crate::cli::context::Place;
use crate::cli::output::{Table, dash, json};
use crate::cli::{Answer, Failure, Reading};
use crate::outbox::{Kind, Reason, State};
use crate::store::{OutboxFilter, WishRow};
use clap::Args;

/// The order of the groups: states that may need a person come first.
const ORDER: [State; 7] = [
    State::Held,
    State::InDoubt,
    State::Rejected,
    State::Pending,
    State::Sending,
    State::Applied,
    State::Cancelled,
];

/// Which wishes.
#[derive(Debug, Args)]
pub(in crate::cli) struct List {
    /// Only wishes in this state (may be repeated): pending, sending, applied, held, rejected, in_doubt, cancelled
    #[arg(long, value_name = "STATE")]
    state: Vec<String>,
    /// Only wishes of this kind
    #[arg(long)]
    kind: Option<String>,
    /// At most so many, the newest
    #[arg(long, default_value_t = 100)]
    limit: u32,
    #[command(flatten)]
    reading: Reading,
}

pub(super) async fn list(place: &Place, args: List) -> Result<Answer, Failure> {
    for state in &args.state {
        state.parse::<State>().map_err(|error| Failure::usage(error.to_string()))?;
    }
    if let Some(kind) = &args.kind {
        kind.parse::<Kind>().map_err(|error| Failure::usage(error.to_string()))?;
    }
    let filter = OutboxFilter { states: args.state, kind: args.kind, limit: args.limit };
    let rows = place.store().await?.outbox_list(&filter).await?;
    if args.reading.json {
        return Ok(json(&rows.iter().map(wish).collect::<Vec<_>>()).into());
    }
    Ok(grouped(rows).into())
}

/// Formats a group for each state and reason; within it the newest first.
fn grouped(mut rows: Vec<WishRow>) -> String {
    if rows.is_empty() {
        return "no such wish\n".into();
    }
    let place = |row: &WishRow| ORDER.iter().position(|state| state.as_str() == row.state);
    rows.sort_by(|a, b| (place(a), &a.reason).cmp(&(place(b), &b.reason)));
    let groups = rows.chunk_by(|a, b| (&a.state, &a.reason) == (&b.state, &b.reason));
    groups.map(group).collect::<Vec<_>>().join("\n")
}

fn group(rows: &[WishRow]) -> String {
    let Some(first) = rows.first() else { return String::new() };
    let mut text = first.state.replace('_', " ");
    if let Some(reason) = &first.reason {
        text.push_str(&format!(", {reason}"));
    }
    text.push_str(&format!(": {} wish(es)\n", rows.len()));
    if let Some(reason) = first.reason.as_deref().and_then(|reason| reason.parse::<Reason>().ok()) {
        text.push_str(&format!("what to do: {}\n", reason.what_to_do()));
    }
    let mut table = Table::new(&["key", "kind", "cell", "detail"]);
    for row in rows {
        let body = crate::outbox::read(&row.kind, &row.body).ok();
        let cell = body.as_ref().and_then(crate::outbox::Body::cell);
        let cell = cell.map(|cell| format!("{} @{}", cell.sku, cell.warehouse_id));
        table.row([row.key.clone(), row.kind.clone(), dash(cell), dash(row.detail.as_ref())]);
    }
    text.push_str(&table.render(""));
    text
}
