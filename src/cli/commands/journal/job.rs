//! `job`: the journal of runs.

use crate::cli::code_parser::code_parser;
use crate::cli::context::CliContext;
use crate::cli::local_time::local_sentence;
use crate::cli::output::{fields_text, plain_line, table_section, table_text};
use crate::cli::{CommandFailure, CommandOutput, CommandResult, OutputArgs};
use crate::daemon::{ControlRequest, RunResult};
use crate::exec::RunArgs;
use crate::model::{JobKind, RunId};
use crate::present::runs::{RunDetail, event_columns, exchange_columns, run_change_columns, run_columns};
use clap::Subcommand;
use serde_json::json;

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
    /// List runs, newest first
    List {
        /// Show only runs of this job
        #[arg(long, value_name = "JOB", value_parser = code_parser(JobKind::ALL, JobKind::as_str))]
        kind: Option<JobKind>,
        /// Maximum number of runs
        #[arg(long, default_value_t = 50)]
        limit: u32,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Show a run: trigger, input, exchanges, decisions and outcome
    Show {
        /// Run id
        id: i64,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Run a job once, now; if a daemon runs, the daemon executes the job
    Run {
        /// Name of the job
        #[arg(value_name = "JOB", value_parser = code_parser(JobKind::ALL, JobKind::as_str))]
        kind: JobKind,
        #[allow(
            rustdoc::broken_intra_doc_links,
            reason = "clap prints the text as it stands: `[1]` is JSON"
        )]
        /// Entries to process instead of the due ones, as JSON: {"skus":["SKU-1"]} for balances, {"orders":[1]} for
        /// order_lines
        #[arg(long, value_name = "JSON")]
        input: Option<String>,
    },
}

pub(in crate::cli) async fn job_command(context: &CliContext, command: Command) -> CommandResult {
    match command {
        Command::List { kind, limit, output } => {
            let runs = context.open_store().await?.run_list(kind, limit).await?;
            output.list(&runs, "no job has run yet", run_columns)
        }
        Command::Show { id, output } => show_run(context, RunId(id), output).await,
        Command::Run { kind, input } => run_job_now(context, kind, input.as_deref()).await,
    }
}

async fn run_job_now(context: &CliContext, kind: JobKind, input: Option<&str>) -> CommandResult {
    let input = input.map(|text| RunArgs::parse(kind, text)).transpose();
    let input = input.map_err(CommandFailure::usage)?.unwrap_or_default();
    let request = ControlRequest::RunJob { job: kind.as_str().into(), input };
    let done: RunResult = context.ask_daemon(&request).await??;
    let text = format!("{kind}: {}: {}\n", done.outcome, plain_line(&local_sentence(&done.summary)));
    Ok(CommandOutput { text, exit_code: u8::from(!done.is_good) })
}

async fn show_run(context: &CliContext, id: RunId, output: OutputArgs) -> CommandResult {
    let detail = RunDetail::load(&context.open_store().await?, id, 0, i64::MAX).await?;
    let detail = detail.ok_or_else(|| CommandFailure::failed(format!("there is no run {}", id.0)))?;
    Ok(output.render(|| detail.to_json(), || run_text(&detail)).into())
}

fn run_text(detail: &RunDetail) -> String {
    let exchanges = table_text(detail.exchanges.iter().map(exchange_columns), "this run made no call");
    let text = format!("{}\n{exchanges}", fields_text(&json!(detail.run)));
    text + &table_section(detail.changes.iter().map(run_change_columns))
        + &table_section(detail.events.iter().map(event_columns))
}
