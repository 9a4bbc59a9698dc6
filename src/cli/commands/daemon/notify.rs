//! `notify`: tries the notifiers, and tells of a daemon that ended. Both work without the daemon and without the
//! database.

use crate::cli::context::CliContext;
use crate::cli::environment::environment;
use crate::cli::output::{lines_text, plain_line};
use crate::cli::{CommandFailure, CommandOutput, CommandResult};
use crate::config::Config;
use crate::daemon;
use crate::model::RetryDelays;
use crate::notify::{NoticeChannel, NoticeItem, NoticeSender, NoticeTopic, NotifierSettings};
use crate::store::host_name;
use clap::Subcommand;
use futures_util::future::join_all;
use std::path::PathBuf;
use std::time::Duration;

/// Time for which `daemon-failed` repeats a failed attempt. The unit that calls it has ten minutes.
const RETRY_TIME: Duration = Duration::from_mins(5);

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
    /// Send a notice now through each notifier of the configuration
    Test,
    /// Tell that the daemon of a systemd unit has failed; tallyd-notify@.service calls it
    DaemonFailed {
        /// Name of the unit; tallyd@NAME.service has its configuration in /etc/tallyd/NAME
        unit: String,
    },
}

pub(in crate::cli) async fn notify_command(context: &CliContext, command: Command) -> CommandResult {
    match command {
        Command::Test => test_notifiers(context).await,
        Command::DaemonFailed { unit } => tell_of_failure(context, &unit).await,
    }
}

async fn test_notifiers(context: &CliContext) -> CommandResult {
    let (config, now) = (context.config()?, context.now());
    if config.notifiers.is_empty() {
        return Err(CommandFailure::failed("the configuration has no notifier: add a table [[notify]]"));
    }
    let sender = daemon::notice_sender(&config.service).await;
    let mut output = CommandOutput::default();
    for notifier in &config.notifiers {
        let topic = notifier.topics.first().copied().unwrap_or(NoticeTopic::Daemon);
        let message = "this is a test: the notifier works";
        let item = NoticeItem::new(topic, message, "nothing", now);
        let sent = sender.send_item(notifier, (&format!("test-{}", now.0), &host_name()), item, true).await;
        let line = match sent {
            Ok(()) if matches!(notifier.channel, NoticeChannel::Command { .. }) => {
                "delivered outside of the unit's sandbox, in which the daemon runs the command".to_owned()
            }
            Ok(()) => "delivered".to_owned(),
            Err(why) => {
                output.exit_code = 1;
                format!("NOT delivered: {why}")
            }
        };
        output.text.push_str(&format!("{}\n", plain_line(&format!("{}: {line}", notifier.name))));
    }
    Ok(output)
}

async fn tell_of_failure(context: &CliContext, unit: &str) -> CommandResult {
    let file = if context.has_named_config() { context.config_file()? } else { config_of_unit(unit)? };
    // Without the other values, because one of them may have ended the daemon.
    let (service, notifiers) = Config::load_notifiers(&file, std::env::vars())?;
    let now = context.now();
    // The same id if systemd starts the command again for the same end of the unit.
    let id = environment("MONITOR_INVOCATION_ID").unwrap_or_else(|| now.0.to_string());
    let id = format!("{unit}-{id}");
    let cause = environment("MONITOR_SERVICE_RESULT").map_or(String::new(), |result| format!(" ({result})"));
    let message = format!("{unit} has failed{cause} and is not started again: nothing is read or sent");
    let todo = format!("find the reason: sudo journalctl -u {unit} -n 50; then: sudo systemctl start {unit}");
    let item = NoticeItem::new(NoticeTopic::Daemon, message, todo, now);
    let told = notifiers.iter().filter(|notifier| notifier.topics.contains(&NoticeTopic::Daemon));
    let sender = daemon::notice_sender(&service).await;
    let sent = join_all(told.map(|notifier| send_with_retry(&sender, notifier, &id, &item))).await;
    let failures: Vec<String> = sent.into_iter().filter_map(Result::err).collect();
    Ok(CommandOutput { text: lines_text(&failures), exit_code: u8::from(!failures.is_empty()) })
}

async fn send_with_retry(
    sender: &NoticeSender,
    notifier: &NotifierSettings,
    id: &str,
    item: &NoticeItem,
) -> Result<(), String> {
    let (mut delays, mut waited) = (RetryDelays::push_retry(), Duration::ZERO);
    loop {
        let Err(why) = sender.send_item(notifier, (id, &host_name()), item.clone(), false).await else {
            return Ok(());
        };
        let delay = delays.next().unwrap_or_default();
        waited += delay;
        if waited > RETRY_TIME {
            return Err(format!("{}: NOT delivered: {why}", notifier.name));
        }
        tokio::time::sleep(delay).await;
    }
}

fn config_of_unit(unit: &str) -> Result<PathBuf, CommandFailure> {
    let name = unit.strip_suffix(".service").unwrap_or(unit);
    let account = name.strip_prefix("tallyd@");
    match account.filter(|account| !account.is_empty() && !account.contains(['/', '.'])) {
        Some(account) => Ok(PathBuf::from(format!("/etc/tallyd/{account}/tallyd.toml"))),
        None if name == "tallyd" => Ok("/etc/tallyd/tallyd.toml".into()),
        None => Err(CommandFailure::usage(format!(
            "{unit} is no unit of tallyd; name tallyd.service, tallyd@NAME.service, or the configuration with --config"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_is_that_of_the_packaged_unit() {
        let path =
            |unit| config_of_unit(unit).map(|path| path.display().to_string()).map_err(|e| e.exit_code);
        assert_eq!(path("tallyd.service"), Ok("/etc/tallyd/tallyd.toml".into()));
        assert_eq!(path("tallyd@north.service"), Ok("/etc/tallyd/north/tallyd.toml".into()));
        for unit in ["nginx.service", "tallyd@.service", "tallyd@../x.service", "tallyd-notify@a.service"] {
            assert_eq!(path(unit), Err(2), "{unit}");
        }
    }
}
