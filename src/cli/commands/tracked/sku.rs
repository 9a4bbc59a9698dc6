//! `sku`: the tracked SKUs. They are named by people and programs, because the interface has no product list.

use crate::cli::context::{CliContext, write_and_commit};
use crate::cli::output::{StreamedList, TextTable, cells};
use crate::cli::{CommandFailure, CommandResult, OutputArgs, csv};
use crate::model::Sku;
use clap::{Args, Subcommand};
use serde_json::json;

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
    /// Track SKUs
    Add(SkuArgs),
    /// Track the SKUs of a CSV file with a column `sku`
    Import(csv::CsvImportArgs),
    /// List the tracked SKUs
    List(OutputArgs),
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
        Command::Add(args) => add_skus(context, &parse_skus(&args.skus)?, &[]).await,
        Command::Import(args) => {
            let read =
                |line: &csv::CsvRow| Sku::new(line.required_value("sku")?).map_err(|error| error.to_string());
            let (skus, notes) = csv::import_file(&args, &SKU_COLUMNS, read)?;
            add_skus(context, &skus, &notes).await
        }
        Command::List(output) => list_skus(context, output).await,
        Command::Remove(args) => {
            let (skus, store) = (parse_skus(&args.skus)?, context.open_store().await?);
            let removed =
                write_and_commit(&store, async |write| write.tracked_sku_remove(&skus).await).await?;
            Ok(format!("{removed} SKU(s) no longer tracked\n").into())
        }
    }
}

fn parse_skus(texts: &[String]) -> Result<Vec<Sku>, CommandFailure> {
    let parse = |text: &String| {
        Sku::new(text.as_str()).map_err(|error| CommandFailure::usage(format!("`{text}`: {error}")))
    };
    texts.iter().map(parse).collect()
}

async fn add_skus(context: &CliContext, skus: &[Sku], notes: &[String]) -> CommandResult {
    let store = context.open_or_create_store().await?;
    let new = write_and_commit(&store, async |write| write.tracked_sku_add(skus).await).await?;
    let known = skus.len() as u64 - new;
    let mut text = format!("{new} SKU(s) newly tracked, {known} already tracked\n");
    csv::append_notes(&mut text, notes);
    Ok(text.into())
}

async fn list_skus(context: &CliContext, output: OutputArgs) -> CommandResult {
    let mut listing = StreamedList::new(output.json);
    let print = |rows: Vec<(String, String)>| {
        let rows: Vec<_> = rows.iter().map(|(sku, origin)| json!({"sku": sku, "origin": origin})).collect();
        listing.print_rows(&rows, || {
            TextTable::new(["sku", "origin"], rows.iter().map(|row| cells![row["sku"], row["origin"]]))
        })
    };
    context.open_store().await?.tracked_sku_each(print).await?;
    Ok(listing.closing_text("no SKU is tracked; run: tallyd sku add SKU…").into())
}
