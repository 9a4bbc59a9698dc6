//! `product`: products found at the platform, and the components of kits.
//!
//! `find` calls the platform, through the daemon if one runs. `components` reads the mirror first and calls the
//! platform only for kits the mirror does not have.

use super::create::{self, BodyFileArgs};
use crate::cli::context::CliContext;
use crate::cli::output::{columns, plain_line, table_text};
use crate::cli::{CommandResult, OutputArgs};
use crate::daemon::ControlRequest;
use crate::model::case_key;
use crate::present::listing::time_cell;
use crate::store::{Store, StoreError};
use clap::{Args, Subcommand};
use serde_json::Value;

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
    /// Find products at the platform by SKU or UPC
    Find(ProductFindArgs),
    /// Show the components of a kit
    Components {
        /// SKU of the kit
        sku: String,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Queue the creation of a product
    Create(BodyFileArgs),
    /// Queue an update of a product; its quantities are taken from a fresh read
    Update(BodyFileArgs),
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ProductFindArgs {
    /// SKUs of the products
    #[arg(value_name = "SKU", required_unless_present = "upc", conflicts_with = "upc")]
    skus: Vec<String>,
    /// UPCs of the products
    #[arg(long, value_name = "UPC", num_args = 1..)]
    upc: Vec<String>,
    #[command(flatten)]
    output: OutputArgs,
}

pub(in crate::cli) async fn product_command(context: &CliContext, command: Command) -> CommandResult {
    match command {
        Command::Find(args) => find_products(context, &args).await,
        Command::Components { sku, output } => show_components(context, &sku, output).await,
        Command::Create(args) => create::queue_product_change(context, "product.create", args).await,
        Command::Update(args) => create::queue_product_change(context, "product.update", args).await,
    }
}

async fn find_products(context: &CliContext, args: &ProductFindArgs) -> CommandResult {
    let by_upc = !args.upc.is_empty();
    let ids = if by_upc { &args.upc } else { &args.skus };
    let request = ControlRequest::FindProducts { by_upc, ids: ids.clone() };
    let found: Vec<String> = context.ask_daemon(&request).await??;
    let rows = context.open_store().await?.product_list(&found).await?;
    Ok(args.output.render(|| &rows, || products_text(&rows, ids)).into())
}

fn products_text(rows: &[Value], ids: &[String]) -> String {
    let columns = |row: &Value| {
        let levels = row["warehouses"].as_array().into_iter().flatten();
        let levels = levels.map(|level| format!("{}: {}", level["warehouse_id"], level["quantity"]));
        let levels = levels.collect::<Vec<_>>().join(", ");
        columns! {
            "sku": row["sku"], "product": row["product_id"], "upc": row["upc"], "type": row["type"],
            "quantity": row["quantity"], "warehouses": levels,
            "observed": time_cell(row["observed_at"].as_str()),
        }
    };
    let mut text = table_text(rows.iter().map(columns), "no product found");
    let is_named_by = |row: &Value, id: &str| {
        row["sku"].as_str().is_some_and(|sku| case_key(sku) == case_key(id))
            || row["upc"].as_str().is_some_and(|upc| upc.trim() == id.trim())
    };
    let is_found = |id: &String| rows.iter().any(|row| is_named_by(row, id));
    for id in ids.iter().filter(|id| !is_found(id)) {
        text.push_str(&format!("not found: {}\n", plain_line(id)));
    }
    text
}

async fn show_components(context: &CliContext, sku: &str, output: OutputArgs) -> CommandResult {
    let mut rows = Vec::new();
    let known = match Store::open_beside(context.readable_config()?.database.location()?).await {
        Err(StoreError::Missing { .. }) => None,
        store => Some(store?),
    };
    if let Some(store) = known
        && let Some(kit) = store.product_id_by_sku(sku).await?
    {
        rows = store.kit_components(kit).await?;
    }
    if rows.is_empty() {
        let request = ControlRequest::Components { sku: sku.to_owned() };
        let kit = context.ask_daemon(&request).await??;
        rows = context.open_store().await?.kit_components(kit).await?;
    }
    output.list(&rows, "the platform returned no components of this kit", |row| {
        columns! {
            "component": row["component_id"], "sku": row["sku"], "name": row["name"], "product": row["product_id"],
            "per kit": row["quantity"].as_f64(), "observed": time_cell(row["observed_at"].as_str()),
        }
    })
}
