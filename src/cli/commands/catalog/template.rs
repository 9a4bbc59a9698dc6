//! `template`: the storefronts' listing templates, from the mirror.

use super::create::{self, NewTemplate};
use crate::cli::context::Place;
use crate::cli::output::{Table, dash, json};
use crate::cli::{Answer, Failure, Reading};
use crate::model::StorefrontId;
use clap::{Args, Subcommand};

/// The storefronts' listing templates.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
    /// List them
    List(List),
    /// A wish to create one
    Create(NewTemplate),
}

/// Which templates.
#[derive(Debug, Args)]
pub(in crate::cli) struct List {
    /// Only those of this storefront
    #[arg(long, value_name = "ID")]
    storefront: Option<i64>,
    #[command(flatten)]
    reading: Reading,
}

pub(in crate::cli) async fn template(place: &Place, command: Command) -> Result<Answer, Failure> {
    match command {
        Command::List(args) => list(place, &args).await,
        Command::Create(args) => create::template(place, args).await,
    }
}

async fn list(place: &Place, args: &List) -> Result<Answer, Failure> {
    let rows = place.store().await?.template_list(args.storefront.map(StorefrontId)).await?;
    if args.reading.json {
        return Ok(json(&rows).into());
    }
    let mut table = Table::new(&["template", "storefront", "name", "characters", "missing since"]);
    for row in rows {
        let cells = [
            row.id.to_string(),
            row.storefront_id.to_string(),
            dash(row.name),
            dash(row.body.map(|body| body.chars().count())),
            dash(row.missing_since),
        ];
        table.row(cells);
    }
    Ok(table.render("no listing template is known; let `storefronts` and `listing_templates` run").into())
}
