//! `template`: the storefronts' listing templates, from the mirror.

use super::create::{self, TemplateCreateArgs};
use crate::cli::context::CliContext;
use crate::cli::local_time::local_text;
use crate::cli::output::cells;
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
        Command::List { storefront, output } => output.list(
            &context.open_store().await?.template_list(storefront.map(StorefrontId)).await?,
            "no listing template is known yet; run `tallyd job run storefronts`, then `tallyd job run listing_templates`",
            ["template", "storefront", "name", "characters", "missing since"],
            |row| {
                let characters = row.body.as_ref().map(|body| body.chars().count());
                cells![row.id, row.storefront_id, row.name, characters, row.missing_since.as_ref().map(local_text)]
            },
        ),
        Command::Create(args) => create::queue_template_create(context, args).await,
    }
}
