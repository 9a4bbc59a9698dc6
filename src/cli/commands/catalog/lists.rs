//! `warehouse`, `supplier`, `storefront`, `template` and `report`: the platform's lists and reports, from the mirror.

use super::create::{self, TemplateCreateArgs, WarehouseCreateArgs};
use crate::cli::context::CliContext;
use crate::cli::output::columns;
use crate::cli::{CommandResult, OutputArgs};
use crate::present::listing::time_cell;
use clap::{Args, Subcommand};
use serde_json::Value;

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum WarehouseCommand {
    /// List warehouses
    List(OutputArgs),
    /// Queue the creation of a warehouse
    Create(WarehouseCreateArgs),
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum ListCommand {
    /// List all that the mirror has
    List(OutputArgs),
}

/// Returns the sentence about an empty list of a job.
fn none_text(what: &str, job: &str) -> String {
    format!("no {what} is known: the job `{job}` has not run (tallyd job list), or the platform listed none")
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum TemplateCommand {
    /// List listing templates
    List {
        /// Show only templates of this storefront
        #[arg(long, value_name = "ID")]
        storefront: Option<i64>,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Queue the creation of a listing template
    Create(TemplateCreateArgs),
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum ReportCommand {
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

pub(in crate::cli) async fn warehouse_command(
    context: &CliContext,
    command: WarehouseCommand,
) -> CommandResult {
    let output = match command {
        WarehouseCommand::List(output) => output,
        WarehouseCommand::Create(args) => return create::queue_warehouse_create(context, args).await,
    };
    let nothing = &none_text("warehouse", "warehouses");
    output.list(&context.open_store().await?.warehouse_list().await?, nothing, |row| {
        columns! {
            "warehouse": row["id"], "name": row["name"], "type": row["type"], "active": row["is_active"],
            "account": row["account_number"], "missing since": time_cell(row["missing_since"].as_str()),
        }
    })
}

pub(in crate::cli) async fn supplier_command(
    context: &CliContext,
    ListCommand::List(output): ListCommand,
) -> CommandResult {
    let nothing = &none_text("supplier", "suppliers");
    output.list(&context.open_store().await?.supplier_list().await?, nothing, |row| {
        columns! {
            "supplier": row["id"], "name": row["name"], "active": row["is_active"],
            "account": row["account_number"], "address": row["supplier_url"],
            "missing since": time_cell(row["missing_since"].as_str()),
        }
    })
}

pub(in crate::cli) async fn storefront_command(
    context: &CliContext,
    ListCommand::List(output): ListCommand,
) -> CommandResult {
    let nothing = &none_text("storefront", "storefronts");
    output.list(&context.open_store().await?.storefront_list().await?, nothing, |row| {
        columns! {
            "storefront": row["id"], "name": row["name"], "type": row["type"], "active": row["is_active"],
            "missing since": time_cell(row["missing_since"].as_str()),
        }
    })
}

pub(in crate::cli) async fn template_command(
    context: &CliContext,
    command: TemplateCommand,
) -> CommandResult {
    let (storefront, output) = match command {
        TemplateCommand::List { storefront, output } => (storefront, output),
        TemplateCommand::Create(args) => return create::queue_template_create(context, args).await,
    };
    let nothing = "no listing template is known yet; run `tallyd job run storefronts`, then `tallyd job run \
                   listing_templates`";
    let mut templates = context.open_store().await?.template_list().await?;
    templates.retain(|row| storefront.is_none_or(|only| row["storefront_id"] == only));
    output.list(&templates, nothing, |row| {
        columns! {
            "template": row["id"], "storefront": row["storefront_id"], "name": row["name"],
            "characters": row["body"].as_str().map(|body| body.chars().count()),
            "missing since": time_cell(row["missing_since"].as_str()),
        }
    })
}

pub(in crate::cli) async fn report_command(context: &CliContext, command: ReportCommand) -> CommandResult {
    let store = context.open_store().await?;
    let month = |row: &Value| {
        let [year, month] = ["year", "month"].map(|part| row[part].as_i64().unwrap_or_default());
        format!("{year:04}-{month:02}")
    };
    let amount = |amount: &Value| amount.as_f64().map(|amount| format!("{amount:.2}"));
    match command {
        ReportCommand::TopSelling(args) => args.output.list(
            &store.top_sellers(args.months).await?,
            &none_text("top seller", "top_selling"),
            |row| {
                columns! {
                    "month": month(row), "rank": row["rank"], "sku": row["sku"], "name": row["name"],
                    "sold": row["quantity_sold"], "amount": amount(&row["amount_sold"]),
                }
            },
        ),
        ReportCommand::BusinessHealth(args) => args.output.list(
            &store.business_health(args.months).await?,
            &none_text("month", "business_health"),
            |row| {
                columns! {
                    "month": month(row), "revenue": amount(&row["total_revenue"]),
                    "cost of goods": amount(&row["total_cost_of_goods_sold"]),
                    "shipping": amount(&row["total_shipping_costs"]), "profit": amount(&row["total_profit"]),
                    "stock at start": amount(&row["total_value_of_inventory_month_start"]),
                    "at end": amount(&row["total_value_of_inventory_month_end"]),
                    "listings": row["total_number_of_new_listings_added"].as_f64(),
                }
            },
        ),
        ReportCommand::WorkQueue { limit, output } => output.list(
            &store.work_queue_list(limit).await?,
            "the work queue was not read yet; run: tallyd job run work_queue",
            |row| {
                columns! {
                    "observed": time_cell(row["observed_at"].as_str()),
                    "unshipped": row["unshipped_sales_orders"],
                    "ready to ship": row["paid_ready_to_ship_sales_orders"],
                    "in process": row["paid_in_process_sales_orders"],
                    "awaiting payment": row["awaiting_payment_sales_orders"],
                    "low stock": row["low_inventory_products"],
                }
            },
        ),
    }
}
