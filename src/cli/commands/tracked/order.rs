//! `order`: the tracked orders and their facts.

use crate::cli::context::{CliContext, write_and_commit};
use crate::cli::local_time::{local_text, local_time};
use crate::cli::output::{TableCell, TextTable, cells};
use crate::cli::{CommandResult, OutputArgs, csv};
use crate::model::{OrderId, Timestamp, counted};
use crate::present::orders::{OrderDetail, order_json};
use crate::store::{AllocationRow, OrderRow, OrderState, ShipmentItemRow};
use clap::builder::TypedValueParser;
use clap::{Args, Subcommand};
use serde_json::Value;

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
    /// Track orders by their ids at the platform
    Track(OrderIdArgs),
    /// Track the orders of a CSV file with a column `order_id`
    Import(csv::CsvImportArgs),
    /// List the tracked orders
    List(OutputArgs),
    /// Show an order with its lines, allocations and shipments
    Show {
        /// Order id at the platform
        id: i64,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Stop tracking orders
    Untrack(OrderIdArgs),
}

#[derive(Debug, Args)]
pub(in crate::cli) struct OrderIdArgs {
    /// Order ids at the platform
    #[arg(required = true, value_name = "ID", value_parser = clap::value_parser!(i64).range(1..).map(OrderId))]
    ids: Vec<OrderId>,
}

const ORDER_COLUMNS: csv::CsvColumns = csv::CsvColumns { required: &["order_id"], optional: &[] };

pub(in crate::cli) async fn order_command(context: &CliContext, command: Command) -> CommandResult {
    match command {
        Command::Track(args) => track_orders(context, &args.ids, true).await,
        Command::Import(args) => {
            let read = |line: &csv::CsvRow| match line.whole_number("order_id")? {
                id if id > 0 => Ok(OrderId(id)),
                id => Err(format!("`order_id` is {id}; an id is at least 1")),
            };
            let orders = csv::import_file(&args, &ORDER_COLUMNS, read)?;
            // Known orders of a file are read at their usual time, because a file may hold the orders of
            // years.
            track_orders(context, &orders, false).await
        }
        Command::List(output) => list_orders(context, output).await,
        Command::Show { id, output } => show_order(context, OrderId(id), output).await,
        Command::Untrack(args) => {
            let store = context.open_store().await?;
            let removed =
                write_and_commit(&store, async |write| write.tracked_order_remove(&args.ids).await).await?;
            Ok(format!("{} no longer tracked\n", counted(removed, "order")).into())
        }
    }
}

/// Tracks orders. With `again`, orders already tracked are read now, closed ones too.
async fn track_orders(context: &CliContext, orders: &[OrderId], again: bool) -> CommandResult {
    let store = context.open_or_create_store().await?;
    let new = write_and_commit(&store, async |write| {
        let new = write.tracked_order_add(orders).await?;
        if again {
            write.order_read_request_add(orders).await?;
        }
        Ok(new)
    });
    let new = new.await?;
    let known = orders.len() as u64 - new;
    let mut text = format!("{} newly tracked, {known} already tracked", counted(new, "order"));
    text.push_str(if again && known > 0 { "; known orders are read again\n" } else { "\n" });
    Ok(text.into())
}

async fn list_orders(context: &CliContext, output: OutputArgs) -> CommandResult {
    let rows = context.open_store().await?.tracked_order_list().await?;
    let (now, shown) = (context.now(), |ms: Option<i64>| ms.map(|ms| local_time(Timestamp(ms))));
    let columns = |row: &OrderRow| {
        let (state, closed, observed) =
            (row.state(now).as_str(), shown(row.closed_ms), shown(row.observed_ms));
        cells![row.order_id, state, row.lines, row.sold, row.left, closed, observed]
    };
    let headings = ["order", "state", "lines", "sold", "left", "closed", "observed"];
    let nothing = "no order is tracked; run: tallyd order track ID…";
    let table = || TextTable::new(headings, rows.iter().map(columns)).to_text(nothing);
    Ok(output.render(|| rows.iter().map(|row| order_json(row, now)).collect::<Vec<_>>(), table).into())
}

async fn show_order(context: &CliContext, order: OrderId, output: OutputArgs) -> CommandResult {
    let detail = OrderDetail::load(&context.open_store().await?, order).await?;
    let text = || {
        let text = match detail.row.as_ref().map(|row| (row.state(context.now()), row.closed_ms)) {
            Some((OrderState::Emptied, closed)) => emptied_text(order, closed),
            _ => lines_text(&detail.lines),
        };
        text + &allocations_text(&detail.allocations) + &items_text(&detail.items)
    };
    Ok(output.render(|| detail.to_json(), text).into())
}

fn emptied_text(order: OrderId, closed_ms: Option<i64>) -> String {
    let since = closed_ms.map_or_else(String::new, |ms| format!(" since {}", local_time(Timestamp(ms))));
    format!(
        "order {order} is cancelled or emptied: the platform shows none of its lines{since}; \
         `tallyd order track {order}` reads it again\n"
    )
}

fn lines_text(lines: &[Value]) -> String {
    let columns = |line: &Value| {
        let [id, sku, sold, left, price, supplier, warehouse, observed] = [
            "line_item_id",
            "sku",
            "quantity_sold",
            "quantity_left",
            "unit_price",
            "supplier_id",
            "warehouse_id",
            "observed_at",
        ]
        .map(|name| line[name].cell_text());
        [id, sku, sold, left, price, supplier, warehouse, local_text(observed)]
    };
    let headings = ["line", "sku", "sold", "left", "price", "supplier", "warehouse", "observed"];
    TextTable::new(headings, lines.iter().map(columns))
        .to_text("no line of this order is known yet; check that it is tracked: tallyd order list")
}

fn allocations_text(allocations: &[AllocationRow]) -> String {
    let columns = |row: &AllocationRow| {
        let AllocationRow { line_item_id, sku, quantity, warehouse_id, warehouse_name, observed_at, .. } =
            row;
        cells![line_item_id, sku, quantity, warehouse_id, warehouse_name, local_text(observed_at)]
    };
    let headings = ["line", "sku", "quantity", "warehouse", "name", "observed"];
    TextTable::new(headings, allocations.iter().map(columns)).to_section()
}

fn items_text(items: &[ShipmentItemRow]) -> String {
    let columns = |row: &ShipmentItemRow| {
        cells![
            row.line_item_id,
            row.shipment_id,
            row.item_id,
            row.quantity,
            row.is_shipped,
            row.is_confirmed,
            row.tracking_number,
            local_text(&row.observed_at),
        ]
    };
    let headings = ["line", "shipment", "item", "quantity", "shipped", "confirmed", "tracking", "observed"];
    TextTable::new(headings, items.iter().map(columns)).to_section()
}
