//! `storefront`: the account's active storefronts, from the mirror.

use crate::cli::context::Place;
use crate::cli::output::{Table, dash, json, yes};
use crate::cli::{Answer, Failure, Reading};
use clap::Subcommand;

/// The company's storefronts.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
    /// List them
    List(Reading),
}

pub(in crate::cli) async fn storefront(place: &Place, command: Command) -> Result<Answer, Failure> {
    match command {
        Command::List(reading) => list(place, reading).await,
    }
}

async fn list(place: &Place, reading: Reading) -> Result<Answer, Failure> {
    let rows = place.store().await?.storefront_list().await?;
    if reading.json {
        return Ok(json(&rows).into());
    }
    let mut table = Table::new(&["storefront", "name", "type", "active", "missing since"]);
    for row in rows {
        let cells =
            [row.id.to_string(), dash(row.name), dash(row.kind), yes(row.is_active), dash(row.missing_since)];
        table.row(cells);
    }
    Ok(table.render("no storefront is known yet; let `storefronts` run").into())
}
