//! `tracking`: queues tracking numbers of shipments.

use crate::cli::change::{self, Key, Wish};
use crate::cli::context::Place;
use crate::cli::{Answer, Failure, csv};
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};
use std::path::PathBuf;

/// Tracking numbers of shipments.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
    /// Tell the tracking number of a shipment, or numbers of its lines
    Submit(Submit),
    /// Numbers of a CSV file with a column shipment_id or shipment_key, and tracking_number
    ///
    /// Optional columns: line_item_id (then the number is that line's alone), carrier_id, tracking_url, shipped_date,
    /// estimated_delivery_date, key. The same file again changes nothing; a file of the same name with other content
    /// is all new wishes, unless a column `key` names them.
    Import(Import),
}

/// One shipment.
#[derive(Debug, Args)]
pub(in crate::cli) struct Submit {
    /// The shipment's id at the service; lines are then items of the shipment
    #[arg(
        long,
        value_name = "ID",
        required_unless_present = "shipment_key",
        conflicts_with = "shipment_key"
    )]
    shipment: Option<i64>,
    /// The key of the wish that makes the shipment; lines are then lines of the order
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
    /// When it was handed over: a date or date-time [default: the service's now]
    #[arg(long, value_name = "DATE")]
    shipped: Option<String>,
    /// Only this line (may be repeated), with a number of its own or the one of --number
    #[arg(long, value_name = "ID[=NUMBER]", value_parser = line)]
    line: Vec<Line>,
    #[command(flatten)]
    key: Key,
}

/// A CSV file.
#[derive(Debug, Args)]
pub(in crate::cli) struct Import {
    /// The file; its first line names the columns
    #[arg(value_name = "FILE.csv")]
    file: PathBuf,
    /// Take the good lines of a file that has bad ones
    #[arg(long)]
    partial: bool,
}

/// A line with its own tracking number, if given.
#[derive(Clone, Debug)]
struct Line {
    id: i64,
    number: Option<String>,
}

fn line(text: &str) -> Result<Line, String> {
    let (id, number) = text.split_once('=').map_or((text, None), |(id, number)| (id, Some(number)));
    let id = id.trim().parse().map_err(|_| format!("`{id}` is no line's id"))?;
    Ok(Line { id, number: number.map(str::to_owned) })
}

const COLUMNS: csv::Columns = csv::Columns {
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

pub(in crate::cli) async fn tracking(place: &Place, command: Command) -> Result<Answer, Failure> {
    match command {
        Command::Submit(submit) => {
            let body = submit.body();
            let wish = Wish::single(place, "tracking.submit", body, submit.key);
            change::insert(place, &[wish], &[]).await
        }
        Command::Import(import) => {
            let (wishes, notes) = csv::import(&import.file, &COLUMNS, import.partial, imported)?;
            change::insert(place, &wishes, &notes).await
        }
    }
}

impl Submit {
    fn body(&self) -> Value {
        let mut body = Map::new();
        put(&mut body, "shipment_id", self.shipment);
        put(&mut body, "shipment_key", self.shipment_key.as_deref());
        put(&mut body, "tracking_number", self.number.as_deref());
        put(&mut body, "carrier_id", self.carrier);
        put(&mut body, "tracking_url", self.url.as_deref());
        put(&mut body, "shipped_date", self.shipped.as_deref());
        let line = |line: &Line| {
            let mut entry = Map::new();
            put(&mut entry, "line_item_id", Some(line.id));
            put(&mut entry, "tracking_number", line.number.as_deref());
            Value::Object(entry)
        };
        let lines: Vec<Value> = self.line.iter().map(line).collect();
        put(&mut body, "lines", (!lines.is_empty()).then_some(lines));
        Value::Object(body)
    }
}

fn imported(line: &csv::Line) -> Result<Wish, String> {
    let mut body = Map::new();
    for column in ["shipment_id", "carrier_id"] {
        put(&mut body, column, line.get(column).map(|_| line.number(column)).transpose()?);
    }
    for column in
        ["shipment_key", "tracking_number", "tracking_url", "shipped_date", "estimated_delivery_date"]
    {
        put(&mut body, column, line.get(column));
    }
    if line.get("line_item_id").is_some() {
        put(&mut body, "lines", Some(json!([{"line_item_id": line.number("line_item_id")?}])));
    }
    Wish::imported(line, "tracking.submit", Value::Object(body))
}

/// Sets a field if it has a value.
fn put(body: &mut Map<String, Value>, name: &str, value: Option<impl Into<Value>>) {
    body.extend(value.map(|value| (name.to_owned(), value.into())));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_an_id_with_or_without_a_number() {
        let cases = [("7=A=1", Some((7, Some("A=1".to_owned())))), ("7", Some((7, None))), ("x=1", None)];
        for (text, expected) in cases {
            assert_eq!(line(text).ok().map(|line| (line.id, line.number)), expected, "{text}");
        }
    }
}
