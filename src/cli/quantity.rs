//! `quantity`: wishes for stock. They go into the outbox; the daemon delivers them.

use super::place::Place;
use super::{Answer, Failure, csv};
use crate::store::{Durability, Store};
use clap::{Args, Subcommand};
use serde_json::json;
use std::path::PathBuf;

/// Wishes for stock.
///
/// A quantity means what the service's QuantityOnHand means: what is on the shelf, less what is sold and not yet
/// picked.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// A count: this many are there
    ///
    /// What others sold since is subtracted again (policy `merge`): what counts is the difference to what the stock
    /// view showed.
    Set(Set),
    /// So many came or went
    Adjust(Adjust),
    /// Counts or adjustments of a CSV file with the columns sku, warehouse_id and quantity or delta
    ///
    /// Optional columns: seen, key. The same file imported again changes nothing.
    Import(Import),
}

/// A count.
#[derive(Debug, Args)]
pub(super) struct Set {
    /// The SKU
    sku: String,
    /// The warehouse's id at the service
    warehouse: i64,
    /// What was counted
    quantity: i64,
    /// What the stock view showed when it was counted [default: what it shows now]
    #[arg(long)]
    seen: Option<i64>,
    #[command(flatten)]
    key: Key,
}

/// A difference.
#[derive(Debug, Args)]
pub(super) struct Adjust {
    /// The SKU
    sku: String,
    /// The warehouse's id at the service
    warehouse: i64,
    /// Units that came (+) or went (-)
    #[arg(allow_hyphen_values = true)]
    delta: i64,
    #[command(flatten)]
    key: Key,
}

/// The wish's name.
#[derive(Debug, Args)]
struct Key {
    /// Your own name for the wish: the same key again changes nothing [default: a new one]
    #[arg(long)]
    key: Option<String>,
}

/// A CSV file.
#[derive(Debug, Args)]
pub(super) struct Import {
    /// The file; its first line names the columns
    #[arg(value_name = "FILE.csv")]
    file: PathBuf,
    /// Take the good lines of a file that has bad ones
    #[arg(long)]
    partial: bool,
}

struct Wish {
    key: String,
    kind: &'static str,
    body: serde_json::Value,
    priority: i64,
}

pub(super) async fn quantity(place: &Place, command: Command) -> Result<Answer, Failure> {
    let (wishes, problems) = match command {
        Command::Set(set) => {
            let mut body = json!({"sku": set.sku, "warehouse_id": set.warehouse, "quantity": set.quantity});
            if let Some(seen) = set.seen {
                body["seen"] = seen.into();
            }
            (vec![single(place, "quantity.set", body, set.key.key)], Vec::new())
        }
        Command::Adjust(adjust) => {
            let body = json!({"sku": adjust.sku, "warehouse_id": adjust.warehouse, "delta": adjust.delta});
            (vec![single(place, "quantity.adjust", body, adjust.key.key)], Vec::new())
        }
        Command::Import(import) => {
            csv::import(&import.file, &["sku", "warehouse_id"], import.partial, imported)?
        }
    };
    for wish in &wishes {
        if let Err(rejection) = crate::outbox::parse(wish.kind, &wish.body.to_string()) {
            return Err(Failure::usage(rejection.detail));
        }
    }
    insert(&place.store_or_new().await?, &wishes, &problems).await
}

fn single(place: &Place, kind: &'static str, body: serde_json::Value, key: Option<String>) -> Wish {
    Wish { key: key.unwrap_or_else(|| place.new_key()), kind, body, priority: 1 }
}

fn imported(line: &csv::Line) -> Result<Wish, String> {
    let mut body = json!({"sku": line.need("sku")?, "warehouse_id": line.number("warehouse_id")?});
    let kind = match (line.get("quantity"), line.get("delta")) {
        (Some(_), None) => {
            body["quantity"] = line.number("quantity")?.into();
            if line.get("seen").is_some() {
                body["seen"] = line.number("seen")?.into();
            }
            "quantity.set"
        }
        (None, Some(_)) => {
            body["delta"] = line.number("delta")?.into();
            "quantity.adjust"
        }
        _ => return Err("exactly one of `quantity` and `delta` must be filled in".into()),
    };
    crate::outbox::parse(kind, &body.to_string()).map_err(|rejection| rejection.detail)?;
    let key = line.get("key").map_or_else(|| line.key.clone(), str::to_owned);
    Ok(Wish { key, kind, body, priority: 0 })
}

async fn insert(store: &Store, wishes: &[Wish], problems: &[String]) -> Result<Answer, Failure> {
    let mut write = store.begin(Durability::Full).await?;
    let mut new = 0;
    for wish in wishes {
        new += u64::from(
            write.outbox_insert(&wish.key, wish.kind, &wish.body.to_string(), wish.priority).await?,
        );
    }
    write.commit().await?;
    let known = wishes.len() as u64 - new;
    let mut text = match wishes {
        [only] if new == 1 => format!("wish {} stands in the outbox\n", only.key),
        _ => format!("{new} wish(es) stand in the outbox, {known} were known by their keys\n"),
    };
    for problem in problems {
        text.push_str(&format!("left out: {problem}\n"));
    }
    Ok(text.into())
}
