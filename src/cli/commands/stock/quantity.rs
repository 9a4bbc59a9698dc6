//! `quantity`: queues changes of stock in the outbox; the daemon delivers them.

use crate::cli::change::{
    ChangeArgs, ChangeToQueue, FileChangeArgs, UnknownArgs, WarehouseNames, change_from_csv, queue_change,
    queue_file, sum_counts, without_nulls,
};
use crate::cli::context::CliContext;
use crate::cli::local_time::{parse_time, require_date};
use crate::cli::{CommandFailure, CommandResult, csv};
use crate::model::Timestamp;
use clap::{Args, Subcommand};
use serde_json::json;

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
    /// Queue a count: set a stock level to the counted quantity
    ///
    /// Units that others sold since the count are subtracted again (policy `merge`), because the count is measured
    /// against the quantity that `stock` showed at that time.
    Set(QuantitySetArgs),
    /// Queue an adjustment: add or subtract units
    Adjust {
        #[command(flatten)]
        level: StockLevelArgs,
        /// Units added (+) or removed (-)
        #[arg(allow_hyphen_values = true)]
        delta: i64,
        #[command(flatten)]
        unknown: UnknownArgs,
        #[command(flatten)]
        change: ChangeArgs,
    },
    /// Queue counts or adjustments from a CSV file with the columns sku, warehouse_id and quantity or delta
    ///
    /// A warehouse is named by its number or its name. Lines of kits are left out, with a note. Optional columns: seen,
    /// counted_at, key. A file with lines that an earlier one brought is refused, unless an option says what is meant. A
    /// line with a `key` is known by it.
    Import {
        #[command(flatten)]
        args: FileChangeArgs,
        /// Add the counts of one stock level, as of several shelves
        #[arg(long)]
        sum: bool,
        #[command(flatten)]
        unknown: UnknownArgs,
    },
}

#[derive(Debug, Args)]
pub(in crate::cli) struct StockLevelArgs {
    /// SKU
    sku: String,
    /// Warehouse: its number at the platform, or its name
    warehouse: String,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct QuantitySetArgs {
    #[command(flatten)]
    level: StockLevelArgs,
    /// Counted quantity, in units
    #[arg(allow_negative_numbers = true, value_parser = parse_count)]
    quantity: i64,
    /// Quantity that `stock` showed at the count [default: the current one]
    #[arg(long, allow_negative_numbers = true)]
    seen: Option<i64>,
    /// Time of the count, such as 08:40, "2026-11-22 05:30" or a time with a zone; units sold since then are
    /// subtracted [default: now]
    #[arg(long, value_name = "TIME")]
    counted_at: Option<String>,
    #[command(flatten)]
    unknown: UnknownArgs,
    #[command(flatten)]
    change: ChangeArgs,
}

const QUANTITY_COLUMNS: csv::CsvColumns = csv::CsvColumns {
    required: &["sku", "warehouse_id"],
    optional: &["quantity", "delta", "seen", "counted_at", "key"],
};

fn parse_count(text: &str) -> Result<i64, String> {
    check_count(text.parse().map_err(|_| format!("`{text}` is not a whole number"))?)
}

/// Refuses a count below zero in words, because a shelf cannot hold it.
fn check_count(quantity: i64) -> Result<i64, String> {
    match quantity {
        0.. => Ok(quantity),
        below => Err(format!(
            "a count cannot be below zero; to remove units, run `tallyd quantity adjust SKU WAREHOUSE {below}`"
        )),
    }
}

pub(in crate::cli) async fn quantity_command(context: &CliContext, command: Command) -> CommandResult {
    match command {
        Command::Set(args) => {
            let counted_at = args.counted_at.as_deref().map(|text| parse_time(text, context.now()));
            let counted_at = counted_at.transpose().map_err(CommandFailure::usage)?;
            let body = json!({
                "sku": args.level.sku, "warehouse_id": warehouse_id(context, &args.level.warehouse).await?,
                "quantity": args.quantity, "seen": args.seen, "counted_at": counted_at.map(Timestamp::to_rfc3339),
            });
            queue_change(context, "quantity.set", without_nulls(body), args.change, args.unknown).await
        }
        Command::Adjust { level, delta, unknown, change } => {
            let warehouse = warehouse_id(context, &level.warehouse).await?;
            let body = json!({"sku": level.sku, "warehouse_id": warehouse, "delta": delta});
            queue_change(context, "quantity.adjust", body, change, unknown).await
        }
        Command::Import { args, sum, unknown } => {
            let (warehouses, now) = (WarehouseNames::load(context).await?, context.now());
            let read = |line: &csv::CsvRow| change_from_row(line, &warehouses, now);
            let changes = csv::import_file(&args.file, &QUANTITY_COLUMNS, read)?;
            let changes = if sum { sum_counts(changes) } else { changes };
            queue_file(context, changes, &args, unknown).await
        }
    }
}

async fn warehouse_id(context: &CliContext, text: &str) -> Result<i64, CommandFailure> {
    WarehouseNames::load(context).await?.id_of(text).map_err(CommandFailure::usage)
}

fn change_from_row(
    line: &csv::CsvRow,
    warehouses: &WarehouseNames,
    now: Timestamp,
) -> Result<ChangeToQueue, String> {
    let (sku, warehouse) =
        (line.required_value("sku")?, warehouses.id_of(line.required_value("warehouse_id")?)?);
    let (quantity, delta) = (line.optional_number("quantity")?, line.optional_number("delta")?);
    let kind = match (quantity, delta) {
        (Some(quantity), None) => check_count(quantity).map(|_| "quantity.set")?,
        (None, Some(_)) => "quantity.adjust",
        _ => return Err("exactly one of `quantity` and `delta` must have a value".into()),
    };
    let mut body = json!({"sku": sku, "warehouse_id": warehouse, "quantity": quantity, "delta": delta});
    if quantity.is_some() {
        let counted_at =
            line.get("counted_at")?.map(|text| parse_time(require_date(text)?, now)).transpose()?;
        body["seen"] = line.optional_number("seen")?.into();
        body["counted_at"] = counted_at.map(Timestamp::to_rfc3339).into();
    }
    change_from_csv(line, kind, without_nulls(body))
}
