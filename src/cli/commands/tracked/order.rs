//! `order`: the tracked orders and their facts.

use crate::cli::context::Place;
use crate::cli::output::{Table, dash, json, yes};
use crate::cli::{Answer, Failure, Reading, csv};
use crate::model::{Clock, OrderId, Timestamp};
use crate::store::{AllocationRow, Durability, OrderState, ShipmentItemRow};
use clap::{Args, Subcommand};
use serde_json::{Value, json as value};
use std::path::PathBuf;

/// Which orders are tracked.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
    /// Track orders by their ids at the service
    Track(Named),
    /// Track the orders of a CSV file with a column `order_id`
    Import(Import),
    /// List the tracked orders
    List(Reading),
    /// Show one order with its lines, where they are taken from and what of them is on its way
    Show(Show),
    /// Stop tracking orders
    Untrack(Named),
}

/// Orders by id.
#[derive(Debug, Args)]
pub(in crate::cli) struct Named {
    /// The service's order ids
    #[arg(required = true, value_name = "ID", value_parser = clap::value_parser!(i64).range(1..))]
    ids: Vec<i64>,
}

/// A CSV file.
#[derive(Debug, Args)]
pub(in crate::cli) struct Import {
    /// The file; its first line names the columns
    #[arg(value_name = "FILE.csv")]
    file: PathBuf,
    /// Take the good lines of a file that has bad ones
    #[arg(long)]
    partial: bool,
}

/// One order.
#[derive(Debug, Args)]
pub(in crate::cli) struct Show {
    /// The service's order id
    id: i64,
    #[command(flatten)]
    reading: Reading,
}

const COLUMNS: csv::Columns = csv::Columns { required: &["order_id"], optional: &[] };

pub(in crate::cli) async fn order(place: &Place, command: Command) -> Result<Answer, Failure> {
    match command {
        Command::Track(named) => track(place, &ids(&named.ids), true, &[]).await,
        Command::Import(import) => {
            let read = |line: &csv::Line| match line.number("order_id")? {
                id if id > 0 => Ok(OrderId(id)),
                id => Err(format!("`order_id` is {id}; ids are above 0")),
            };
            let (orders, notes) = csv::import(&import.file, &COLUMNS, import.partial, read)?;
            // Known orders of a file are read at their usual time, because a file may hold the orders of
            // years.
            track(place, &orders, false, &notes).await
        }
        Command::List(reading) => list(place, reading).await,
        Command::Show(args) => show(place, &args).await,
        Command::Untrack(named) => untrack(place, &ids(&named.ids)).await,
    }
}

fn ids(ids: &[i64]) -> Vec<OrderId> {
    ids.iter().copied().map(OrderId).collect()
}

/// Tracks orders. With `again`, orders already tracked are read now, closed ones too.
async fn track(place: &Place, orders: &[OrderId], again: bool, notes: &[String]) -> Result<Answer, Failure> {
    let store = place.store_or_new().await?;
    let mut write = store.begin(Durability::Full).await?;
    let new = write.tracked_order_add(orders).await?;
    if again {
        write.order_ask(orders).await?;
    }
    write.commit().await?;
    let known = orders.len() as u64 - new;
    let mut text = format!("{new} order(s) tracked from now on, {known} were tracked before");
    text.push_str(if again && known > 0 { " and are read again\n" } else { "\n" });
    csv::tell(&mut text, notes);
    Ok(text.into())
}

async fn list(place: &Place, reading: Reading) -> Result<Answer, Failure> {
    let rows = place.store().await?.tracked_order_list().await?;
    let time = |ms: Option<i64>| ms.map(|ms| Timestamp(ms).rfc3339());
    let now = place.clock().now();
    if reading.json {
        let rows: Vec<_> = rows
            .iter()
            .map(|row| {
                value!({"order_id": row.order_id, "observed_at": time(row.observed_ms),
                        "closed_at": time(row.closed_ms), "lines": row.lines, "quantity_sold": row.sold,
                        "quantity_left": row.left, "changed_at": time(row.changed_ms),
                        "state": row.state(now).as_str(), "stale": row.state(now) == OrderState::Stale})
            })
            .collect();
        return Ok(json(&rows).into());
    }
    let mut table = Table::new(&["order", "state", "lines", "sold", "left", "closed", "observed"]);
    for row in rows {
        let cells = [
            row.order_id.to_string(),
            row.state(now).as_str().to_owned(),
            row.lines.to_string(),
            dash(row.sold),
            dash(row.left),
            dash(time(row.closed_ms)),
            dash(time(row.observed_ms)),
        ];
        table.row(cells);
    }
    Ok(table.render("no order is tracked; begin with: tallyd order track ID…").into())
}

async fn show(place: &Place, args: &Show) -> Result<Answer, Failure> {
    let (store, order) = (place.store().await?, OrderId(args.id));
    let mut lines = store.order_lines(order).await?;
    let allocations = store.allocation_list(order).await?;
    let items = store.shipment_items(order).await?;
    if args.reading.json {
        for line in &mut lines {
            let id = line["line_item_id"].as_i64();
            let taken = allocations.iter().filter(|taken| Some(taken.line_item_id) == id);
            let shipped = items.iter().filter(|item| item.line_item_id == id);
            line["allocations"] = value!(taken.collect::<Vec<_>>());
            line["shipments"] = value!(shipped.collect::<Vec<_>>());
        }
        return Ok(json(&lines).into());
    }
    let now = place.clock().now();
    let mut text = match store.order_row(order).await?.map(|row| (row.state(now), row.closed_ms)) {
        Some((OrderState::Emptied, closed)) => emptied_text(order, closed),
        _ => lines_text(&lines),
    };
    if !allocations.is_empty() {
        text.push_str(&allocations_text(allocations));
    }
    if !items.is_empty() {
        text.push_str(&items_text(items));
    }
    Ok(text.into())
}

fn emptied_text(order: OrderId, closed_ms: Option<i64>) -> String {
    let since = closed_ms.map_or_else(String::new, |ms| format!(" since {}", Timestamp(ms).rfc3339()));
    format!(
        "order {order} is cancelled or emptied: the service shows none of its lines{since}; \
         `tallyd order track {order}` reads it again\n"
    )
}

fn lines_text(lines: &[Value]) -> String {
    let mut table = Table::new(&["line", "sku", "sold", "left", "price", "warehouse", "observed"]);
    for line in lines {
        let cell = |name: &str| match &line[name] {
            Value::Null => "-".to_owned(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let names = [
            "line_item_id",
            "sku",
            "quantity_sold",
            "quantity_left",
            "unit_price",
            "warehouse_id",
            "observed_at",
        ];
        table.row(names.map(cell));
    }
    table.render("nothing is known of this order yet; is it tracked?")
}

fn allocations_text(allocations: Vec<AllocationRow>) -> String {
    let mut table = Table::new(&["line", "taken", "quantity", "warehouse", "name", "observed"]);
    for row in allocations {
        let cells = [
            row.line_item_id.to_string(),
            dash(row.sku),
            row.quantity.to_string(),
            row.warehouse_id.to_string(),
            dash(row.warehouse_name),
            row.observed_at,
        ];
        table.row(cells);
    }
    format!("\n{}", table.render(""))
}

fn items_text(items: Vec<ShipmentItemRow>) -> String {
    let mut table =
        Table::new(&["line", "shipment", "item", "quantity", "shipped", "confirmed", "tracking", "observed"]);
    for row in items {
        let cells = [
            dash(row.line_item_id),
            row.shipment_id.to_string(),
            row.item_id.to_string(),
            row.quantity.to_string(),
            yes(row.is_shipped),
            yes(row.is_confirmed),
            dash(row.tracking_number),
            row.observed_at,
        ];
        table.row(cells);
    }
    format!("\n{}", table.render(""))
}

async fn untrack(place: &Place, orders: &[OrderId]) -> Result<Answer, Failure> {
    let store = place.store().await?;
    let mut write = store.begin(Durability::Full).await?;
    let removed = write.tracked_order_remove(orders).await?;
    write.commit().await?;
    Ok(format!("{removed} order(s) no longer tracked\n").into())
}
