//! `tracking`: queues tracking numbers of shipments.

use crate::cli::change::{self, ChangeKeyArgs, CliChange};
use crate::cli::context::CliContext;
use crate::cli::{CommandFailure, CommandOutput, csv};
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};
use std::path::PathBuf;

/// Tracking numbers of shipments.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
    /// Tell the tracking number of a shipment, or numbers of its lines
    Submit(TrackingSubmitArgs),
    /// Numbers of a CSV file with a column shipment_id or shipment_key, and tracking_number
    ///
    /// Optional columns: line_item_id (then the number is that line's alone), carrier_id, tracking_url, shipped_date,
    /// estimated_delivery_date, key. The same file again changes nothing; a file of the same name with other content
    /// is all new changes, unless a column `key` names them.
    Import(TrackingImportArgs),
}

/// One shipment.
#[derive(Debug, Args)]
pub(in crate::cli) struct TrackingSubmitArgs {
    /// The shipment's id at the platform; lines are then items of the shipment
    #[arg(
        long,
        value_name = "ID",
        required_unless_present = "shipment_key",
        conflicts_with = "shipment_key"
    )]
    shipment: Option<i64>,
    /// The key of the change that makes the shipment; lines are then lines of the order
    #[arg(long, value_name = "KEY")]
    shipment_key: Option<String>,
    /// The number of every line that has none of its own
    #[arg(long)]
    number: Option<String>,
    /// The account's carrier; without it marketplaces are not told who carries
    #[arg(long, value_name = "ID")]
    carrier: Option<i64>,
    /// Where to follow it
    #[arg(long)]
    url: Option<String>,
    /// When it was handed over: a date or date-time [default: the platform's now]
    #[arg(long, value_name = "DATE")]
    shipped: Option<String>,
    /// Only this line (may be repeated), with a number of its own or the one of --number
    #[arg(long, value_name = "ID[=NUMBER]", value_parser = parse_tracking_line)]
    line: Vec<TrackingLineArg>,
    #[command(flatten)]
    key: ChangeKeyArgs,
}

/// A CSV file.
#[derive(Debug, Args)]
pub(in crate::cli) struct TrackingImportArgs {
    /// The file; its first line names the columns
    #[arg(value_name = "FILE.csv")]
    file: PathBuf,
    /// Take the good lines of a file that has bad ones
    #[arg(long)]
    partial: bool,
}

/// A line with its own tracking number, if given.
#[derive(Clone, Debug)]
struct TrackingLineArg {
    id: i64,
    number: Option<String>,
}

fn parse_tracking_line(text: &str) -> Result<TrackingLineArg, String> {
    let (id, number) = text.split_once('=').map_or((text, None), |(id, number)| (id, Some(number)));
    let id = id.trim().parse().map_err(|_| format!("`{id}` is no line's id"))?;
    Ok(TrackingLineArg { id, number: number.map(str::to_owned) })
}

const TRACKING_COLUMNS: csv::CsvColumns = csv::CsvColumns {
    required: &["tracking_number"],
    optional: &[
        "shipment_id",
        "shipment_key",
        "line_item_id",
        "carrier_id",
        "tracking_url",
        "shipped_date",
        "estimated_delivery_date",
        "key",
    ],
};

pub(in crate::cli) async fn tracking_command(
    context: &CliContext,
    command: Command,
) -> Result<CommandOutput, CommandFailure> {
    match command {
        Command::Submit(submit) => {
            let body = submit.change_body();
            let change = CliChange::from_operator(context, "tracking.submit", body, submit.key);
            change::insert_changes(context, &[change], &[]).await
        }
        Command::Import(import) => {
            let (changes, notes) =
                csv::import_file(&import.file, &TRACKING_COLUMNS, import.partial, change_from_row)?;
            change::insert_changes(context, &changes, &notes).await
        }
    }
}

impl TrackingSubmitArgs {
    fn change_body(&self) -> Value {
        let mut body = Map::new();
        put_field(&mut body, "shipment_id", self.shipment);
        put_field(&mut body, "shipment_key", self.shipment_key.as_deref());
        put_field(&mut body, "tracking_number", self.number.as_deref());
        put_field(&mut body, "carrier_id", self.carrier);
        put_field(&mut body, "tracking_url", self.url.as_deref());
        put_field(&mut body, "shipped_date", self.shipped.as_deref());
        let line = |line: &TrackingLineArg| {
            let mut entry = Map::new();
            put_field(&mut entry, "line_item_id", Some(line.id));
            put_field(&mut entry, "tracking_number", line.number.as_deref());
            Value::Object(entry)
        };
        let lines: Vec<Value> = self.line.iter().map(line).collect();
        put_field(&mut body, "lines", (!lines.is_empty()).then_some(lines));
        Value::Object(body)
    }
}

fn change_from_row(line: &csv::CsvRow) -> Result<CliChange, String> {
    let mut body = Map::new();
    for column in ["shipment_id", "carrier_id"] {
        put_field(&mut body, column, line.get(column).map(|_| line.whole_number(column)).transpose()?);
    }
    for column in
        ["shipment_key", "tracking_number", "tracking_url", "shipped_date", "estimated_delivery_date"]
    {
        put_field(&mut body, column, line.get(column));
    }
    if line.get("line_item_id").is_some() {
        put_field(&mut body, "lines", Some(json!([{"line_item_id": line.whole_number("line_item_id")?}])));
    }
    CliChange::from_csv_row(line, "tracking.submit", Value::Object(body))
}

/// Sets a field if it has a value.
fn put_field(body: &mut Map<String, Value>, name: &str, value: Option<impl Into<Value>>) {
    body.extend(value.map(|value| (name.to_owned(), value.into())));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_an_id_with_or_without_a_number() {
        let cases = [("7=A=1", Some((7, Some("A=1".to_owned())))), ("7", Some((7, None))), ("x=1", None)];
        for (text, expected) in cases {
            assert_eq!(parse_tracking_line(text).ok().map(|line| (line.id, line.number)), expected, "{text}");
        }
    }
}
