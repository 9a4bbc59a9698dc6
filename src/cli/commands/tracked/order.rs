//! `order`: the tracked orders and their facts.

use crate::cli::context::CliContext;
use crate::cli::output::{TextTable, or_dash, pretty_json, yes_or_no};
use crate::cli::{CommandFailure, CommandOutput, OutputArgs, csv};
use crate::model::{Clock, OrderId, Timestamp};
use crate::store::{AllocationRow, Durability, OrderState, ShipmentItemRow};
use clap::{Args, Subcommand};
use serde_json::{Value, json as value};
use std::path::PathBuf;

/// Subcommands of `order`.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
    /// Track orders by their ids at the platform
    Track(OrderIdArgs),
    /// Track the orders of a CSV file with a column `order_id`
    Import(OrderImportArgs),
    /// List the tracked orders
    List(OutputArgs),
    /// Show one order with its lines, where they are taken from and what of them is on its way
    Show(OrderShowArgs),
    /// Stop tracking orders
    Untrack(OrderIdArgs),
}

/// Orders by id.
#[derive(Debug, Args)]
pub(in crate::cli) struct OrderIdArgs {
    /// The platform's order ids
    #[arg(required = true, value_name = "ID", value_parser = clap::value_parser!(i64).range(1..))]
    ids: Vec<i64>,
}

/// A CSV file.
#[derive(Debug, Args)]
pub(in crate::cli) struct OrderImportArgs {
    /// The file; its first line names the columns
    #[arg(value_name = "FILE.csv")]
    file: PathBuf,
    /// Take the good lines of a file that has bad ones
    #[arg(long)]
    partial: bool,
}

/// One order.
#[derive(Debug, Args)]
pub(in crate::cli) struct OrderShowArgs {
    /// The platform's order id
    id: i64,
    #[command(flatten)]
    output: OutputArgs,
}

const ORDER_COLUMNS: csv::CsvColumns = csv::CsvColumns { required: &["order_id"], optional: &[] };

pub(in crate::cli) async fn order_command(
    context: &CliContext,
    command: Command,
) -> Result<CommandOutput, CommandFailure> {
    match command {
        Command::Track(named) => track_orders(context, &order_ids(&named.ids), true, &[]).await,
        Command::Import(import) => {
            let read = |line: &csv::CsvRow| match line.whole_number("order_id")? {
                id if id > 0 => Ok(OrderId(id)),
                id => Err(format!("`order_id` is {id}; ids are above 0")),
            };
            let (orders, notes) = csv::import_file(&import.file, &ORDER_COLUMNS, import.partial, read)?;
            // Known orders of a file are read at their usual time, because a file may hold the orders of
            // years.
            track_orders(context, &orders, false, &notes).await
        }
        Command::List(reading) => list_orders(context, reading).await,
        Command::Show(args) => show_order(context, &args).await,
        Command::Untrack(named) => untrack_orders(context, &order_ids(&named.ids)).await,
    }
}

fn order_ids(ids: &[i64]) -> Vec<OrderId> {
    ids.iter().copied().map(OrderId).collect()
}

/// Tracks orders. With `again`, orders already tracked are read now, closed ones too.
async fn track_orders(
    place: &CliContext,
    orders: &[OrderId],
    again: bool,
    notes: &[String],
) -> Result<CommandOutput, CommandFailure> {
    let store = place.open_or_create_store().await?;
    let mut write = store.begin_write(Durability::Full).await?;
    let new = write.tracked_order_add(orders).await?;
    if again {
        write.order_read_request_add(orders).await?;
    }
    write.commit().await?;
    let known = orders.len() as u64 - new;
    let mut text = format!("{new} order(s) tracked from now on, {known} were tracked before");
    text.push_str(if again && known > 0 { " and are read again\n" } else { "\n" });
    csv::append_notes(&mut text, notes);
    Ok(text.into())
}

async fn list_orders(context: &CliContext, reading: OutputArgs) -> Result<CommandOutput, CommandFailure> {
    let rows = context.open_store().await?.tracked_order_list().await?;
    let time = |ms: Option<i64>| ms.map(|ms| Timestamp(ms).to_rfc3339());
    let now = context.clock().now();
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
        return Ok(pretty_json(&rows).into());
    }
    let mut table = TextTable::new(&["order", "state", "lines", "sold", "left", "closed", "observed"]);
    for row in rows {
        let levels = [
            row.order_id.to_string(),
            row.state(now).as_str().to_owned(),
            row.lines.to_string(),
            or_dash(row.sold),
            or_dash(row.left),
            or_dash(time(row.closed_ms)),
            or_dash(time(row.observed_ms)),
        ];
        table.add_row(levels);
    }
    Ok(table.to_text("no order is tracked; begin with: tallyd order track ID…").into())
}

async fn show_order(context: &CliContext, args: &OrderShowArgs) -> Result<CommandOutput, CommandFailure> {
    let (store, order) = (context.open_store().await?, OrderId(args.id));
    let mut lines = store.order_lines(order).await?;
    let allocations = store.allocation_list(order).await?;
    let items = store.shipment_items(order).await?;
    if args.output.json {
        for line in &mut lines {
            let id = line["line_item_id"].as_i64();
            let taken = allocations.iter().filter(|taken| Some(taken.line_item_id) == id);
            let shipped = items.iter().filter(|item| item.line_item_id == id);
            line["allocations"] = value!(taken.collect::<Vec<_>>());
            line["shipments"] = value!(shipped.collect::<Vec<_>>());
        }
        return Ok(pretty_json(&lines).into());
    }
    let now = context.clock().now();
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
    let since = closed_ms.map_or_else(String::new, |ms| format!(" since {}", Timestamp(ms).to_rfc3339()));
    format!(
        "order {order} is cancelled or emptied: the platform shows none of its lines{since}; \
         `tallyd order track {order}` reads it again\n"
    )
}

fn lines_text(lines: &[Value]) -> String {
    let mut table = TextTable::new(&["line", "sku", "sold", "left", "price", "warehouse", "observed"]);
    for line in lines {
        let level = |name: &str| match &line[name] {
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
        table.add_row(names.map(level));
    }
    table.to_text("nothing is known of this order yet; is it tracked?")
}

fn allocations_text(allocations: Vec<AllocationRow>) -> String {
    let mut table = TextTable::new(&["line", "taken", "quantity", "warehouse", "name", "observed"]);
    for row in allocations {
        let levels = [
            row.line_item_id.to_string(),
            or_dash(row.sku),
            row.quantity.to_string(),
            row.warehouse_id.to_string(),
            or_dash(row.warehouse_name),
            row.observed_at,
        ];
        table.add_row(levels);
    }
    format!("\n{}", table.to_text(""))
}

fn items_text(items: Vec<ShipmentItemRow>) -> String {
    let mut table = TextTable::new(&[
        "line",
        "shipment",
        "item",
        "quantity",
        "shipped",
        "confirmed",
        "tracking",
        "observed",
    ]);
    for row in items {
        let levels = [
            or_dash(row.line_item_id),
            row.shipment_id.to_string(),
            row.item_id.to_string(),
            row.quantity.to_string(),
            yes_or_no(row.is_shipped),
            yes_or_no(row.is_confirmed),
            or_dash(row.tracking_number),
            row.observed_at,
        ];
        table.add_row(levels);
    }
    format!("\n{}", table.to_text(""))
}

async fn untrack_orders(context: &CliContext, orders: &[OrderId]) -> Result<CommandOutput, CommandFailure> {
    let store = context.open_store().await?;
    let mut write = store.begin_write(Durability::Full).await?;
    let removed = write.tracked_order_remove(orders).await?;
    write.commit().await?;
    Ok(format!("{removed} order(s) no longer tracked\n").into())
}
