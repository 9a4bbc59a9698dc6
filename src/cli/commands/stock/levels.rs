//! `stock`: quantities per warehouse, pending changes, and the age of the facts.

use crate::cli::context::Place;
use crate::cli::output::{Listing, Table, age, dash};
use crate::cli::{Answer, Failure, Reading};
use crate::model::{Clock, Timestamp};
use crate::store::StockRow;
use clap::Args;

/// Quantities per warehouse.
#[derive(Debug, Args)]
pub(in crate::cli) struct Stock {
    /// Only these SKUs
    #[arg(value_name = "SKU")]
    skus: Vec<String>,
    #[command(flatten)]
    reading: Reading,
}

pub(in crate::cli) async fn stock(place: &Place, args: Stock) -> Result<Answer, Failure> {
    let (store, now) = (place.store().await?, place.clock().now());
    let mut listing = Listing::new(args.reading.json);
    store.stock_each(&args.skus, |rows| listing.print(&rows, || table(&rows, now))).await?;
    Ok(listing.end("no stock is known yet; track SKUs and let `balances` run").into())
}

fn table(rows: &[StockRow], now: Timestamp) -> Table {
    let mut table = Table::new(&["sku", "warehouse", "name", "quantity", "pending", "age"]);
    for row in rows {
        let observed = row.observed_at.as_deref().and_then(Timestamp::parse);
        let seconds = observed.map(|at| i64::try_from(now.since(at).as_secs()).unwrap_or(i64::MAX));
        let cells = [
            row.sku.clone(),
            row.warehouse_id.to_string(),
            dash(row.warehouse_name.as_ref()),
            row.quantity.to_string(),
            dash(row.pending_quantity),
            dash(seconds.map(age)),
        ];
        table.row(cells);
    }
    table
}
