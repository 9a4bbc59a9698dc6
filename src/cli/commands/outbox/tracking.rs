//! `tracking`: queues tracking numbers of shipments.

use super::ship::{lines_json, parse_line};
use crate::cli::change::{
    ChangeArgs, ChangeToQueue, FileChangeArgs, UnknownArgs, change_from_csv, queue_change, queue_file,
    without_nulls,
};
use crate::cli::context::CliContext;
use crate::cli::local_time::{parse_any_time, parse_time, platform_date, require_date};
use crate::cli::{CommandFailure, CommandResult, csv};
use crate::model::Timestamp;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
    /// Queue the tracking number of a shipment, or numbers of its lines
    Submit(TrackingSubmitArgs),
    /// Queue tracking numbers from a CSV file with the column tracking_number, and shipment_id or shipment_key
    ///
    /// Optional columns: line_item_id (the number applies to that line only), carrier_id, tracking_url, shipped_date,
    /// estimated_delivery_date, key. A file with lines that an earlier one brought is refused, unless an option says what
    /// is meant. A line with a `key` is known by it.
    Import {
        #[command(flatten)]
        args: FileChangeArgs,
    },
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
    /// Time of the handover to the carrier: a date, or a time as in `quantity set --counted-at` [default: the
    /// platform's current time]
    #[arg(long, value_name = "DATE")]
    shipped: Option<String>,
    /// Submit only this line (may be repeated), with its own number or that of --number
    #[arg(long, value_name = "ID[=NUMBER]", value_parser = parse_line::<String>)]
    line: Vec<(i64, Option<String>)>,
    #[command(flatten)]
    change: ChangeArgs,
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
        Command::Submit(args) => {
            let body = args.change_body(context.now()).map_err(CommandFailure::usage)?;
            queue_change(context, "tracking.submit", body, args.change, UnknownArgs::default()).await
        }
        Command::Import { args } => {
            let now = context.now();
            let changes = csv::import_file(&args.file, &TRACKING_COLUMNS, |line| change_from_row(line, now))?;
            queue_file(context, changes, &args, UnknownArgs::default()).await
        }
    }
}

impl TrackingSubmitArgs {
    fn change_body(&self, now: Timestamp) -> Result<Value, String> {
        let read = |text| parse_time(text, now).map(|at| platform_date(text, at));
        let shipped = self.shipped.as_deref().map(read).transpose()?;
        Ok(without_nulls(json!({
            "shipment_id": self.shipment, "shipment_key": self.shipment_key, "tracking_number": self.number,
            "carrier_id": self.carrier, "tracking_url": self.url, "shipped_date": shipped,
            "lines": lines_json(&self.line, "tracking_number"),
        })))
    }
}

fn change_from_row(line: &csv::CsvRow, now: Timestamp) -> Result<ChangeToQueue, String> {
    let date = |column, read: fn(&str, Timestamp) -> Result<Timestamp, String>| {
        let Some(text) = line.get(column)?.map(require_date).transpose()? else { return Ok(None) };
        read(text, now).map(|at| Some(platform_date(text, at)))
    };
    let (shipment, carrier) = (line.optional_number("shipment_id")?, line.optional_number("carrier_id")?);
    let item = line.optional_number("line_item_id")?;
    let body = json!({
        "shipment_id": shipment, "carrier_id": carrier, "shipment_key": line.get("shipment_key")?,
        "tracking_number": line.get("tracking_number")?, "tracking_url": line.get("tracking_url")?,
        "shipped_date": date("shipped_date", parse_time)?,
        "estimated_delivery_date": date("estimated_delivery_date", parse_any_time)?,
        "lines": item.map(|id| json!([{"line_item_id": id}])),
    });
    change_from_csv(line, "tracking.submit", without_nulls(body))
}
