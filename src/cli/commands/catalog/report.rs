//! `report`: the platform's reports, from the mirror.

use crate::cli::context::CliContext;
use crate::cli::output::{TextTable, or_dash, pretty_json};
use crate::cli::{CommandFailure, CommandOutput, OutputArgs};
use clap::{Args, Subcommand};

/// The platform's reports.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
    /// The ten best sellers of each month
    TopSelling(ReportMonthsArgs),
    /// The figures of each month
    BusinessHealth(ReportMonthsArgs),
    /// The work queue's counts over time, newest first
    WorkQueue(ReportSeriesArgs),
}

/// Months to show.
#[derive(Debug, Args)]
pub(in crate::cli) struct ReportMonthsArgs {
    /// The newest so many months
    #[arg(long, default_value_t = 24)]
    months: u32,
    #[command(flatten)]
    output: OutputArgs,
}

/// Number of rows to show.
#[derive(Debug, Args)]
pub(in crate::cli) struct ReportSeriesArgs {
    /// At most so many
    #[arg(long, default_value_t = 50)]
    limit: u32,
    #[command(flatten)]
    output: OutputArgs,
}

pub(in crate::cli) async fn report_command(
    context: &CliContext,
    command: Command,
) -> Result<CommandOutput, CommandFailure> {
    match command {
        Command::TopSelling(args) => top_selling(context, &args).await,
        Command::BusinessHealth(args) => business_health(context, &args).await,
        Command::WorkQueue(args) => work_queue(context, &args).await,
    }
}

async fn top_selling(context: &CliContext, args: &ReportMonthsArgs) -> Result<CommandOutput, CommandFailure> {
    let rows = context.open_store().await?.top_sellers(args.months).await?;
    if args.output.json {
        return Ok(pretty_json(&rows).into());
    }
    let mut table = TextTable::new(&["month", "rank", "sku", "name", "sold", "amount"]);
    for row in rows {
        let levels = [
            month_text(row.year, row.month),
            row.rank.to_string(),
            or_dash(row.sku),
            or_dash(row.name),
            or_dash(row.quantity_sold),
            amount_text(row.amount_sold),
        ];
        table.add_row(levels);
    }
    Ok(table.to_text("no top seller is known; let `top_selling` run").into())
}

async fn business_health(
    place: &CliContext,
    args: &ReportMonthsArgs,
) -> Result<CommandOutput, CommandFailure> {
    let rows = place.open_store().await?.business_health(args.months).await?;
    if args.output.json {
        return Ok(pretty_json(&rows).into());
    }
    let head =
        ["month", "revenue", "cost of goods", "shipping", "profit", "stock at start", "at end", "listings"];
    let mut table = TextTable::new(&head);
    for row in rows {
        let figures = row.figures;
        let levels = [
            month_text(row.year, row.month),
            amount_text(figures.total_revenue),
            amount_text(figures.total_cost_of_goods_sold),
            amount_text(figures.total_shipping_costs),
            amount_text(figures.total_profit),
            amount_text(figures.total_value_of_inventory_month_start),
            amount_text(figures.total_value_of_inventory_month_end),
            or_dash(figures.total_number_of_new_listings_added),
        ];
        table.add_row(levels);
    }
    Ok(table.to_text("no month is known; let `business_health` run").into())
}

async fn work_queue(context: &CliContext, args: &ReportSeriesArgs) -> Result<CommandOutput, CommandFailure> {
    let rows = context.open_store().await?.work_queue_list(args.limit).await?;
    if args.output.json {
        return Ok(pretty_json(&rows).into());
    }
    let head = ["observed", "unshipped", "ready to ship", "in process", "awaiting payment", "low stock"];
    let mut table = TextTable::new(&head);
    for row in rows {
        let levels = [
            row.observed_at,
            or_dash(row.unshipped_sales_orders),
            or_dash(row.paid_ready_to_ship_sales_orders),
            or_dash(row.paid_in_process_sales_orders),
            or_dash(row.awaiting_payment_sales_orders),
            or_dash(row.low_inventory_products),
        ];
        table.add_row(levels);
    }
    Ok(table.to_text("the work queue was not read yet; let `work_queue` run").into())
}

fn month_text(year: i64, month: i64) -> String {
    format!("{year:04}-{month:02}")
}

fn amount_text(amount: Option<f64>) -> String {
    or_dash(amount.map(|amount| format!("{amount:.2}")))
}
