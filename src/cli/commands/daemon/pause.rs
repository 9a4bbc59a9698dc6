//! `pause` and `resume`: jobs that an operator stops for a time.

use crate::cli::code_parser::code_parser;
use crate::cli::context::CliContext;
use crate::cli::output::decision_output;
use crate::cli::{CommandOutput, CommandResult};
use crate::model::JobKind;
use crate::present::pauses::{parse_pause_duration, parse_pause_reason, pause_jobs, resume_job};
use clap::Args;
use std::time::Duration;

#[derive(Debug, Args)]
pub(in crate::cli) struct PauseArgs {
    #[command(flatten)]
    jobs: JobNames,
    /// Duration, such as 30m, 2h or 1d; without it, the pause ends with `tallyd resume`
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_pause_duration)]
    duration: Option<Duration>,
    /// Reason, for those who see the pause in `tallyd status`
    #[arg(long, value_name = "TEXT", value_parser = parse_pause_reason)]
    why: String,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct JobNames {
    /// Names of the jobs
    #[arg(
        value_name = "JOB",
        default_value = JobKind::Push.as_str(),
        value_parser = code_parser(JobKind::ALL, JobKind::as_str),
        hide_possible_values = true
    )]
    kinds: Vec<JobKind>,
}

pub(in crate::cli) async fn pause_command(context: &CliContext, args: PauseArgs) -> CommandResult {
    let pause = (args.duration, args.why.as_str());
    let store = context.open_store().await?;
    decision_output(pause_jobs(&store, &args.jobs.kinds, pause, context.now()).await)
}

pub(in crate::cli) async fn resume_command(context: &CliContext, jobs: JobNames) -> CommandResult {
    let (store, now) = (context.open_store().await?, context.now());
    let mut output = CommandOutput::default();
    for kind in jobs.kinds {
        let resumed = decision_output(resume_job(&store, kind, now).await)?;
        output.exit_code |= resumed.exit_code;
        output.text += &resumed.text;
    }
    Ok(output)
}
