//! `sku`: the tracked SKUs. They are named by people and programs, because the interface has no product list.

use crate::cli::context::CliContext;
use crate::cli::output::{StreamedList, TextTable};
use crate::cli::{CommandFailure, CommandOutput, OutputArgs, csv};
use crate::model::Sku;
use crate::store::Durability;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Subcommands of `sku`.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
    /// Track SKUs
    Add(SkuArgs),
    /// Track the SKUs of a CSV file with a column `sku`
    Import(SkuImportArgs),
    /// List the tracked SKUs
    List(OutputArgs),
    /// Stop tracking SKUs; what is learnt later does not bring them back
    Remove(SkuArgs),
}

/// SKUs by name.
#[derive(Debug, Args)]
pub(in crate::cli) struct SkuArgs {
    /// The SKUs, spelled as the platform spells them
    #[arg(required = true, value_name = "SKU")]
    skus: Vec<String>,
}

/// A CSV file.
#[derive(Debug, Args)]
pub(in crate::cli) struct SkuImportArgs {
    /// The file; its first line names the columns
    #[arg(value_name = "FILE.csv")]
    file: PathBuf,
    /// Take the good lines of a file that has bad ones
    #[arg(long)]
    partial: bool,
}

const SKU_COLUMNS: csv::CsvColumns = csv::CsvColumns { required: &["sku"], optional: &[] };

pub(in crate::cli) async fn sku_command(
    context: &CliContext,
    command: Command,
) -> Result<CommandOutput, CommandFailure> {
    match command {
        Command::Add(named) => add_skus(context, &parse_skus(&named.skus)?, &[]).await,
        Command::Import(import) => {
            let read =
                |line: &csv::CsvRow| Sku::new(line.required_value("sku")?).map_err(|error| error.to_string());
            let (skus, notes) = csv::import_file(&import.file, &SKU_COLUMNS, import.partial, read)?;
            add_skus(context, &skus, &notes).await
        }
        Command::List(reading) => list_skus(context, reading).await,
        Command::Remove(named) => remove_skus(context, &parse_skus(&named.skus)?).await,
    }
}

fn parse_skus(texts: &[String]) -> Result<Vec<Sku>, CommandFailure> {
    let parse = |text: &String| {
        Sku::new(text.as_str()).map_err(|error| CommandFailure::usage(format!("`{text}`: {error}")))
    };
    texts.iter().map(parse).collect()
}

async fn add_skus(
    place: &CliContext,
    skus: &[Sku],
    notes: &[String],
) -> Result<CommandOutput, CommandFailure> {
    let store = place.open_or_create_store().await?;
    let mut write = store.begin_write(Durability::Full).await?;
    let new = write.tracked_sku_add(skus).await?;
    write.commit().await?;
    let known = skus.len() as u64 - new;
    let mut text = format!("{new} SKU(s) tracked from now on, {known} were tracked before\n");
    csv::append_notes(&mut text, notes);
    Ok(text.into())
}

async fn list_skus(context: &CliContext, reading: OutputArgs) -> Result<CommandOutput, CommandFailure> {
    let mut listing = StreamedList::new(reading.json);
    let print = |rows: Vec<(String, String)>| {
        let detail = |(sku, origin): &(String, String)| serde_json::json!({"sku": sku, "origin": origin});
        let values: Vec<_> =
            if reading.json { rows.iter().map(detail).collect() } else { vec![().into(); rows.len()] };
        listing.print_rows(&values, || sku_table(rows))
    };
    context.open_store().await?.tracked_sku_each(print).await?;
    Ok(listing.closing_text("no SKU is tracked; begin with: tallyd sku add SKU…").into())
}

fn sku_table(rows: Vec<(String, String)>) -> TextTable {
    let mut table = TextTable::new(&["sku", "origin"]);
    for (sku, origin) in rows {
        table.add_row([sku, origin]);
    }
    table
}

async fn remove_skus(context: &CliContext, skus: &[Sku]) -> Result<CommandOutput, CommandFailure> {
    let store = context.open_store().await?;
    let mut write = store.begin_write(Durability::Full).await?;
    let removed = write.tracked_sku_remove(skus).await?;
    write.commit().await?;
    Ok(format!("{removed} SKU(s) no longer tracked\n").into())
}
