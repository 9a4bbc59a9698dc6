//! `run`: the daemon in the foreground, or each job once.

use super::hangup::StartTerminal;
use crate::cli::context::CliContext;
use crate::cli::output::{columns, plain_line, table_text};
use crate::cli::{CommandFailure, CommandOutput, CommandResult, logging, output};
use crate::client::run_aside;
use crate::config::Config;
use crate::daemon::{self, Daemon, SystemClock};
use crate::telemetry::{LogHandle, event};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(in crate::cli) async fn run_command(context: &CliContext, is_once: bool) -> CommandResult {
    let file = context.config_file()?;
    let config = read_config(file.clone()).await.map_err(|why| CommandFailure::multiline(why, 2))?;
    let logging = logging::init_logging(config.log.format, config.log.level)?;
    if is_once {
        let daemon = Daemon::start(config, Arc::new(SystemClock)).await?;
        return on_runtime_thread(run_once(daemon)).await;
    }
    let start = Daemon::start_or_stand_by(config, Arc::new(SystemClock));
    let stop = CancellationToken::new();
    let (changed, reload) = mpsc::channel(1);
    let signals = SignalStreams::register()?;
    tokio::spawn(signals.listen(stop.clone(), ReloadSource { file, logging }, changed));
    let daemon = tokio::select! {
        daemon = start => daemon?,
        // A start may wait for the platform or a lock. Cancelling it is as safe as killing the process.
        () = stop.cancelled() => return Ok(String::new().into()),
    };
    on_runtime_thread(daemon.run(stop, reload)).await?;
    Ok(String::new().into())
}

async fn read_config(file: PathBuf) -> Result<Config, String> {
    let what = file.display().to_string();
    let load = move || Config::load(&file, std::env::vars()).map_err(|error| error.to_string());
    run_aside(&what, load).await?
}

/// Runs `work` on a thread of the runtime: on the main thread each wake-up would be two.
async fn on_runtime_thread<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    match tokio::spawn(work).await {
        Ok(done) => done,
        Err(broken) => std::panic::resume_unwind(broken.into_panic()),
    }
}

async fn run_once(daemon: Daemon) -> CommandResult {
    let base_url = daemon.config.service.base_url.clone();
    let once = daemon.run_once().await?;
    let runs = once.runs.iter();
    let runs = runs.map(
        |run| columns! {"job": run.kind.as_str(), "outcome": run.outcome.as_str(), "summary": run.summary},
    );
    let mut text = table_text(runs, "no job is enabled");
    if !once.skipped.is_empty() {
        let skipped: Vec<&str> = once.skipped.iter().map(|kind| kind.as_str()).collect();
        text.push_str(&format!(
            "{} cannot be reached; these jobs did not run: {}. Check the network, `service.base_url`, and \
             `service.proxy` and `service.ca_file` if they are set\n",
            plain_line(&base_url),
            skipped.join(", ")
        ));
    }
    for pause in &once.paused {
        text.push_str(&format!("{}\n", plain_line(&format!("did not run: {}", pause.to_text()))));
    }
    Ok(CommandOutput { text, exit_code: u8::from(!once.is_good()) })
}

/// Returns at a request to end, or if the terminal is closed.
pub(in crate::cli) async fn wait_for_interrupt() -> Result<(), CommandFailure> {
    let mut signals = SignalStreams::register()?;
    loop {
        tokio::select! {
            _ = signals.interrupt.recv() => return Ok(()),
            _ = signals.terminate.recv() => return Ok(()),
            _ = signals.hangup.recv() => if signals.terminal.is_closed() {
                return Ok(());
            },
        }
    }
}

struct SignalStreams {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    terminal: StartTerminal,
}

impl SignalStreams {
    /// Registers once, before the daemon starts, because dropping a stream does not restore the default action.
    fn register() -> Result<Self, CommandFailure> {
        let register = |kind| signal(kind).map_err(CommandFailure::cannot("listen for signals"));
        let terminal = StartTerminal::inspect();
        Ok(Self {
            terminal,
            terminate: register(SignalKind::terminate())?,
            interrupt: register(SignalKind::interrupt())?,
            hangup: register(SignalKind::hangup())?,
        })
    }

    /// Drains at the first TERM or INT and exits at the second. HUP drains if the terminal was closed, else reloads
    /// the configuration.
    async fn listen(mut self, stop: CancellationToken, source: ReloadSource, changed: mpsc::Sender<Config>) {
        let (source, mut reload) = (Arc::new(source), None::<JoinHandle<()>>);
        loop {
            tokio::select! {
                _ = self.hangup.recv() => {
                    if self.terminal.is_closed() {
                        stop.cancel();
                        continue;
                    }
                    // The newest file counts, also if an older one hangs or waits for the end of a start.
                    let newest = tokio::spawn(source.clone().reload(changed.clone()));
                    if let Some(older) = reload.replace(newest) {
                        older.abort();
                    }
                    continue;
                }
                _ = self.terminate.recv() => {}
                _ = self.interrupt.recv() => {}
            }
            if stop.is_cancelled() {
                output::print_error(
                    "tallyd: second signal, exiting at once; changes in flight become in doubt",
                );
                #[expect(
                    clippy::disallowed_methods,
                    reason = "the operator's second signal ends the process without a drain"
                )]
                std::process::exit(1);
            }
            stop.cancel();
        }
    }
}

/// The source of a new configuration, and the log level, which the daemon does not handle.
struct ReloadSource {
    file: PathBuf,
    logging: LogHandle,
}

impl ReloadSource {
    async fn reload(self: Arc<Self>, changed: mpsc::Sender<Config>) {
        match read_config(self.file.clone()).await {
            Ok(config) => {
                self.logging.set_level(config.log.level);
                // The receiver is gone once the daemon ends.
                drop(changed.send(config).await);
            }
            Err(why) => {
                tracing::error!(
                    event = event::CONFIG_REFUSED,
                    "the running configuration stays in force: {why}"
                );
                daemon::notify_reload_refused();
            }
        }
    }
}
