//! Logging: the set-up of tracing, and the names of events. docs/logging.md is the contract.
//!
//! Every event of this crate has a field `event` with a name from [`event`], fields with plain values, and a
//! message that is clear without them:
//! `tracing::info!(event = event::JOB_FINISHED, job = %kind, elapsed_ms, "{kind} finished")`. Names and fields are
//! stable, because queries and alerts use them. Messages are for people and may change.
//!
//! Five field names are banned, because the JSON writer uses them itself and would write them twice: `level`,
//! `target`, `timestamp`, `message`, `span` (`tests/tidy` checks this). Durations are numbers with their
//! unit last in the name: `elapsed_ms`, `age_s`.
//!
//! Modules below `daemon` use the names and the macros of tracing. Only `cli` calls [`init_logging`] and keeps its
//! result for reloads. `cli` also tells if stderr is that of systemd's journal, because this module reads no
//! environment.

mod plain;

pub(crate) use plain::{plain_json, plain_line, plain_lines};

use crate::model::code_enum;
use std::borrow::Cow;
use std::{fmt as text, io};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter, format};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt, reload};

/// Names of events. A published name keeps its meaning.
pub(crate) mod event {
    macro_rules! events {
        ($($constant:ident = $name:literal),+ $(,)?) => {
            $(pub(crate) const $constant: &str = $name;)+
            /// All names; each has its row in `docs/logging.md`, which says when it is written.
            #[cfg(test)]
            pub(crate) const ALL: &[&str] = &[$($constant),+];
        };
    }

    events! {
        DAEMON_READY = "daemon.ready",
        DAEMON_STOPPING = "daemon.stopping",
        DAEMON_STOPPED = "daemon.stopped",
        LEAD_STANDBY = "lead.standby",
        LEAD_SILENT = "lead.silent",
        LEAD_TAKEN = "lead.taken",
        LEAD_RELEASED = "lead.released",
        LEAD_LOST = "lead.lost",
        DAEMON_RECOVERED = "daemon.recovered",
        DAEMON_WARNING = "daemon.warning",
        CONFIG_RELOADED = "config.reloaded",
        CONFIG_REFUSED = "config.refused",
        JOB_FINISHED = "job.finished",
        JOB_FAILED = "job.failed",
        HOUR_PASSED = "hour.passed",
        JOB_PAUSED = "job.paused",
        JOB_RESUMED = "job.resumed",
        STALE = "stale",
        HEALTH_FINDING = "health.finding",
        HEALTH_CLEARED = "health.cleared",
        NOTICE_SENT = "notice.sent",
        NOTICE_FAILED = "notice.failed",
        NOTICE_DROPPED = "notice.dropped",
        OUTBOX_FINISHED = "outbox.finished",
        OUTBOX_HELD = "outbox.held",
        OUTBOX_IN_DOUBT = "outbox.in_doubt",
        CONFLICT_OPENED = "conflict.opened",
        CONFLICT_CLOSED = "conflict.closed",
        BRAKE_TRIPPED = "brake.tripped",
        BRAKE_RELEASED = "brake.released",
        QUOTA_HOLD = "quota.hold",
        QUOTA_LIFTED = "quota.lifted",
        QUOTA_SHARE = "quota.share",
        BAD_REQUESTS = "quota.bad_requests",
        AUTH_REFUSED = "auth.refused",
        AUTH_RESTORED = "auth.restored",
        RECORD_PARKED = "record.parked",
        ENTRY_SET_ASIDE = "entry.set_aside",
        ENTRY_TAKEN_BACK = "entry.taken_back",
        JOURNAL_PRUNED = "journal.pruned",
        PROJECTION_CHANGED = "projection.changed",
        BACKUP_WRITTEN = "backup.written",
        DATABASE_WRITE_FAILED = "database.write_failed",
        DATABASE_RESTORED = "database.restored",
        DATABASE_REPLACED = "database.replaced",
        WEB_DENIED = "web.denied",
        WEB_FAILED = "web.failed",
        DISK_LOW = "disk.low",
    }
}

code_enum! {
    pub(crate) enum LogFormat {
        Json = "json",
        Text = "text",
    }
}

/// A handle to the logging of the process.
pub(crate) struct LogHandle(reload::Handle<EnvFilter, Registry>);

impl LogHandle {
    /// Changes the level while running, at a reload of the configuration.
    pub(crate) fn set_level(&self, level: &str) {
        // Fails only after the subscriber is gone, and then nothing logs.
        let _ = self.0.reload(level_filter(level));
    }
}

/// Sets up logging to stderr for the process. Lines for systemd's journal begin with their priority, such as `<3>` for an
/// error, which journald removes. Fails if logging is set up already.
pub(crate) fn init_logging(
    format: LogFormat,
    level: &str,
    with_priority: bool,
) -> Result<LogHandle, TryInitError> {
    let (filter, handle) = reload::Layer::new(level_filter(level));
    let subscriber = tracing_subscriber::registry().with(filter);
    subscriber.with(line_layer(format, with_priority, io::stderr)).try_init()?;
    Ok(LogHandle(handle))
}

/// Limits libraries to warnings, because below that they log each statement, connection and tick.
fn level_filter(level: &str) -> EnvFilter {
    let own: LevelFilter = level.parse().expect("the configuration admits the names of levels alone");
    EnvFilter::new(format!("{},tallyd={own}", own.min(LevelFilter::WARN)))
}

type LineLayer<S> = Box<dyn Layer<S> + Send + Sync>;

fn line_layer<S, W>(format: LogFormat, with_priority: bool, writer: W) -> LineLayer<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let layer = fmt::layer().with_writer(writer).with_ansi(false);
    match format {
        LogFormat::Json => {
            let inner = format::json().flatten_event(true).with_current_span(true).with_span_list(false);
            layer.json().event_format(LogFormatter { inner, mask: plain_json, with_priority }).boxed()
        }
        LogFormat::Text => {
            let inner = format::format().with_target(false).with_ansi(false);
            layer.event_format(LogFormatter { inner, mask: plain_line, with_priority }).boxed()
        }
    }
}

/// The formatter of a line: the journal's priority, and the library's format.
struct LogFormatter<F> {
    inner: F,
    /// Text from outside must not control the reader's terminal or begin a line of its own.
    mask: fn(&str) -> Cow<'_, str>,
    with_priority: bool,
}

impl<S, N, F> FormatEvent<S, N> for LogFormatter<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> text::Result {
        if self.with_priority {
            write!(writer, "<{}>", syslog_priority(*event.metadata().level()))?;
        }
        let mut line = String::new();
        self.inner.format_event(context, Writer::new(&mut line), event)?;
        writeln!(writer, "{}", (self.mask)(line.trim_end()))
    }
}

/// Returns the syslog level, which the journal filters by (`journalctl -p warning`).
fn syslog_priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        _ => 7,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek};
    use std::sync::Arc;

    fn lines_of(format: LogFormat, level: &str, log: impl FnOnce()) -> String {
        written_to(false, format, level, log)
    }

    fn written_to(with_priority: bool, format: LogFormat, level: &str, log: impl FnOnce()) -> String {
        let file = Arc::new(tempfile::tempfile().unwrap());
        let subscriber = tracing_subscriber::registry().with(level_filter(level));
        let subscriber = subscriber.with(line_layer(format, with_priority, file.clone()));
        tracing::subscriber::with_default(subscriber, log);
        let (mut lines, mut text) = (&*file, String::new());
        lines.rewind().unwrap();
        lines.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn an_event_is_one_json_line_with_its_fields_on_top() {
        let line = lines_of(LogFormat::Json, "info", || {
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
            let text = lines_of(LogFormat::Text, level, log);
            for word in ["noise", "slow", "detail"] {
                assert_eq!(text.contains(word), expected.contains(&word), "{level}: {text}");
            }
        }
    }

    #[test]
    fn journald_gets_the_priority_of_each_line() {
        let log = || {
            tracing::error!("broken");
            tracing::warn!("odd");
            tracing::info!("fine");
            tracing::debug!("detail");
        };
        for format in [LogFormat::Json, LogFormat::Text] {
            let text = written_to(true, format, "debug", log);
            let heads: Vec<&str> = text.lines().map(|line| &line[..3]).collect();
            assert_eq!(heads, ["<3>", "<4>", "<6>", "<7>"], "{text}");
            assert!(!lines_of(format, "debug", log).contains("<3>"));
        }
    }

    #[test]
    fn text_of_others_cannot_act_on_the_terminal_nor_begin_a_line() {
        let evil = "A\u{1b}[2J\u{9b}2J\u{7}\r\nFORGED \u{202e}\u{2066}\u{200b}\u{2028}B";
        let log = || {
            let span = tracing::info_span!("run", job = %evil, of = evil);
            span.in_scope(|| tracing::warn!(key = %evil, text = evil, debug = ?evil, "{evil}"));
        };
        for with_priority in [true, false] {
            for format in [LogFormat::Text, LogFormat::Json] {
                let text = written_to(with_priority, format, "info", log);
                let text = text.trim_end();
                assert!(!text.contains('\n'), "{format:?}: {text:?}");
                assert_eq!(plain_line(text), text, "{format:?}");
                if format == LogFormat::Json {
                    let json = text.trim_start_matches("<4>");
                    let value: serde_json::Value = serde_json::from_str(json).unwrap();
                    assert_eq!((&value["message"], &value["key"]), (&evil.into(), &evil.into()));
                }
            }
        }
    }

    #[test]
    fn every_event_has_its_own_name_and_its_row_in_the_documentation() {
        let page = include_str!("../../docs/logging.md");
        for name in event::ALL {
            assert!(page.contains(&format!("| `{name}` |")), "docs/logging.md does not list {name}");
            assert_eq!(event::ALL.iter().filter(|other| *other == name).count(), 1, "{name}");
        }
    }
}
