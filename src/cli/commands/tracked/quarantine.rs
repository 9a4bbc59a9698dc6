//! `quarantine`: entries that fail alone and are retried by themselves, and an operator's retry after a
//! correction.

use crate::cli::context::CliContext;
use crate::cli::output::{TextTable, plain_line, pretty_json};
use crate::cli::{CommandFailure, CommandOutput, OutputArgs};
use crate::model::{Clock, Timestamp};
use crate::store::{Durability, QuarantineRow};
use clap::{Args, Subcommand};
use std::collections::BTreeSet;

/// Entries that fail alone and are tried by themselves.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
    /// List what is set aside, with the platform's words and the time of the next try
    List(OutputArgs),
    /// Try what was corrected at the platform now instead of at its time
    Retry(QuarantineRetryArgs),
}

/// Entries that are set aside.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(in crate::cli) struct QuarantineRetryArgs {
    /// SKUs, order ids and shipment ids, as the list has them
    #[arg(value_name = "ENTRY")]
    entries: Vec<String>,
    /// Everything that is set aside
    #[arg(long)]
    all: bool,
}

pub(in crate::cli) async fn quarantine_command(
    context: &CliContext,
    command: Command,
) -> Result<CommandOutput, CommandFailure> {
    match command {
        Command::List(reading) => list_quarantine(context, reading).await,
        Command::Retry(args) => retry_entries(context, args).await,
    }
}

async fn list_quarantine(context: &CliContext, reading: OutputArgs) -> Result<CommandOutput, CommandFailure> {
    let rows = context.open_store().await?.quarantine_list().await?;
    if reading.json {
        return Ok(pretty_json(&rows.iter().map(quarantine_json).collect::<Vec<_>>()).into());
    }
    let mut table = TextTable::new(&["entry", "operation", "since", "failures", "next try", "why"]);
    for row in &rows {
        table.add_row([
            row.subject.clone(),
            row.operation.clone(),
            Timestamp(row.since_ms).to_rfc3339(),
            row.failures.to_string(),
            row.next_try().to_rfc3339(),
            row.why.clone(),
        ]);
    }
    Ok(table.to_text("nothing is set aside").into())
}

fn quarantine_json(row: &QuarantineRow) -> serde_json::Value {
    serde_json::json!({
        "entry": row.subject, "operation": row.operation, "since": Timestamp(row.since_ms).to_rfc3339(),
        "failures": row.failures, "next_try": row.next_try().to_rfc3339(), "why": row.why,
    })
}

async fn retry_entries(
    place: &CliContext,
    args: QuarantineRetryArgs,
) -> Result<CommandOutput, CommandFailure> {
    let store = place.open_store().await?;
    let entries: BTreeSet<String> = if args.all {
        store.quarantine_list().await?.into_iter().map(|row| row.subject).collect()
    } else {
        args.entries.into_iter().collect()
    };
    let mut answer = CommandOutput::default();
    for entry in &entries {
        let mut write = store.begin_write(Durability::Full).await?;
        let is_aside = write.quarantine_retry(entry, place.clock().now()).await?;
        write.commit().await?;
        let reply = if is_aside { "tried with the next run that needs it" } else { "not set aside" };
        answer.text.push_str(&format!("{}: {reply}\n", plain_line(entry)));
        answer.exit_code = answer.exit_code.max(u8::from(!is_aside));
    }
    if entries.is_empty() {
        answer.text.push_str("nothing is set aside\n");
    }
    Ok(answer)
}
