//! `stock`: quantities per warehouse, what is pending, and how old the fact is.

use super::place::Place;
use super::print::{Table, age, dash, json};
use super::{Answer, Failure, Reading};
use crate::model::{Clock, Timestamp};
use clap::Args;

/// Quantities per warehouse.
#[derive(Debug, Args)]
pub(super) struct Stock {
    /// Only these SKUs
    #[arg(value_name = "SKU")]
    skus: Vec<String>,
    #[command(flatten)]
    reading: Reading,
}

pub(super) async fn stock(place: &Place, args: Stock) -> Result<Answer, Failure> {
    let rows = place.store().await?.stock(&args.skus).await?;
    if args.reading.json {
        return Ok(json(&rows).into());
    }
    let now = place.clock().now();
    let mut table = Table::new(&["sku", "warehouse", "name", "quantity", "pending", "age"]);
    for row in rows {
        let observed = row.observed_at.as_deref().and_then(Timestamp::parse);
        let seconds = observed.map(|at| i64::try_from(now.since(at).as_secs()).unwrap_or(i64::MAX));
        let cells = [
            row.sku,
            row.warehouse_id.to_string(),
            dash(row.warehouse_name),
            row.quantity.to_string(),
            dash(row.pending_quantity),
            dash(seconds.map(age)),
        ];
        table.row(cells);
    }
    Ok(table.render("no stock is known yet; track SKUs and let `balances` run").into())
}
