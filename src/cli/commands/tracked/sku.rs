//! `sku`: the tracked SKUs. They are named by people and programs, because the interface has no product list.

use crate::cli::context::CliContext;
use crate::cli::output::{StreamedList, columns, decision_output};
use crate::cli::{CommandResult, OutputArgs, csv};
use crate::model::Sku;
use crate::present::ViewError;
use crate::present::listing::time_cell;
use crate::present::tracked::{parse_sku, track_skus, untrack_skus};
use clap::{Args, Subcommand};
use serde_json::json;

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
    /// Track SKUs
    Add(SkuArgs),
    /// Track the SKUs of a CSV file with a column `sku`
    Import(csv::CsvImportArgs),
    /// List the tracked SKUs, or those that the platform does not return
    List {
        /// List the SKUs that the platform does not return, with the time since which they are missing
        #[arg(long)]
        missing: bool,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Stop tracking SKUs; later answers do not add them again
    Remove(SkuArgs),
}

#[derive(Debug, Args)]
pub(in crate::cli) struct SkuArgs {
    /// SKUs in the platform's spelling
    #[arg(required = true, value_name = "SKU")]
    skus: Vec<String>,
}

const SKU_COLUMNS: csv::CsvColumns = csv::CsvColumns { required: &["sku"], optional: &[] };

pub(in crate::cli) async fn sku_command(context: &CliContext, command: Command) -> CommandResult {
    match command {
        Command::Add(args) => add_skus(context, &parse_skus(&args.skus)?).await,
        Command::Import(args) => {
            let read =
                |line: &csv::CsvRow| Sku::new(line.required_value("sku")?).map_err(|error| error.to_string());
            add_skus(context, &csv::import_file(&args, &SKU_COLUMNS, read)?).await
        }
        Command::List { missing: true, output } => list_missing_skus(context, output).await,
        Command::List { missing: false, output } => list_skus(context, output).await,
        Command::Remove(args) => {
            let (skus, store) = (parse_skus(&args.skus)?, context.open_store().await?);
            decision_output(untrack_skus(&store, &skus).await)
        }
    }
}

fn parse_skus(texts: &[String]) -> Result<Vec<Sku>, ViewError> {
    texts.iter().map(|text| parse_sku(text)).collect()
}

async fn add_skus(context: &CliContext, skus: &[Sku]) -> CommandResult {
    decision_output(track_skus(&context.open_or_create_store().await?, skus).await)
}

async fn list_skus(context: &CliContext, output: OutputArgs) -> CommandResult {
    let mut listing = StreamedList::new(output.json);
    let print = |rows: Vec<(String, String)>| {
        let rows: Vec<_> = rows.iter().map(|(sku, origin)| json!({"sku": sku, "origin": origin})).collect();
        listing.print_rows(&rows, |row| {
            // The code of the database is older than the term.
            let origin = row["origin"].as_str().unwrap_or_default().replace("learnt", "discovered");
            columns! {"sku": row["sku"], "origin": origin}
        })
    };
    context.open_store().await?.tracked_sku_each(print).await?;
    Ok(listing.closing_text("no SKU is tracked; run: tallyd sku add SKU…").into())
}

async fn list_missing_skus(context: &CliContext, output: OutputArgs) -> CommandResult {
    let rows = context.open_store().await?.missing_skus().await?;
    output.list(&rows, "no SKU is missing at the platform", |row| {
        columns! {
            "sku": row["sku"], "missing since": time_cell(row["missing_since"].as_str()),
            "tracked": row["is_tracked"],
        }
    })
}
