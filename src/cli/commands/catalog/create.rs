//! `product create|update`, `warehouse create`, `template create`: changes with the platform's own body.

use crate::cli::change::{self, Key, Wish};
use crate::cli::context::Place;
use crate::cli::{Answer, Failure};
use crate::outbox;
use clap::Args;
use serde_json::{Value, json};
use std::io::Read;
use std::path::{Path, PathBuf};

/// A body in a file.
#[derive(Debug, Args)]
pub(in crate::cli) struct FromFile {
    /// A JSON file with the service's own body; `-` reads standard input
    #[arg(value_name = "FILE.json")]
    file: PathBuf,
    #[command(flatten)]
    key: Key,
}

/// A warehouse to be made.
#[derive(Debug, Args)]
pub(in crate::cli) struct NewWarehouse {
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
    key: Key,
}

/// A listing template to be made.
#[derive(Debug, Args)]
pub(in crate::cli) struct NewTemplate {
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
    key: Key,
}

/// Queues `product.create` or `product.update`.
pub(super) async fn product(place: &Place, kind: &'static str, args: FromFile) -> Result<Answer, Failure> {
    let body = text_of(&args.file)?;
    change::insert(place, &[Wish::single(place, kind, body, args.key)], &[]).await
}

/// Queues `warehouse.create`.
pub(super) async fn warehouse(place: &Place, args: NewWarehouse) -> Result<Answer, Failure> {
    let mut body = json!({"Name": args.name});
    for (field, value) in [("Type", args.kind), ("AccountNumber", args.account_number), ("Note", args.note)] {
        if let Some(value) = value {
            body[field] = value.into();
        }
    }
    if let Some(file) = args.contact {
        body["ContactInformation"] = json_of(&file)?;
    }
    change::insert(place, &[Wish::single(place, "warehouse.create", body, args.key)], &[]).await
}

/// Queues `listing_template.create`.
pub(super) async fn template(place: &Place, args: NewTemplate) -> Result<Answer, Failure> {
    let body = json!({"StorefrontId": args.storefront, "Name": args.name, "Body": text_of(&args.body_file)?});
    change::insert(place, &[Wish::single(place, "listing_template.create", body, args.key)], &[]).await
}

fn json_of(file: &Path) -> Result<Value, Failure> {
    let text = text_of(file)?;
    outbox::read_json(&text)
        .map_err(|error| Failure::usage(format!("{} is no JSON: {error}", file.display())))
}

fn text_of(file: &Path) -> Result<String, Failure> {
    let read = if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(file)
    };
    read.map_err(|error| Failure::failed(format!("cannot read {}: {error}", file.display())))
}
