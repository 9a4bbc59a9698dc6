//! `order`: the tracked orders and their facts.

use crate::cli::context::CliContext;
use crate::cli::local_time::local_time;
use crate::cli::output::{decision_output, table_section, table_text};
use crate::cli::{CommandResult, OutputArgs, csv};
use crate::model::{OrderId, Timestamp};
use crate::present::orders::{
    OrderDetail, allocation_columns, order_columns, order_json, order_line_columns, shipment_item_columns,
};
use crate::present::tracked::{track_orders, untrack_orders};
use crate::store::OrderState;
use clap::builder::TypedValueParser;
use clap::{Args, Subcommand};

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
        Command::Track(args) => add_orders(context, &args.ids, true).await,
        Command::Import(args) => {
            let read = |line: &csv::CsvRow| match line.whole_number("order_id")? {
                id if id > 0 => Ok(OrderId(id)),
                id => Err(format!("`order_id` is {id}; an id is at least 1")),
            };
            let orders = csv::import_file(&args, &ORDER_COLUMNS, read)?;
            // Known orders are read at their usual time, because a file may hold the orders of years.
            add_orders(context, &orders, false).await
        }
        Command::List(output) => {
            let (rows, now) = (context.open_store().await?.tracked_order_list().await?, context.now());
            let columns = rows.iter().map(|row| order_columns(row, now));
            let json = || rows.iter().map(|row| order_json(row, now)).collect::<Vec<_>>();
            let nothing = "no order is tracked; run: tallyd order track ID…";
            Ok(output.render(json, || table_text(columns, nothing)).into())
        }
        Command::Show { id, output } => show_order(context, OrderId(id), output).await,
        Command::Untrack(args) => {
            decision_output(untrack_orders(&context.open_store().await?, &args.ids).await)
        }
    }
}

async fn add_orders(context: &CliContext, orders: &[OrderId], again: bool) -> CommandResult {
    decision_output(track_orders(&context.open_or_create_store().await?, orders, again).await)
}

async fn show_order(context: &CliContext, order: OrderId, output: OutputArgs) -> CommandResult {
    let detail = OrderDetail::load(&context.open_store().await?, order).await?;
    let text = || {
        let text = match detail.row.as_ref().map(|row| (row.state(context.now()), row.closed_ms)) {
            Some((OrderState::Emptied, closed)) => emptied_text(order, closed),
            _ => table_text(
                detail.lines.iter().map(order_line_columns),
                "no line of this order is known yet; check that it is tracked: tallyd order list",
            ),
        };
        let allocations = table_section(detail.allocations.iter().map(allocation_columns));
        text + &allocations + &table_section(detail.items.iter().map(shipment_item_columns))
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
