//! `template`: the storefronts' listing templates, from the mirror.

use super::create::{self, TemplateCreateArgs};
use crate::cli::context::CliContext;
use crate::cli::output::or_dash;
use crate::cli::{CommandResult, OutputArgs};
use crate::model::StorefrontId;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
    /// List listing templates
    List {
        /// Show only templates of this storefront
        #[arg(long, value_name = "ID")]
        storefront: Option<i64>,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Queue the creation of a listing template
    Create(TemplateCreateArgs),
}

pub(in crate::cli) async fn template_command(context: &CliContext, command: Command) -> CommandResult {
    match command {
        Command::List { storefront, output } => {
            list_templates(context, storefront.map(StorefrontId), output).await
        }
        Command::Create(args) => create::queue_template_create(context, args).await,
    }
}

async fn list_templates(
    context: &CliContext,
    storefront: Option<StorefrontId>,
    output: OutputArgs,
) -> CommandResult {
    output.list(
        context.open_store().await?.template_list(storefront).await?,
        "no listing template is known yet; run `tallyd job run storefronts`, then `tallyd job run listing_templates`",
        ["template", "storefront", "name", "characters", "missing since"],
        |row| {
            [
                row.id.to_string(),
                row.storefront_id.to_string(),
                or_dash(row.name),
                or_dash(row.body.map(|body| body.chars().count())),
                or_dash(row.missing_since),
            ]
        },
    )
}
