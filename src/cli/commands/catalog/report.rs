//! `report`: the platform's reports, from the mirror.

use crate::cli::context::CliContext;
use crate::cli::local_time::local_text;
use crate::cli::output::{cell_text, cells};
use crate::cli::{CommandResult, OutputArgs};
use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
    /// Show the ten best sellers of each month
    TopSelling(ReportMonthsArgs),
    /// Show the business figures of each month
    BusinessHealth(ReportMonthsArgs),
    /// Show the counts of the work queue over time, newest first
    WorkQueue {
        /// Maximum number of rows
        #[arg(long, default_value_t = 50)]
        limit: u32,
        #[command(flatten)]
        output: OutputArgs,
    },
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ReportMonthsArgs {
    /// Number of months, newest first
    #[arg(long, default_value_t = 24)]
    months: u32,
    #[command(flatten)]
    output: OutputArgs,
}

pub(in crate::cli) async fn report_command(context: &CliContext, command: Command) -> CommandResult {
    let store = context.open_store().await?;
    match command {
        Command::TopSelling(args) => args.output.list(
            &store.top_sellers(args.months).await?,
            "no top seller is known: the job `top_selling` has not run (tallyd job list), or the platform listed none",
            ["month", "rank", "sku", "name", "sold", "amount"],
            |row| {
                let (month, amount) = (month_text(row.year, row.month), amount_text(row.amount_sold));
                cells![month, row.rank, row.sku, row.name, row.quantity_sold, amount]
            },
        ),
        Command::BusinessHealth(args) => args.output.list(
            &store.business_health(args.months).await?,
            "no month is known: the job `business_health` has not run (tallyd job list), or the platform has none",
            [
                "month",
                "revenue",
                "cost of goods",
                "shipping",
                "profit",
                "stock at start",
                "at end",
                "listings",
            ],
            |row| {
                let figures = &row.figures;
                [
                    month_text(row.year, row.month),
                    amount_text(figures.total_revenue),
                    amount_text(figures.total_cost_of_goods_sold),
                    amount_text(figures.total_shipping_costs),
                    amount_text(figures.total_profit),
                    amount_text(figures.total_value_of_inventory_month_start),
                    amount_text(figures.total_value_of_inventory_month_end),
                    cell_text(&figures.total_number_of_new_listings_added),
                ]
            },
        ),
        Command::WorkQueue { limit, output } => output.list(
            &store.work_queue_list(limit).await?,
            "the work queue was not read yet; run: tallyd job run work_queue",
            ["observed", "unshipped", "ready to ship", "in process", "awaiting payment", "low stock"],
            |row| {
                cells![
                    local_text(&row.observed_at),
                    row.unshipped_sales_orders,
                    row.paid_ready_to_ship_sales_orders,
                    row.paid_in_process_sales_orders,
                    row.awaiting_payment_sales_orders,
                    row.low_inventory_products,
                ]
            },
        ),
    }
}

fn month_text(year: i64, month: i64) -> String {
    format!("{year:04}-{month:02}")
}

fn amount_text(amount: Option<f64>) -> String {
    cell_text(&amount.map(|amount| format!("{amount:.2}")))
}
