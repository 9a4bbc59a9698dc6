//! `stock`: quantities per warehouse, pending changes, and the age of the facts.

use crate::cli::context::CliContext;
use crate::cli::output::{StreamedList, TextTable, format_age, or_dash};
use crate::cli::{CommandFailure, CommandOutput, OutputArgs};
use crate::model::{Clock, Timestamp};
use crate::store::StockRow;
use clap::Args;

/// Quantities per warehouse.
#[derive(Debug, Args)]
pub(in crate::cli) struct StockArgs {
    /// Only these SKUs
    #[arg(value_name = "SKU")]
    skus: Vec<String>,
    #[command(flatten)]
    output: OutputArgs,
}

pub(in crate::cli) async fn stock_command(
    place: &CliContext,
    args: StockArgs,
) -> Result<CommandOutput, CommandFailure> {
    let (store, now) = (place.open_store().await?, place.clock().now());
    let mut listing = StreamedList::new(args.output.json);
    store.stock_each(&args.skus, |rows| listing.print_rows(&rows, || stock_table(&rows, now))).await?;
    Ok(listing.closing_text("no stock is known yet; track SKUs and let `balances` run").into())
}

fn stock_table(rows: &[StockRow], now: Timestamp) -> TextTable {
    let mut table = TextTable::new(&["sku", "warehouse", "name", "quantity", "pending", "age"]);
    for row in rows {
        let observed = row.observed_at.as_deref().and_then(Timestamp::parse);
        let seconds = observed.map(|at| i64::try_from(now.duration_since(at).as_secs()).unwrap_or(i64::MAX));
        let levels = [
            row.sku.clone(),
            row.warehouse_id.to_string(),
            or_dash(row.warehouse_name.as_ref()),
            row.quantity.to_string(),
            or_dash(row.pending_quantity),
            or_dash(seconds.map(format_age)),
        ];
        table.add_row(levels);
    }
    table
}
