//! `quantity`: queues changes of stock in the outbox; the daemon delivers them.

use crate::cli::change::{self, ChangeKeyArgs, CliChange};
use crate::cli::context::CliContext;
use crate::cli::{CommandFailure, CommandOutput, csv};
use clap::{Args, Subcommand};
use serde_json::json;
use std::path::PathBuf;

/// Changes for stock.
///
/// A quantity means what the platform's QuantityOnHand means: what is on the shelf, less what is sold and not yet
/// picked.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
    /// A count: this many are there
    ///
    /// What others sold since is subtracted again (policy `merge`): what counts is the difference to what the stock
    /// view showed.
    Set(QuantitySetArgs),
    /// So many came or went
    Adjust(QuantityAdjustArgs),
    /// Counts or adjustments of a CSV file with the columns sku, warehouse_id and quantity or delta
    ///
    /// Optional columns: seen, counted_at, key. The same file again changes nothing; a file of the same name with
    /// other content is all new changes, unless a column `key` names them.
    Import(QuantityImportArgs),
}

/// A count.
#[derive(Debug, Args)]
pub(in crate::cli) struct QuantitySetArgs {
    /// The SKU
    sku: String,
    /// The warehouse's id at the platform
    warehouse: i64,
    /// What was counted
    quantity: i64,
    /// What the stock view showed when it was counted [default: what it shows now]
    #[arg(long)]
    seen: Option<i64>,
    /// When it was counted, a date-time: what was sold since then is subtracted [default: now]
    #[arg(long, value_name = "TIME")]
    counted_at: Option<String>,
    #[command(flatten)]
    key: ChangeKeyArgs,
}

/// A difference.
#[derive(Debug, Args)]
pub(in crate::cli) struct QuantityAdjustArgs {
    /// The SKU
    sku: String,
    /// The warehouse's id at the platform
    warehouse: i64,
    /// Units that came (+) or went (-)
    #[arg(allow_hyphen_values = true)]
    delta: i64,
    #[command(flatten)]
    key: ChangeKeyArgs,
}

/// A CSV file.
#[derive(Debug, Args)]
pub(in crate::cli) struct QuantityImportArgs {
    /// The file; its first line names the columns
    #[arg(value_name = "FILE.csv")]
    file: PathBuf,
    /// Take the good lines of a file that has bad ones
    #[arg(long)]
    partial: bool,
}

const QUANTITY_COLUMNS: csv::CsvColumns = csv::CsvColumns {
    required: &["sku", "warehouse_id"],
    optional: &["quantity", "delta", "seen", "counted_at", "key"],
};

pub(in crate::cli) async fn quantity_command(
    context: &CliContext,
    command: Command,
) -> Result<CommandOutput, CommandFailure> {
    let (changes, mut notes) = match command {
        Command::Set(set) => {
            let mut body = json!({"sku": set.sku, "warehouse_id": set.warehouse, "quantity": set.quantity});
            if let Some(seen) = set.seen {
                body["seen"] = seen.into();
            }
            if let Some(at) = set.counted_at {
                body["counted_at"] = at.into();
            }
            (vec![CliChange::from_operator(context, "quantity.set", body, set.key)], Vec::new())
        }
        Command::Adjust(adjust) => {
            let body = json!({"sku": adjust.sku, "warehouse_id": adjust.warehouse, "delta": adjust.delta});
            (vec![CliChange::from_operator(context, "quantity.adjust", body, adjust.key)], Vec::new())
        }
        Command::Import(import) => {
            csv::import_file(&import.file, &QUANTITY_COLUMNS, import.partial, change_from_row)?
        }
    };
    notes.extend(change::repeated_import_warning(context, &changes).await?);
    change::insert_changes(context, &changes, &notes).await
}

fn change_from_row(line: &csv::CsvRow) -> Result<CliChange, String> {
    let mut body =
        json!({"sku": line.required_value("sku")?, "warehouse_id": line.whole_number("warehouse_id")?});
    let kind = match (line.get("quantity"), line.get("delta")) {
        (Some(_), None) => {
            body["quantity"] = line.whole_number("quantity")?.into();
            if line.get("seen").is_some() {
                body["seen"] = line.whole_number("seen")?.into();
            }
            if let Some(at) = line.get("counted_at") {
                body["counted_at"] = at.into();
            }
            "quantity.set"
        }
        (None, Some(_)) => {
            body["delta"] = line.whole_number("delta")?.into();
            "quantity.adjust"
        }
        _ => return Err("exactly one of `quantity` and `delta` must be filled in".into()),
    };
    CliChange::from_csv_row(line, kind, body)
}
