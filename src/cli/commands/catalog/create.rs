//! `product create|update`, `warehouse create`, `template create`: changes with the platform's own body.

use crate::cli::change::{ChangeArgs, UnknownArgs, queue_change, without_nulls};
use crate::cli::context::CliContext;
use crate::cli::{CommandFailure, CommandResult};
use crate::outbox;
use clap::Args;
use serde_json::json;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub(in crate::cli) struct BodyFileArgs {
    /// JSON file with the body in the platform's format; `-` reads standard input
    #[arg(value_name = "FILE.json")]
    file: PathBuf,
    #[command(flatten)]
    change: ChangeArgs,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct WarehouseCreateArgs {
    /// Name, 1 to 100 characters
    #[arg(long)]
    name: String,
    /// Type: Standard, Dropship or FulfillmentCenter
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
    /// Account number, at most 255 characters
    #[arg(long)]
    account_number: Option<String>,
    /// Note
    #[arg(long)]
    note: Option<String>,
    /// JSON file with the ContactInformation
    #[arg(long, value_name = "FILE.json")]
    contact: Option<PathBuf>,
    #[command(flatten)]
    change: ChangeArgs,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct TemplateCreateArgs {
    /// Storefront id
    #[arg(long, value_name = "ID")]
    storefront: i64,
    /// Name
    #[arg(long)]
    name: String,
    /// File with the template's body, which may contain markup; `-` reads standard input
    #[arg(long, value_name = "FILE")]
    body_file: PathBuf,
    #[command(flatten)]
    change: ChangeArgs,
}

pub(super) async fn queue_product_change(
    context: &CliContext,
    kind: &'static str,
    args: BodyFileArgs,
) -> CommandResult {
    queue_change(context, kind, read_text_file(&args.file)?, args.change, UnknownArgs::default()).await
}

pub(super) async fn queue_warehouse_create(context: &CliContext, args: WarehouseCreateArgs) -> CommandResult {
    let mut body = without_nulls(json!({
        "Name": args.name, "Type": args.kind, "AccountNumber": args.account_number, "Note": args.note,
    }));
    if let Some(file) = args.contact {
        body["ContactInformation"] = outbox::parse_unique_json(&read_text_file(&file)?).map_err(|error| {
            CommandFailure::usage(format!("{} is not valid JSON: {error}", file.display()))
        })?;
    }
    queue_change(context, "warehouse.create", body, args.change, UnknownArgs::default()).await
}

pub(super) async fn queue_template_create(context: &CliContext, args: TemplateCreateArgs) -> CommandResult {
    let body =
        json!({"StorefrontId": args.storefront, "Name": args.name, "Body": read_text_file(&args.body_file)?});
    queue_change(context, "listing_template.create", body, args.change, UnknownArgs::default()).await
}

fn read_text_file(file: &Path) -> Result<String, CommandFailure> {
    let text = match file.to_str() {
        Some("-") => std::io::read_to_string(std::io::stdin()),
        _ => std::fs::read_to_string(file),
    };
    text.map_err(CommandFailure::cannot(format!("read {}", file.display())))
}
