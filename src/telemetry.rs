//! Log lines: the set-up of tracing, and the names events go by. `docs/logging.md` is the contract.
//!
//! Every event of ours carries a field `event` with one of the names in [`event`], fields with plain values, and a
//! message that reads alone: `info!(event = event::JOB_FINISHED, job = %kind, elapsed_ms, "{kind} finished")`.
//! Queries and alerts use names and fields, so those are stable; messages are for people and may change.
//!
//! Five field names are banned, because the JSON writer uses them itself and would write them twice: `level`,
//! `target`, `timestamp`, `message`, `span` (`tests/tidy.rs` looks for them). Durations are numbers with their
//! unit last in the name: `elapsed_ms`, `age_s`.
//!
//! Rooms below `daemon` use the names and the macros of tracing; only `cli` calls [`init`], and hands the daemon
//! what it returns, for reloads.

use std::io;
use tracing::Subscriber;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt, reload};

/// Names of events. One that is published here keeps its meaning.
pub mod event {
    macro_rules! events {
        ($($(#[doc = $doc:literal])+ $constant:ident = $name:literal),+ $(,)?) => {
            $($(#[doc = $doc])+ pub const $constant: &str = $name;)+
            /// Every name; each has its row in `docs/logging.md`.
            pub const ALL: &[&str] = &[$($constant),+];
        };
    }

    events! {
        /// The daemon holds its database and takes wishes.
        DAEMON_READY = "daemon.ready",
        /// The daemon drains and ends.
        DAEMON_STOPPING = "daemon.stopping",
        /// The daemon has ended.
        DAEMON_STOPPED = "daemon.stopped",
        /// The last daemon ended in the middle of its work; what it left was mended.
        DAEMON_RECOVERED = "daemon.recovered",
        /// Something an operator should mend although work goes on.
        DAEMON_WARNING = "daemon.warning",
        /// A changed configuration is in force.
        CONFIG_RELOADED = "config.reloaded",
        /// A changed configuration cannot be used; the running one stays in force.
        CONFIG_REFUSED = "config.refused",
        /// A run ended, with its outcome and its numbers.
        JOB_FINISHED = "job.finished",
        /// A run failed; the reason and when it is tried again.
        JOB_FAILED = "job.failed",
        /// Data is older than twice its job's interval.
        STALE = "stale",
        /// Wishes were settled by a push or by a look at the service.
        OUTBOX_SETTLED = "outbox.settled",
        /// A wish waits for a person's word.
        OUTBOX_HELD = "outbox.held",
        /// A wish was sent and its outcome is unknown.
        OUTBOX_IN_DOUBT = "outbox.in_doubt",
        /// Both sides moved away from what was seen.
        CONFLICT_OPENED = "conflict.opened",
        /// A brake holds wishes back.
        BRAKE_TRIPPED = "brake.tripped",
        /// A person released a brake, once.
        BRAKE_RELEASED = "brake.released",
        /// The account or an operation waits because the service said so.
        QUOTA_HOLD = "quota.hold",
        /// Other software shares the account: our share of the quota changed.
        QUOTA_SHARE = "quota.share",
        /// Answers of 400 reached the line at which pushes or reads stop.
        BAD_REQUESTS = "quota.bad_requests",
        /// The service refuses the keys; nothing is sent but probes.
        AUTH_REFUSED = "auth.refused",
        /// The keys work again.
        AUTH_RESTORED = "auth.restored",
        /// An answer could not be read; its exchange is parked.
        RECORD_PARKED = "record.parked",
        /// Bodies were removed from the journal.
        JOURNAL_PRUNED = "journal.pruned",
        /// A copy of the database was written and proved.
        BACKUP_WRITTEN = "backup.written",
        /// An answer cannot be written down; it is kept, and nothing new is sent.
        DATABASE_STUCK = "database.stuck",
        /// The database went back in time, or is a copy: what may have been done since is held.
        DATABASE_RESTORED = "database.restored",
        /// The disk is short of space; no wish is sent.
        DISK_LOW = "disk.low",
    }
}

/// The shape of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One JSON object a line.
    Json,
    /// For people.
    Text,
}

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// No level.
    #[error("`{0}` is no log level; write error, warn, info, debug or trace")]
    Level(String),
    /// The process logs already.
    #[error("logging is set up already: {0}")]
    Twice(#[from] TryInitError),
}

/// Logging, once set up.
pub struct Telemetry {
    filter: reload::Handle<EnvFilter, Registry>,
}

impl Telemetry {
    /// Changes the level while running, at a reload of the configuration.
    ///
    /// # Errors
    /// When it is no level; the old one stays.
    pub fn set_level(&self, level: &str) -> Result<(), InitError> {
        let filter = filter(level)?;
        // It fails only once the subscriber is gone, and then there is nothing to log to.
        let _ = self.filter.reload(filter);
        Ok(())
    }
}

/// Sets up logging to stderr for the process. `terminal` says whether stderr is one: then text has colours.
///
/// # Errors
/// When `level` is no level, or logging is set up already.
pub fn init(format: Format, level: &str, terminal: bool) -> Result<Telemetry, InitError> {
    let filter = filter(level)?;
    let (filter, handle) = reload::Layer::new(filter);
    let subscriber = tracing_subscriber::registry().with(filter);
    subscriber.with(lines(format, terminal, io::stderr)).try_init()?;
    Ok(Telemetry { filter: handle })
}

/// What libraries say below a warning is noise here: each statement, each connection, each tick.
fn filter(level: &str) -> Result<EnvFilter, InitError> {
    const NOISY: [&str; 6] = ["sqlx", "tokio_cron_scheduler", "hyper", "hyper_util", "reqwest", "rustls"];
    let unknown = || InitError::Level(level.into());
    let own: LevelFilter = level.parse().map_err(|_| unknown())?;
    let theirs = own.min(LevelFilter::WARN);
    let directives = NOISY.iter().map(|library| format!(",{library}={theirs}"));
    EnvFilter::try_new(format!("{own}{}", directives.collect::<String>())).map_err(|_| unknown())
}

type Lines<S> = Box<dyn Layer<S> + Send + Sync>;

fn lines<S, W>(format: Format, terminal: bool, writer: W) -> Lines<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let lines = fmt::layer().with_writer(writer).with_ansi(terminal && format == Format::Text);
    match format {
        Format::Json => {
            lines.json().flatten_event(true).with_current_span(true).with_span_list(false).boxed()
        }
        Format::Text => lines.with_target(false).boxed(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Buffer(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Buffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What is written for one run of `log`.
    fn written(format: Format, level: &str, log: impl FnOnce()) -> String {
        let buffer = Buffer::default();
        let writer = buffer.clone();
        let subscriber = tracing_subscriber::registry().with(filter(level).unwrap());
        let subscriber = subscriber.with(lines(format, false, move || writer.clone()));
        tracing::subscriber::with_default(subscriber, log);
        let bytes = buffer.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn an_event_is_one_json_line_with_its_fields_on_top() {
        let line = written(Format::Json, "info", || {
            let run = tracing::info_span!("run", job = "balances");
            run.in_scope(|| tracing::info!(event = event::JOB_FINISHED, elapsed_ms = 12, "read\n3 pages"));
        });
        assert_eq!(line.matches('\n').count(), 1, "{line}");
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["event"], "job.finished");
        assert_eq!(value["elapsed_ms"], 12);
        assert_eq!(value["message"], "read\n3 pages");
        assert_eq!(value["span"]["job"], "balances");
        for key in ["event", "level", "timestamp", "target", "message"] {
            assert_eq!(line.matches(&format!("\"{key}\":")).count(), 1, "{key} in {line}");
        }
    }

    #[test]
    fn libraries_are_heard_from_warnings_on_and_never_above_our_own_level() {
        let log = || {
            tracing::info!(target: "sqlx::query", "noise");
            tracing::warn!(target: "sqlx::query", "slow");
            tracing::debug!("detail");
        };
        for (level, expected) in
            [("info", vec!["slow"]), ("debug", vec!["slow", "detail"]), ("error", vec![])]
        {
            let text = written(Format::Text, level, log);
            for word in ["noise", "slow", "detail"] {
                assert_eq!(text.contains(word), expected.contains(&word), "{level}: {text}");
            }
        }
        assert!(matches!(filter("loud"), Err(InitError::Level(_))));
    }

    #[test]
    fn every_event_has_its_own_name_and_its_row_in_the_documentation() {
        let page = include_str!("../docs/logging.md");
        for name in event::ALL {
            assert!(page.contains(&format!("| `{name}` |")), "docs/logging.md does not list {name}");
            assert_eq!(event::ALL.iter().filter(|other| *other == name).count(), 1, "{name}");
        }
    }
}
