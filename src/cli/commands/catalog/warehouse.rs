//! `warehouse`: the account's warehouses, from the mirror.

use super::create::{self, NewWarehouse};
use crate::cli::context::Place;
use crate::cli::output::{Table, dash, json, yes};
use crate::cli::{Answer, Failure, Reading};
use clap::Subcommand;

/// The company's warehouses.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
    /// List them
    List(Reading),
    /// A wish to create one
    Create(NewWarehouse),
}

pub(in crate::cli) async fn warehouse(place: &Place, command: Command) -> Result<Answer, Failure> {
    match command {
        Command::List(reading) => list(place, reading).await,
        Command::Create(args) => create::warehouse(place, args).await,
    }
}

async fn list(place: &Place, reading: Reading) -> Result<Answer, Failure> {
    let rows = place.store().await?.warehouse_list().await?;
    if reading.json {
        return Ok(json(&rows).into());
    }
    let mut table = Table::new(&["warehouse", "name", "type", "active", "account", "missing since"]);
    for row in rows {
        let cells = [
            row.id.to_string(),
            row.name,
            dash(row.kind),
            yes(row.is_active),
            dash(row.account_number),
            dash(row.missing_since),
        ];
        table.row(cells);
    }
    Ok(table.render("no warehouse is known yet; let `warehouses` run").into())
}
