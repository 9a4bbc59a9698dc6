//! `outbox`: the wishes and what became of them.

use super::place::Place;
use super::print::{Table, dash, json};
use super::{Answer, Failure, Reading};
use crate::model::Clock;
use crate::store::{Durability, OutboxFilter, WishRow};
use clap::{Args, Subcommand};
use serde_json::{Value, json as value};

/// The wishes and what became of them.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List wishes, newest first
    List(List),
    /// Show one wish with its body and its story
    Show(Show),
    /// Let wishes that a brake holds go, once
    Release(Release),
    /// Withdraw wishes that still wait; one that was sent cannot be
    Cancel(Cancel),
}

/// Which wishes.
#[derive(Debug, Args)]
pub(super) struct List {
    /// Only wishes in this state (may be repeated): pending, sending, applied, held, rejected, in_doubt, cancelled
    #[arg(long, value_name = "STATE")]
    state: Vec<String>,
    /// Only wishes of this kind
    #[arg(long)]
    kind: Option<String>,
    /// At most so many
    #[arg(long, default_value_t = 100)]
    limit: u32,
    #[command(flatten)]
    reading: Reading,
}

/// One wish.
#[derive(Debug, Args)]
pub(super) struct Show {
    /// The wish's key
    key: String,
    #[command(flatten)]
    reading: Reading,
}

/// What to let go.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(super) struct Release {
    /// The wishes' keys
    #[arg(value_name = "KEY")]
    keys: Vec<String>,
    /// Everything the open trips hold, which are shown
    #[arg(long)]
    all: bool,
}

/// Wishes by key.
#[derive(Debug, Args)]
pub(super) struct Cancel {
    /// The wishes' keys
    #[arg(required = true, value_name = "KEY")]
    keys: Vec<String>,
}

pub(super) async fn outbox(place: &Place, command: Command) -> Result<Answer, Failure> {
    match command {
        Command::List(args) => list(place, args).await,
        Command::Show(args) => show(place, &args).await,
        Command::Release(args) => release(place, &args.keys).await,
        Command::Cancel(args) => cancel(place, &args.keys).await,
    }
}

async fn list(place: &Place, args: List) -> Result<Answer, Failure> {
    let filter = OutboxFilter { states: args.state, kind: args.kind, limit: args.limit };
    let rows = place.store().await?.outbox_list(&filter).await?;
    if args.reading.json {
        return Ok(json(&rows.iter().map(wish).collect::<Vec<_>>()).into());
    }
    let mut table = Table::new(&["key", "kind", "cell", "state", "reason", "detail"]);
    for row in rows {
        let body = crate::outbox::parse(&row.kind, &row.body).ok();
        let cell = body.as_ref().and_then(crate::outbox::Body::cell);
        let cell = cell.map(|cell| format!("{} @{}", cell.sku, cell.warehouse_id));
        table.row([row.key, row.kind, dash(cell), row.state, dash(row.reason), dash(row.detail)]);
    }
    Ok(table.render("no such wish").into())
}

async fn show(place: &Place, args: &Show) -> Result<Answer, Failure> {
    let row = place.store().await?.outbox_show(&args.key).await?;
    let row = row.ok_or_else(|| Failure::failed(format!("there is no wish with the key `{}`", args.key)))?;
    let all = wish(&row);
    if args.reading.json {
        return Ok(json(&all).into());
    }
    let mut text = String::new();
    for (name, field) in all.as_object().into_iter().flatten() {
        match field {
            Value::Null => {}
            Value::String(field) => text.push_str(&format!("{name:<14} {field}\n")),
            other => text.push_str(&format!("{name:<14} {other}\n")),
        }
    }
    Ok(text.into())
}

/// A wish as `--json` prints it.
fn wish(row: &WishRow) -> Value {
    value!({
        "id": row.id, "key": row.key, "kind": row.kind, "priority": row.priority, "state": row.state,
        "reason": row.reason, "detail": row.detail,
        "body": serde_json::from_str::<Value>(&row.body).unwrap_or(Value::Null),
        "created_at": row.created_at, "settled_at": row.settled_at,
        "base_quantity": row.base_quantity, "written": row.written, "exchange_id": row.exchange_id,
        "mine": row.mine, "theirs": row.theirs,
    })
}

async fn release(place: &Place, keys: &[String]) -> Result<Answer, Failure> {
    let store = place.store().await?;
    let trips = store.brake_trips().await?;
    let mut write = store.begin(Durability::Full).await?;
    let released = write.brake_release(keys, place.clock().now()).await?;
    write.commit().await?;
    let mut text = String::new();
    for trip in trips.iter().filter(|_| keys.is_empty()) {
        text.push_str(&format!("trip {}: {} ({} wish(es))\n", trip.id, trip.what, trip.held));
    }
    text.push_str(&format!(
        "{released} wish(es) released; they are read again and merged before they are sent\n"
    ));
    Ok(Answer { text, code: u8::from(released == 0) })
}

async fn cancel(place: &Place, keys: &[String]) -> Result<Answer, Failure> {
    let store = place.store().await?;
    let (mut text, mut code) = (String::new(), 0);
    for key in keys {
        let mut write = store.begin(Durability::Full).await?;
        let cancelled = write.outbox_cancel(key, place.clock().now()).await?;
        write.commit().await?;
        if cancelled {
            text.push_str(&format!("{key}: cancelled\n"));
            continue;
        }
        code = 1;
        let why = match store.outbox_show(key).await? {
            Some(row) => format!("it is {}, and only a wish that waits can be cancelled", row.state),
            None => "there is no wish with this key".into(),
        };
        text.push_str(&format!("{key}: not cancelled: {why}\n"));
    }
    Ok(Answer { text, code })
}
