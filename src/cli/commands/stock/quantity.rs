//! `quantity`: queues changes of stock in the outbox; the daemon delivers them.

use crate::cli::change::{self, ChangeKeyArgs, change_from_csv_row, queue_change, without_nulls};
use crate::cli::context::CliContext;
use crate::cli::{CommandResult, csv};
use crate::present::queue::QueuedChange;
use clap::Subcommand;
use serde_json::json;

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
    /// Queue a count: set a stock level to the counted quantity
    ///
    /// Units that others sold since the count are subtracted again (policy `merge`), because the count is measured
    /// against the quantity that `stock` showed at that time.
    Set {
        /// SKU
        sku: String,
        /// Warehouse id at the platform
        warehouse: i64,
        /// Counted quantity, in units
        quantity: i64,
        /// Quantity that `stock` showed at the count [default: the current one]
        #[arg(long)]
        seen: Option<i64>,
        /// Time of the count, a date-time; units sold since then are subtracted [default: now]
        #[arg(long, value_name = "TIME")]
        counted_at: Option<String>,
        #[command(flatten)]
        key: ChangeKeyArgs,
    },
    /// Queue an adjustment: add or subtract units
    Adjust {
        /// SKU
        sku: String,
        /// Warehouse id at the platform
        warehouse: i64,
        /// Units added (+) or removed (-)
        #[arg(allow_hyphen_values = true)]
        delta: i64,
        #[command(flatten)]
        key: ChangeKeyArgs,
    },
    /// Queue counts or adjustments from a CSV file with the columns sku, warehouse_id and quantity or delta
    ///
    /// Optional columns: seen, counted_at, key. Importing an unchanged file again has no effect. A changed file of the
    /// same name gives new changes for all lines, unless a column `key` names them.
    Import(csv::CsvImportArgs),
}

const QUANTITY_COLUMNS: csv::CsvColumns = csv::CsvColumns {
    required: &["sku", "warehouse_id"],
    optional: &["quantity", "delta", "seen", "counted_at", "key"],
};

pub(in crate::cli) async fn quantity_command(context: &CliContext, command: Command) -> CommandResult {
    match command {
        Command::Set { sku, warehouse, quantity, seen, counted_at, key } => {
            let body = json!({
                "sku": sku, "warehouse_id": warehouse, "quantity": quantity, "seen": seen, "counted_at": counted_at,
            });
            queue_change(context, "quantity.set", without_nulls(body), key).await
        }
        Command::Adjust { sku, warehouse, delta, key } => {
            let body = json!({"sku": sku, "warehouse_id": warehouse, "delta": delta});
            queue_change(context, "quantity.adjust", body, key).await
        }
        Command::Import(args) => {
            let (changes, mut notes) = csv::import_file(&args, &QUANTITY_COLUMNS, change_from_row)?;
            notes.extend(change::repeated_import_warning(context, &changes).await?);
            change::insert_changes(context, &changes, &notes).await
        }
    }
}

fn change_from_row(line: &csv::CsvRow) -> Result<QueuedChange, String> {
    let (sku, warehouse) = (line.required_value("sku")?, line.whole_number("warehouse_id")?);
    let (quantity, delta) = (line.optional_number("quantity")?, line.optional_number("delta")?);
    let kind = match (quantity, delta) {
        (Some(_), None) => "quantity.set",
        (None, Some(_)) => "quantity.adjust",
        _ => return Err("exactly one of `quantity` and `delta` must have a value".into()),
    };
    let mut body = json!({"sku": sku, "warehouse_id": warehouse, "quantity": quantity, "delta": delta});
    if quantity.is_some() {
        body["seen"] = line.optional_number("seen")?.into();
        body["counted_at"] = line.get("counted_at").into();
    }
    change_from_csv_row(line, kind, without_nulls(body))
}
