//! `quarantine`: entries that fail alone and are retried by themselves, and an operator's retry after a
//! correction.

use crate::cli::context::Place;
use crate::cli::output::{Table, json, plain};
use crate::cli::{Answer, Failure, Reading};
use crate::model::{Clock, Timestamp};
use crate::store::{Durability, QuarantineRow};
use clap::{Args, Subcommand};
use std::collections::BTreeSet;

/// Entries that fail alone and are tried by themselves.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
    /// List what is set aside, with the service's words and the time of the next try
    List(Reading),
    /// Try what was corrected at the service now instead of at its time
    Retry(Retry),
}

/// Entries that are set aside.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(in crate::cli) struct Retry {
    /// SKUs, order ids and shipment ids, as the list has them
    #[arg(value_name = "ENTRY")]
    entries: Vec<String>,
    /// Everything that is set aside
    #[arg(long)]
    all: bool,
}

pub(in crate::cli) async fn quarantine(place: &Place, command: Command) -> Result<Answer, Failure> {
    match command {
        Command::List(reading) => list(place, reading).await,
        Command::Retry(args) => retry(place, args).await,
    }
}

async fn list(place: &Place, reading: Reading) -> Result<Answer, Failure> {
    let rows = place.store().await?.quarantine().await?;
    if reading.json {
        return Ok(json(&rows.iter().map(value).collect::<Vec<_>>()).into());
    }
    let mut table = Table::new(&["entry", "operation", "since", "failures", "next try", "why"]);
    for row in &rows {
        table.row([
            row.subject.clone(),
            row.operation.clone(),
            Timestamp(row.since_ms).rfc3339(),
            row.failures.to_string(),
            row.next_try().rfc3339(),
            row.why.clone(),
        ]);
    }
    Ok(table.render("nothing is set aside").into())
}

fn value(row: &QuarantineRow) -> serde_json::Value {
    serde_json::json!({
        "entry": row.subject, "operation": row.operation, "since": Timestamp(row.since_ms).rfc3339(),
        "failures": row.failures, "next_try": row.next_try().rfc3339(), "why": row.why,
    })
}

async fn retry(place: &Place, args: Retry) -> Result<Answer, Failure> {
    let store = place.store().await?;
    let entries: BTreeSet<String> = if args.all {
        store.quarantine().await?.into_iter().map(|row| row.subject).collect()
    } else {
        args.entries.into_iter().collect()
    };
    let mut answer = Answer::default();
    for entry in &entries {
        let mut write = store.begin(Durability::Full).await?;
        let is_aside = write.quarantine_retry(entry, place.clock().now()).await?;
        write.commit().await?;
        let said = if is_aside { "tried with the next run that needs it" } else { "not set aside" };
        answer.text.push_str(&format!("{}: {said}\n", plain(entry)));
        answer.code = answer.code.max(u8::from(!is_aside));
    }
    if entries.is_empty() {
        answer.text.push_str("nothing is set aside\n");
    }
    Ok(answer)
}
