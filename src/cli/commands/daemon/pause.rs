//! `pause` and `resume`: jobs that an operator stops for a time.

use crate::cli::context::{CliContext, write_and_commit};
use crate::cli::local_time::local_sentence;
use crate::cli::output::plain_line;
use crate::cli::{CommandOutput, CommandResult};
use crate::model::JobKind;
use crate::present::pauses::{parse_pause_duration, parse_pause_reason, pause_text};
use clap::Args;
use clap::builder::PossibleValuesParser;
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
pub(in crate::cli) struct ResumeArgs {
    #[command(flatten)]
    jobs: JobNames,
}

#[derive(Debug, Args)]
struct JobNames {
    /// Names of the jobs
    #[arg(value_name = "JOB", default_value = JobKind::Push.as_str(), value_parser = job_names(), hide_possible_values = true)]
    names: Vec<String>,
}

fn job_names() -> PossibleValuesParser {
    JobKind::ALL.iter().map(|kind| kind.as_str()).collect::<Vec<_>>().into()
}

impl JobNames {
    fn kinds(&self) -> impl Iterator<Item = JobKind> {
        self.names.iter().filter_map(|name| JobKind::from_code(name))
    }
}

pub(in crate::cli) async fn pause_command(context: &CliContext, args: PauseArgs) -> CommandResult {
    let (store, now) = (context.open_store().await?, context.now());
    let until = args.duration.map(|duration| now.plus(duration));
    write_and_commit(&store, async |write| {
        for kind in args.jobs.kinds() {
            write.pause_begin(kind, until, &args.why, now).await?;
        }
        Ok(())
    })
    .await?;
    let paused = store.pause_list(now).await?;
    let paused = paused.iter().filter(|pause| args.jobs.names.contains(&pause.job));
    let line = |pause| format!("{}\n", plain_line(&local_sentence(pause_text(pause))));
    Ok(paused.map(line).collect::<String>().into())
}

pub(in crate::cli) async fn resume_command(context: &CliContext, args: ResumeArgs) -> CommandResult {
    let (store, now) = (context.open_store().await?, context.now());
    let mut output = CommandOutput::default();
    for kind in args.jobs.kinds() {
        let is_ended = write_and_commit(&store, async |write| write.pause_end(kind, now).await).await?;
        let line = if is_ended { "resumed" } else { "it was not paused" };
        output.text.push_str(&format!("{kind}: {line}\n"));
        output.exit_code |= u8::from(!is_ended);
    }
    Ok(output)
}
