//! `job`: the journal of runs.

use crate::cli::code_parser::code_parser;
use crate::cli::context::CliContext;
use crate::cli::output::{TableCell, TextTable, cells, plain_line};
use crate::cli::wait_notes::with_wait_notes;
use crate::cli::{CommandFailure, CommandOutput, CommandResult, OutputArgs};
use crate::daemon::{ControlRequest, RunResult, send_control_request};
use crate::exec::RunArgs;
use crate::model::{JobKind, RunId, Timestamp};
use crate::present::runs::{RunDetail, run_json};
use crate::store::{ExchangeRow, JournalEvent, RunChange, RunRow};
use clap::Subcommand;
use std::sync::Arc;

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
        Command::List { kind, limit, output } => list_runs(context, kind, limit, output).await,
        Command::Show { id, output } => show_run(context, RunId(id), output).await,
        Command::Run { kind, input } => run_job_now(context, kind, input.as_deref()).await,
    }
}

async fn list_runs(
    context: &CliContext,
    kind: Option<JobKind>,
    limit: u32,
    output: OutputArgs,
) -> CommandResult {
    let rows = context.open_store().await?.run_list(kind, limit).await?;
    let columns = |row: &RunRow| {
        let RunRow { id, job, trigger, started_ms, ended_ms, outcome, summary, exchanges, .. } = row;
        let elapsed_ms = ended_ms.map(|ended| ended - started_ms);
        cells![id, job, trigger, Timestamp(*started_ms), elapsed_ms, outcome, exchanges, summary]
    };
    let headings = ["run", "job", "trigger", "started", "ms", "outcome", "calls", "summary"];
    let table = || TextTable::new(headings, rows.iter().map(columns)).to_text("no job has run yet");
    Ok(output.render(|| rows.iter().map(run_json).collect::<Vec<_>>(), table).into())
}

async fn run_job_now(context: &CliContext, kind: JobKind, input: Option<&str>) -> CommandResult {
    let input = input.map(|text| RunArgs::parse(kind, text)).transpose();
    let input = input.map_err(|error| CommandFailure::usage(error.to_string()))?.unwrap_or_default();
    let request = ControlRequest::RunJob { job: kind.as_str().into(), input };
    let asked = send_control_request(context.config()?, Arc::new(context.clock()), &request);
    let done: RunResult = with_wait_notes(context, asked).await?;
    let text = format!("{kind}: {}: {}\n", done.outcome, plain_line(&done.summary));
    Ok(CommandOutput { text, exit_code: u8::from(!done.is_good) })
}

async fn show_run(context: &CliContext, id: RunId, output: OutputArgs) -> CommandResult {
    let detail = RunDetail::load(&context.open_store().await?, id).await?;
    let detail = detail.ok_or_else(|| CommandFailure::failed(format!("there is no run {}", id.0)))?;
    Ok(output.render(|| detail.to_json(), || run_text(&detail)).into())
}

fn run_text(RunDetail { run, exchanges, changes, events, .. }: &RunDetail) -> String {
    let call = |row: &ExchangeRow| {
        let ExchangeRow { id, operation, lane, sent_ms, answered_ms, verdict, status, message, .. } = row;
        let elapsed_ms = answered_ms.map(|answered| answered - sent_ms);
        cells![id, operation, lane, Timestamp(*sent_ms), elapsed_ms, verdict, status, message]
    };
    let change = |row: &RunChange| {
        cells![row.exchange_id, row.key, row.kind, row.written, row.state, row.reason, row.detail]
    };
    let decision =
        |row: &JournalEvent| cells![row.position, row.kind, row.subject, row.decided_by, row.detail];
    let headings = ["exchange", "operation", "lane", "sent", "ms", "verdict", "status", "message"];
    let mut text = format!(
        "run {} of {}, by {}, {}\nstarted {}, ended {}\n{}{}\n\n{}",
        run.id,
        run.job,
        run.trigger,
        run.outcome,
        Timestamp(run.started_ms).cell_text(),
        run.ended_ms.map(Timestamp).cell_text(),
        run.input.as_ref().map_or_else(String::new, |input| format!("input {}\n", plain_line(input))),
        plain_line(run.summary.as_deref().unwrap_or("no summary")),
        TextTable::new(headings, exchanges.iter().map(call)).to_text("this run made no call"),
    );
    let headings = ["exchange", "change", "kind", "written", "state", "reason", "detail"];
    text.push_str(&TextTable::new(headings, changes.iter().map(change)).to_section());
    let headings = ["position", "event during the run", "subject", "by", "detail"];
    text + &TextTable::new(headings, events.iter().map(decision)).to_section()
}
