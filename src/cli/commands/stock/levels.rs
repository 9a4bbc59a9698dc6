//! `stock`: quantities per warehouse, pending changes, and the age of the facts.

use crate::cli::context::CliContext;
use crate::cli::local_time::local_sentence;
use crate::cli::output::{StreamedList, columns, plain_line, print_error};
use crate::cli::{CommandOutput, CommandResult, OutputArgs};
use crate::explain::{ExplainError, ExplainedSku};
use crate::model::Timestamp;
use crate::present::ViewError;
use crate::present::listing::{ListColumns, age_cell};
use crate::store::StockRow;
use clap::Args;

#[derive(Debug, Args)]
pub(in crate::cli) struct StockArgs {
    /// Show only these SKUs, in the platform's spelling or in one that differs in case only
    #[arg(value_name = "SKU")]
    skus: Vec<String>,
    #[command(flatten)]
    output: OutputArgs,
}

pub(in crate::cli) async fn stock_command(context: &CliContext, args: StockArgs) -> CommandResult {
    let (store, now) = (context.open_store().await?, context.now());
    let mut listing = StreamedList::new(args.output.json);
    let (mut skus, mut unknown) = (Vec::new(), Vec::new());
    for name in &args.skus {
        let found = match ExplainedSku::find(&store, name, None).await {
            Ok(found) => found,
            Err(ExplainError::NothingKnown(why)) => {
                unknown.push(local_sentence(why));
                continue;
            }
            Err(error) => return Err(ViewError::from(error).into()),
        };
        match store.stock_list(std::slice::from_ref(&found.sku)).await?.is_empty() {
            true => unknown.push(local_sentence(found.no_stock_text())),
            false => skus.push(found.sku),
        }
    }
    if args.skus.is_empty() || !skus.is_empty() {
        store.stock_each(&skus, |rows| listing.print_rows(&rows, |row| stock_columns(row, now))).await?;
    }
    unknown.iter().for_each(|why| print_error(&format!("tallyd: {}", plain_line(why))));
    let nothing = "no stock level is known yet; track SKUs, then run: tallyd job run balances";
    let nothing = if args.skus.is_empty() { nothing } else { "" };
    Ok(CommandOutput { text: listing.closing_text(nothing), exit_code: u8::from(!unknown.is_empty()) })
}

fn stock_columns(row: &StockRow, now: Timestamp) -> ListColumns {
    columns! {
        "sku": row.sku, "warehouse": row.warehouse_id, "name": row.warehouse_name,
        "quantity": row.quantity, "pending": row.pending_quantity,
        "age": age_cell(row.observed_at.as_deref(), now),
    }
}
