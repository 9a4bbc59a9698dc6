//! `quarantine`: entries that fail alone and are retried by themselves, and an operator's retry.

use crate::cli::context::{CliContext, write_and_commit};
use crate::cli::output::{columns, plain_line, time_text};
use crate::cli::{CommandOutput, CommandResult, OutputArgs};
use crate::present::listing::time_cell;
use clap::{Args, Subcommand};
use serde_json::json;
use std::collections::BTreeSet;

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
    /// List quarantined entries with the platform's error and the time of the next attempt
    List(OutputArgs),
    /// Retry entries now, after a correction at the platform
    Retry(QuarantineRetryArgs),
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(in crate::cli) struct QuarantineRetryArgs {
    /// SKUs, order ids and shipment ids, as `quarantine list` shows them
    #[arg(value_name = "ENTRY")]
    entries: Vec<String>,
    /// Retry all quarantined entries
    #[arg(long)]
    all: bool,
}

pub(in crate::cli) async fn quarantine_command(context: &CliContext, command: Command) -> CommandResult {
    match command {
        Command::List(output) => list_quarantine(context, output).await,
        Command::Retry(args) => retry_entries(context, args).await,
    }
}

async fn list_quarantine(context: &CliContext, output: OutputArgs) -> CommandResult {
    let rows = context.open_store().await?.quarantine_list().await?.into_iter().map(|row| {
        json!({
            "entry": row.subject, "operation": row.operation, "since": time_text(row.since_ms),
            "failures": row.failures, "next_try": row.next_try().to_rfc3339(), "why": row.why,
        })
    });
    output.list(&rows.collect::<Vec<_>>(), "nothing is quarantined", |row| {
        columns! {
            "entry": row["entry"], "operation": row["operation"], "since": time_cell(row["since"].as_str()),
            "failures": row["failures"], "next attempt": time_cell(row["next_try"].as_str()),
            "error": row["why"],
        }
    })
}

async fn retry_entries(context: &CliContext, args: QuarantineRetryArgs) -> CommandResult {
    let store = context.open_store().await?;
    let entries: BTreeSet<String> = if args.all {
        store.quarantine_list().await?.into_iter().map(|row| row.subject).collect()
    } else {
        args.entries.into_iter().collect()
    };
    let mut output = CommandOutput::default();
    for entry in &entries {
        let now = context.now();
        let is_found =
            write_and_commit(&store, async |write| write.quarantine_retry(entry, now).await).await?;
        let reply = if is_found { "retried by the next run that needs it" } else { "not quarantined" };
        output.text.push_str(&format!("{}: {reply}\n", plain_line(entry)));
        output.exit_code = output.exit_code.max(u8::from(!is_found));
    }
    if entries.is_empty() {
        output.text.push_str("nothing is quarantined\n");
    }
    Ok(output)
}
