//! `sku`: the tracked SKUs. They are named by people and programs, because the interface has no product list.

use crate::cli::context::Place;
use crate::cli::output::{Listing, Table};
use crate::cli::{Answer, Failure, Reading, csv};
use crate::model::Sku;
use crate::store::Durability;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Which SKUs are tracked.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
    /// Track SKUs
    Add(Named),
    /// Track the SKUs of a CSV file with a column `sku`
    Import(Import),
    /// List the tracked SKUs
    List(Reading),
    /// Stop tracking SKUs; what is learnt later does not bring them back
    Remove(Named),
}

/// SKUs by name.
#[derive(Debug, Args)]
pub(in crate::cli) struct Named {
    /// The SKUs, spelled as the service spells them
    #[arg(required = true, value_name = "SKU")]
    skus: Vec<String>,
}

/// A CSV file.
#[derive(Debug, Args)]
pub(in crate::cli) struct Import {
    /// The file; its first line names the columns
    #[arg(value_name = "FILE.csv")]
    file: PathBuf,
    /// Take the good lines of a file that has bad ones
    #[arg(long)]
    partial: bool,
}

const COLUMNS: csv::Columns = csv::Columns { required: &["sku"], optional: &[] };

pub(in crate::cli) async fn sku(place: &Place, command: Command) -> Result<Answer, Failure> {
    match command {
        Command::Add(named) => add(place, &parse(&named.skus)?, &[]).await,
        Command::Import(import) => {
            let read = |line: &csv::Line| Sku::new(line.need("sku")?).map_err(|error| error.to_string());
            let (skus, notes) = csv::import(&import.file, &COLUMNS, import.partial, read)?;
            add(place, &skus, &notes).await
        }
        Command::List(reading) => list(place, reading).await,
        Command::Remove(named) => remove(place, &parse(&named.skus)?).await,
    }
}

fn parse(texts: &[String]) -> Result<Vec<Sku>, Failure> {
    let parse =
        |text: &String| Sku::new(text.as_str()).map_err(|error| Failure::usage(format!("`{text}`: {error}")));
    texts.iter().map(parse).collect()
}

async fn add(place: &Place, skus: &[Sku], notes: &[String]) -> Result<Answer, Failure> {
    let store = place.store_or_new().await?;
    let mut write = store.begin(Durability::Full).await?;
    let new = write.tracked_sku_add(skus).await?;
    write.commit().await?;
    let known = skus.len() as u64 - new;
    let mut text = format!("{new} SKU(s) tracked from now on, {known} were tracked before\n");
    csv::tell(&mut text, notes);
    Ok(text.into())
}

async fn list(place: &Place, reading: Reading) -> Result<Answer, Failure> {
    let mut listing = Listing::new(reading.json);
    let print = |rows: Vec<(String, String)>| {
        let told = |(sku, origin): &(String, String)| serde_json::json!({"sku": sku, "origin": origin});
        let values: Vec<_> =
            if reading.json { rows.iter().map(told).collect() } else { vec![().into(); rows.len()] };
        listing.print(&values, || table(rows))
    };
    place.store().await?.tracked_sku_each(print).await?;
    Ok(listing.end("no SKU is tracked; begin with: tallyd sku add SKU…").into())
}

fn table(rows: Vec<(String, String)>) -> Table {
    let mut table = Table::new(&["sku", "origin"]);
    for (sku, origin) in rows {
        table.row([sku, origin]);
    }
    table
}

async fn remove(place: &Place, skus: &[Sku]) -> Result<Answer, Failure> {
    let store = place.store().await?;
    let mut write = store.begin(Durability::Full).await?;
    let removed = write.tracked_sku_remove(skus).await?;
    write.commit().await?;
    Ok(format!("{removed} SKU(s) no longer tracked\n").into())
}
