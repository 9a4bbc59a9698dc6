//! `product`: products looked up at the platform, and the components of kits.
//!
//! `find` calls the platform, through the daemon if one runs. If the platform does not answer, `find` reports
//! that and shows the mirror. `components` reads the mirror first and calls the platform only for kits the
//! mirror does not have.

use super::create::{self, BodyFileArgs};
use crate::cli::context::CliContext;
use crate::cli::output::{TextTable, or_dash, plain_line, pretty_json, print_error};
use crate::cli::{CommandFailure, CommandOutput, OutputArgs};
use crate::client::wire::ProductKey;
use crate::daemon::{self, ControlError};
use crate::store::{ComponentRow, ProductRow, Store};
use clap::{Args, Subcommand};
use std::sync::Arc;

/// Products at the platform.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
    /// Look products up by SKU or UPC; asks the platform
    Find(ProductFindArgs),
    /// Show what a kit is made of
    Components(KitComponentsArgs),
    /// A change to create a product
    Create(BodyFileArgs),
    /// A change to update a product; its quantities are filled in from facts just read
    Update(BodyFileArgs),
}

/// Filter of the list of products.
#[derive(Debug, Args)]
pub(in crate::cli) struct ProductFindArgs {
    /// By these SKUs
    #[arg(value_name = "SKU", required_unless_present = "upc", conflicts_with = "upc")]
    skus: Vec<String>,
    /// By these UPCs
    #[arg(long, value_name = "UPC", num_args = 1..)]
    upc: Vec<String>,
    #[command(flatten)]
    output: OutputArgs,
}

/// Kit to read.
#[derive(Debug, Args)]
pub(in crate::cli) struct KitComponentsArgs {
    /// The kit's SKU
    sku: String,
    #[command(flatten)]
    output: OutputArgs,
}

impl From<ControlError> for CommandFailure {
    fn from(error: ControlError) -> Self {
        match error {
            ControlError::Start(error) => error.into(),
            ControlError::Job(_) | ControlError::Daemon(_) | ControlError::ReplyTimeout => {
                Self::failed(error.to_string())
            }
        }
    }
}

pub(in crate::cli) async fn product_command(
    context: &CliContext,
    command: Command,
) -> Result<CommandOutput, CommandFailure> {
    match command {
        Command::Find(args) => find_products(context, &args).await,
        Command::Components(args) => show_components(context, &args).await,
        Command::Create(args) => create::queue_product_change(context, "product.create", args).await,
        Command::Update(args) => create::queue_product_change(context, "product.update", args).await,
    }
}

async fn find_products(
    context: &CliContext,
    args: &ProductFindArgs,
) -> Result<CommandOutput, CommandFailure> {
    let (by, ids) =
        if args.upc.is_empty() { (ProductKey::Sku, &args.skus) } else { (ProductKey::Upc, &args.upc) };
    let asked = daemon::find_products(context.config()?, Arc::new(context.clock()), by, ids).await;
    let store = context.open_store().await?;
    let rows = match asked {
        Ok(found) => store.product_list(&found).await?,
        Err(error @ ControlError::ReplyTimeout) => {
            print_error(&format!(
                "tallyd: {}; this is what the mirror knows",
                plain_line(&error.to_string())
            ));
            match by {
                ProductKey::Sku => store.product_list(ids).await?,
                ProductKey::Upc => store.product_list_by_upc(ids).await?,
            }
        }
        Err(error) => return Err(error.into()),
    };
    if args.output.json {
        return Ok(pretty_json(&rows).into());
    }
    let mut text = products_text(&rows);
    let is_there = |id: &String| rows.iter().any(|row| row.is_named_by(id));
    for id in ids.iter().filter(|id| !is_there(id)) {
        text.push_str(&format!("not found: {}\n", plain_line(id)));
    }
    Ok(text.into())
}

fn products_text(rows: &[ProductRow]) -> String {
    let mut table = TextTable::new(&["sku", "product", "upc", "type", "quantity", "warehouses", "observed"]);
    for row in rows {
        let levels: Vec<String> = row
            .warehouses
            .iter()
            .map(|level| format!("{}: {}", level.warehouse_id, level.quantity))
            .collect();
        let levels = [
            row.sku.clone(),
            or_dash(row.product_id),
            or_dash(row.upc.as_ref()),
            or_dash(row.kind.as_ref()),
            or_dash(row.quantity),
            levels.join(", "),
            or_dash(row.observed_at.as_ref()),
        ];
        table.add_row(levels);
    }
    table.to_text("no product was found")
}

async fn show_components(
    context: &CliContext,
    args: &KitComponentsArgs,
) -> Result<CommandOutput, CommandFailure> {
    let known = match context.config()?.database.path.exists() {
        true => components_in_mirror(&context.open_store().await?, &args.sku).await?,
        false => Vec::new(),
    };
    let rows = if known.is_empty() { components_from_platform(context, &args.sku).await? } else { known };
    if args.output.json {
        return Ok(pretty_json(&rows).into());
    }
    let mut table = TextTable::new(&["component", "sku", "name", "product", "per kit", "observed"]);
    for row in rows {
        let levels = [
            row.component_id.to_string(),
            or_dash(row.sku),
            or_dash(row.name),
            or_dash(row.product_id),
            row.quantity.to_string(),
            row.observed_at,
        ];
        table.add_row(levels);
    }
    Ok(table.to_text("the platform names no components of this kit").into())
}

async fn components_in_mirror(store: &Store, sku: &str) -> Result<Vec<ComponentRow>, CommandFailure> {
    match store.product_id_by_sku(sku).await? {
        Some(kit) => Ok(store.kit_components(kit).await?),
        None => Ok(Vec::new()),
    }
}

async fn components_from_platform(
    place: &CliContext,
    sku: &str,
) -> Result<Vec<ComponentRow>, CommandFailure> {
    let kit = daemon::read_components(place.config()?, Arc::new(place.clock()), sku).await?;
    Ok(place.open_store().await?.kit_components(kit).await?)
}
