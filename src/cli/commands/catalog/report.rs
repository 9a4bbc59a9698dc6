//! `report`: the platform's reports, from the mirror.

use crate::cli::context::Place;
use crate::cli::output::{Table, dash, json};
use crate::cli::{Answer, Failure, Reading};
use clap::{Args, Subcommand};

/// The service's reports.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
    /// The ten best sellers of each month
    TopSelling(Months),
    /// The figures of each month
    BusinessHealth(Months),
    /// The work queue's counts over time, newest first
    WorkQueue(Series),
}

/// How far back.
#[derive(Debug, Args)]
pub(in crate::cli) struct Months {
    /// The newest so many months
    #[arg(long, default_value_t = 24)]
    months: u32,
    #[command(flatten)]
    reading: Reading,
}

/// How many.
#[derive(Debug, Args)]
pub(in crate::cli) struct Series {
    /// At most so many
    #[arg(long, default_value_t = 50)]
    limit: u32,
    #[command(flatten)]
    reading: Reading,
}

pub(in crate::cli) async fn report(place: &Place, command: Command) -> Result<Answer, Failure> {
    match command {
        Command::TopSelling(args) => top_selling(place, &args).await,
        Command::BusinessHealth(args) => business_health(place, &args).await,
        Command::WorkQueue(args) => work_queue(place, &args).await,
    }
}

async fn top_selling(place: &Place, args: &Months) -> Result<Answer, Failure> {
    let rows = place.store().await?.top_sellers(args.months).await?;
    if args.reading.json {
        return Ok(json(&rows).into());
    }
    let mut table = Table::new(&["month", "rank", "sku", "name", "sold", "amount"]);
    for row in rows {
        let cells = [
            month(row.year, row.month),
            row.rank.to_string(),
            dash(row.sku),
            dash(row.name),
            dash(row.quantity_sold),
            amount(row.amount_sold),
        ];
        table.row(cells);
    }
    Ok(table.render("no top seller is known; let `top_selling` run").into())
}

async fn business_health(place: &Place, args: &Months) -> Result<Answer, Failure> {
    let rows = place.store().await?.business_health(args.months).await?;
    if args.reading.json {
        return Ok(json(&rows).into());
    }
    let head =
        ["month", "revenue", "cost of goods", "shipping", "profit", "stock at start", "at end", "listings"];
    let mut table = Table::new(&head);
    for row in rows {
        let figures = row.figures;
        let cells = [
            month(row.year, row.month),
            amount(figures.total_revenue),
            amount(figures.total_cost_of_goods_sold),
            amount(figures.total_shipping_costs),
            amount(figures.total_profit),
            amount(figures.total_value_of_inventory_month_start),
            amount(figures.total_value_of_inventory_month_end),
            dash(figures.total_number_of_new_listings_added),
        ];
        table.row(cells);
    }
    Ok(table.render("no month is known; let `business_health` run").into())
}

async fn work_queue(place: &Place, args: &Series) -> Result<Answer, Failure> {
    let rows = place.store().await?.work_queue(args.limit).await?;
    if args.reading.json {
        return Ok(json(&rows).into());
    }
    let head = ["observed", "unshipped", "ready to ship", "in process", "awaiting payment", "low stock"];
    let mut table = Table::new(&head);
    for row in rows {
        let cells = [
            row.observed_at,
            dash(row.unshipped_sales_orders),
            dash(row.paid_ready_to_ship_sales_orders),
            dash(row.paid_in_process_sales_orders),
            dash(row.awaiting_payment_sales_orders),
            dash(row.low_inventory_products),
        ];
        table.row(cells);
    }
    Ok(table.render("the work queue was not read yet; let `work_queue` run").into())
}

fn month(year: i64, month: i64) -> String {
    format!("{year:04}-{month:02}")
}

fn amount(amount: Option<f64>) -> String {
    dash(amount.map(|amount| format!("{amount:.2}")))
}
