//! `template`: the storefronts' listing templates, from the mirror.

use super::create::{self, TemplateCreateArgs};
use crate::cli::context::CliContext;
use crate::cli::output::{TextTable, or_dash, pretty_json};
use crate::cli::{CommandFailure, CommandOutput, OutputArgs};
use crate::model::StorefrontId;
use clap::{Args, Subcommand};

/// The storefronts' listing templates.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
    /// List them
    List(TemplateListArgs),
    /// A change to create one
    Create(TemplateCreateArgs),
}

/// Filter of the list of templates.
#[derive(Debug, Args)]
pub(in crate::cli) struct TemplateListArgs {
    /// Only those of this storefront
    #[arg(long, value_name = "ID")]
    storefront: Option<i64>,
    #[command(flatten)]
    output: OutputArgs,
}

pub(in crate::cli) async fn template_command(
    context: &CliContext,
    command: Command,
) -> Result<CommandOutput, CommandFailure> {
    match command {
        Command::List(args) => list_templates(context, &args).await,
        Command::Create(args) => create::queue_template_create(context, args).await,
    }
}

async fn list_templates(
    place: &CliContext,
    args: &TemplateListArgs,
) -> Result<CommandOutput, CommandFailure> {
    let rows = place.open_store().await?.template_list(args.storefront.map(StorefrontId)).await?;
    if args.output.json {
        return Ok(pretty_json(&rows).into());
    }
    let mut table = TextTable::new(&["template", "storefront", "name", "characters", "missing since"]);
    for row in rows {
        let levels = [
            row.id.to_string(),
            row.storefront_id.to_string(),
            or_dash(row.name),
            or_dash(row.body.map(|body| body.chars().count())),
            or_dash(row.missing_since),
        ];
        table.add_row(levels);
    }
    Ok(table.to_text("no listing template is known; let `storefronts` and `listing_templates` run").into())
}
