//! `product create|update`, `warehouse create`, `template create`: changes with the platform's own body.

use crate::cli::change::{self, ChangeKeyArgs, CliChange};
use crate::cli::context::CliContext;
use crate::cli::{CommandFailure, CommandOutput};
use crate::outbox;
use clap::Args;
use serde_json::{Value, json};
use std::io::Read;
use std::path::{Path, PathBuf};

/// A body in a file.
#[derive(Debug, Args)]
pub(in crate::cli) struct BodyFileArgs {
    /// A JSON file with the platform's own body; `-` reads standard input
    #[arg(value_name = "FILE.json")]
    file: PathBuf,
    #[command(flatten)]
    key: ChangeKeyArgs,
}

/// A warehouse to be made.
#[derive(Debug, Args)]
pub(in crate::cli) struct WarehouseCreateArgs {
    /// Its name, 1 to 100 characters
    #[arg(long)]
    name: String,
    /// Standard, Dropship or FulfillmentCenter
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
    /// Its account number, at most 255 characters
    #[arg(long)]
    account_number: Option<String>,
    /// A note
    #[arg(long)]
    note: Option<String>,
    /// A JSON file with its ContactInformation
    #[arg(long, value_name = "FILE.json")]
    contact: Option<PathBuf>,
    #[command(flatten)]
    key: ChangeKeyArgs,
}

/// A listing template to be made.
#[derive(Debug, Args)]
pub(in crate::cli) struct TemplateCreateArgs {
    /// The storefront's id
    #[arg(long, value_name = "ID")]
    storefront: i64,
    /// Its name
    #[arg(long)]
    name: String,
    /// A file with its body, which may hold markup; `-` reads standard input
    #[arg(long, value_name = "FILE")]
    body_file: PathBuf,
    #[command(flatten)]
    key: ChangeKeyArgs,
}

/// Queues `product.create` or `product.update`.
pub(super) async fn queue_product_change(
    context: &CliContext,
    kind: &'static str,
    args: BodyFileArgs,
) -> Result<CommandOutput, CommandFailure> {
    let body = read_text_file(&args.file)?;
    change::insert_changes(context, &[CliChange::from_operator(context, kind, body, args.key)], &[]).await
}

/// Queues `warehouse.create`.
pub(super) async fn queue_warehouse_create(
    context: &CliContext,
    args: WarehouseCreateArgs,
) -> Result<CommandOutput, CommandFailure> {
    let mut body = json!({"Name": args.name});
    for (field, value) in [("Type", args.kind), ("AccountNumber", args.account_number), ("Note", args.note)] {
        if let Some(value) = value {
            body[field] = value.into();
        }
    }
    if let Some(file) = args.contact {
        body["ContactInformation"] = read_json_file(&file)?;
    }
    change::insert_changes(
        context,
        &[CliChange::from_operator(context, "warehouse.create", body, args.key)],
        &[],
    )
    .await
}

/// Queues `listing_template.create`.
pub(super) async fn queue_template_create(
    context: &CliContext,
    args: TemplateCreateArgs,
) -> Result<CommandOutput, CommandFailure> {
    let body =
        json!({"StorefrontId": args.storefront, "Name": args.name, "Body": read_text_file(&args.body_file)?});
    change::insert_changes(
        context,
        &[CliChange::from_operator(context, "listing_template.create", body, args.key)],
        &[],
    )
    .await
}

fn read_json_file(file: &Path) -> Result<Value, CommandFailure> {
    let text = read_text_file(file)?;
    outbox::parse_unique_json(&text)
        .map_err(|error| CommandFailure::usage(format!("{} is no JSON: {error}", file.display())))
}

fn read_text_file(file: &Path) -> Result<String, CommandFailure> {
    let read = if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(file)
    };
    read.map_err(|error| CommandFailure::failed(format!("cannot read {}: {error}", file.display())))
}
