//! `product`: products looked up at the platform, and the components of kits.
//!
//! `find` calls the platform, through the daemon if one runs. If the platform does not answer, `find` reports
//! that and shows the mirror. `components` reads the mirror first and calls the platform only for kits the
//! mirror does not have.

use super::create::{self, FromFile};
use crate::cli::context::Place;
use crate::cli::output::{Table, complain, dash, json, plain};
use crate::cli::{Answer, Failure, Reading};
use crate::client::wire::ProductKey;
use crate::daemon::{self, AskError};
use crate::store::{ComponentRow, ProductRow, Store};
use clap::{Args, Subcommand};
use std::sync::Arc;

/// Products at the service.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
    /// Look products up by SKU or UPC; asks the service
    Find(Find),
    /// Show what a kit is made of
    Components(Components),
    /// A wish to create a product
    Create(FromFile),
    /// A wish to update a product; its quantities are filled in from facts just read
    Update(FromFile),
}

/// Which products.
#[derive(Debug, Args)]
pub(in crate::cli) struct Find {
    /// By these SKUs
    #[arg(value_name = "SKU", required_unless_present = "upc", conflicts_with = "upc")]
    skus: Vec<String>,
    /// By these UPCs
    #[arg(long, value_name = "UPC", num_args = 1..)]
    upc: Vec<String>,
    #[command(flatten)]
    reading: Reading,
}

/// Which kit.
#[derive(Debug, Args)]
pub(in crate::cli) struct Components {
    /// The kit's SKU
    sku: String,
    #[command(flatten)]
    reading: Reading,
}

impl From<AskError> for Failure {
    fn from(error: AskError) -> Self {
        match error {
            AskError::Start(error) => error.into(),
            AskError::Job(_) | AskError::Daemon(_) | AskError::Silent => Self::failed(error.to_string()),
        }
    }
}

pub(in crate::cli) async fn product(place: &Place, command: Command) -> Result<Answer, Failure> {
    match command {
        Command::Find(args) => find(place, &args).await,
        Command::Components(args) => components(place, &args).await,
        Command::Create(args) => create::product(place, "product.create", args).await,
        Command::Update(args) => create::product(place, "product.update", args).await,
    }
}

async fn find(place: &Place, args: &Find) -> Result<Answer, Failure> {
    let (by, ids) =
        if args.upc.is_empty() { (ProductKey::Sku, &args.skus) } else { (ProductKey::Upc, &args.upc) };
    let asked = daemon::find_products(place.config()?, Arc::new(place.clock()), by, ids).await;
    let store = place.store().await?;
    let rows = match asked {
        Ok(found) => store.product_list(&found).await?,
        Err(error @ AskError::Silent) => {
            complain(&format!("tallyd: {}; this is what the mirror knows", plain(&error.to_string())));
            match by {
                ProductKey::Sku => store.product_list(ids).await?,
                ProductKey::Upc => store.product_list_by_upc(ids).await?,
            }
        }
        Err(error) => return Err(error.into()),
    };
    if args.reading.json {
        return Ok(json(&rows).into());
    }
    let mut text = products_text(&rows);
    let is_there = |id: &String| rows.iter().any(|row| row.answers_to(id));
    for id in ids.iter().filter(|id| !is_there(id)) {
        text.push_str(&format!("not found: {}\n", plain(id)));
    }
    Ok(text.into())
}

fn products_text(rows: &[ProductRow]) -> String {
    let mut table = Table::new(&["sku", "product", "upc", "type", "quantity", "warehouses", "observed"]);
    for row in rows {
        let cells: Vec<String> =
            row.warehouses.iter().map(|cell| format!("{}: {}", cell.warehouse_id, cell.quantity)).collect();
        let cells = [
            row.sku.clone(),
            dash(row.product_id),
            dash(row.upc.as_ref()),
            dash(row.kind.as_ref()),
            dash(row.quantity),
            cells.join(", "),
            dash(row.observed_at.as_ref()),
        ];
        table.row(cells);
    }
    table.render("no product was found")
}

async fn components(place: &Place, args: &Components) -> Result<Answer, Failure> {
    let known = match place.config()?.database.path.exists() {
        true => known_components(&place.store().await?, &args.sku).await?,
        false => Vec::new(),
    };
    let rows = if known.is_empty() { ask_components(place, &args.sku).await? } else { known };
    if args.reading.json {
        return Ok(json(&rows).into());
    }
    let mut table = Table::new(&["component", "sku", "name", "product", "per kit", "observed"]);
    for row in rows {
        let cells = [
            row.component_id.to_string(),
            dash(row.sku),
            dash(row.name),
            dash(row.product_id),
            row.quantity.to_string(),
            row.observed_at,
        ];
        table.row(cells);
    }
    Ok(table.render("the service names no components of this kit").into())
}

async fn known_components(store: &Store, sku: &str) -> Result<Vec<ComponentRow>, Failure> {
    match store.product_id_of(sku).await? {
        Some(kit) => Ok(store.kit_components(kit).await?),
        None => Ok(Vec::new()),
    }
}

async fn ask_components(place: &Place, sku: &str) -> Result<Vec<ComponentRow>, Failure> {
    let kit = daemon::read_components(place.config()?, Arc::new(place.clock()), sku).await?;
    Ok(place.store().await?.kit_components(kit).await?)
}
