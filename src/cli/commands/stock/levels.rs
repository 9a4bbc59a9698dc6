//! `stock`: quantities per warehouse, pending changes, and the age of the facts.

use crate::cli::context::CliContext;
use crate::cli::output::{StreamedList, TextTable, cells};
use crate::cli::{CommandResult, OutputArgs};
use crate::model::{Timestamp, format_elapsed};
use crate::store::StockRow;
use clap::Args;

#[derive(Debug, Args)]
pub(in crate::cli) struct StockArgs {
    /// Show only these SKUs
    #[arg(value_name = "SKU")]
    skus: Vec<String>,
    #[command(flatten)]
    output: OutputArgs,
}

pub(in crate::cli) async fn stock_command(context: &CliContext, args: StockArgs) -> CommandResult {
    let (store, now) = (context.open_store().await?, context.now());
    let mut listing = StreamedList::new(args.output.json);
    store.stock_each(&args.skus, |rows| listing.print_rows(&rows, || stock_table(&rows, now))).await?;
    let nothing = "no stock level is known yet; track SKUs, then run: tallyd job run balances";
    Ok(listing.closing_text(nothing).into())
}

fn stock_table(rows: &[StockRow], now: Timestamp) -> TextTable {
    let columns = |row: &StockRow| {
        let observed = row.observed_at.as_deref().and_then(Timestamp::parse);
        let age = observed.map(|at| format_elapsed(now.duration_since(at)));
        let StockRow { sku, warehouse_id, warehouse_name, quantity, pending_quantity, .. } = row;
        cells![sku, warehouse_id, warehouse_name, quantity, pending_quantity, age]
    };
    TextTable::new(["sku", "warehouse", "name", "quantity", "pending", "age"], rows.iter().map(columns))
}
