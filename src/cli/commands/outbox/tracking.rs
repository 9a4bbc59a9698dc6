//! `tracking`: queues tracking numbers of shipments.

use crate::cli::change::{self, ChangeKeyArgs, CliChange, queue_change};
use crate::cli::context::CliContext;
use crate::cli::{CommandResult, csv};
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
    /// Queue the tracking number of a shipment, or numbers of its lines
    Submit(TrackingSubmitArgs),
    /// Queue tracking numbers from a CSV file with the column tracking_number, and shipment_id or shipment_key
    ///
    /// Optional columns: line_item_id (the number applies to that line only), carrier_id, tracking_url, shipped_date,
    /// estimated_delivery_date, key. Importing an unchanged file again has no effect. A changed file of the same name
    /// gives new changes for all lines, unless a column `key` names them.
    Import(csv::CsvImportArgs),
}

#[derive(Debug, Args)]
pub(in crate::cli) struct TrackingSubmitArgs {
    /// Shipment id at the platform; --line then names items of the shipment
    #[arg(
        long,
        value_name = "ID",
        required_unless_present = "shipment_key",
        conflicts_with = "shipment_key"
    )]
    shipment: Option<i64>,
    /// Key of the change that creates the shipment; --line then names lines of the order
    #[arg(long, value_name = "KEY")]
    shipment_key: Option<String>,
    /// Tracking number of every line without its own number
    #[arg(long)]
    number: Option<String>,
    /// Carrier id of the account; without it the platform does not report a carrier to marketplaces
    #[arg(long, value_name = "ID")]
    carrier: Option<i64>,
    /// URL of the carrier's tracking page
    #[arg(long)]
    url: Option<String>,
    /// Time of the handover to the carrier, a date or date-time [default: the platform's current time]
    #[arg(long, value_name = "DATE")]
    shipped: Option<String>,
    /// Submit only this line (may be repeated), with its own number or that of --number
    #[arg(long, value_name = "ID[=NUMBER]", value_parser = parse_tracking_line)]
    line: Vec<TrackingLineArg>,
    #[command(flatten)]
    key: ChangeKeyArgs,
}

/// A line with its own tracking number, if given.
#[derive(Clone, Debug)]
struct TrackingLineArg {
    id: i64,
    number: Option<String>,
}

fn parse_tracking_line(text: &str) -> Result<TrackingLineArg, String> {
    let (id, number) = text.split_once('=').map_or((text, None), |(id, number)| (id, Some(number)));
    let id = id.trim().parse().map_err(|_| format!("`{id}` is not a line id"))?;
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

pub(in crate::cli) async fn tracking_command(context: &CliContext, command: Command) -> CommandResult {
    match command {
        Command::Submit(args) => queue_change(context, "tracking.submit", args.change_body(), args.key).await,
        Command::Import(args) => {
            let (changes, notes) = csv::import_file(&args, &TRACKING_COLUMNS, change_from_row)?;
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
