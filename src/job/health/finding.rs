//! A finding: one thing that is wrong, with a code that programs may rely on.

use crate::model::Timestamp;
use serde::{Serialize, Serializer};
use std::fmt;

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $variant:ident = $code:literal),+ $(,)?) => {
        /// The code of a finding.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code { $($(#[doc = $doc])+ $variant),+ }

        impl Code {
            /// Every code, in the order in which findings are told.
            pub const ALL: &'static [Code] = &[$(Code::$variant),+];

            /// The code in JSON, metrics and the log.
            pub fn as_str(self) -> &'static str {
                match self { $(Code::$variant => $code),+ }
            }
        }
    };
}

codes! {
    /// The database that a daemon has open is not the file at its path.
    DatabaseReplaced = "database_replaced",
    /// The service refuses the key.
    KeyRefused = "key_refused",
    /// No daemon runs.
    NoDaemon = "no_daemon",
    /// The service cannot be reached.
    Unreachable = "unreachable",
    /// Every call fails.
    CallsFail = "calls_fail",
    /// The pushes fail again and again.
    PushFails = "push_fails",
    /// The service orders a long wait.
    QuotaHold = "quota_hold",
    /// The service throttled the account for bad requests.
    ReadsOnly = "reads_only",
    /// Answers of 400 reached a line at which something stops.
    BadRequests = "bad_requests",
    /// The data of a job is older than twice its interval.
    Stale = "stale",
    /// The last good copy of the database is too old.
    BackupOld = "backup_old",
    /// The clock jumped, so nothing of the journal goes by its age.
    NotPruned = "not_pruned",
    /// Wishes wait longer than they should.
    Waiting = "waiting",
    /// Wishes wait for a shipment that no wish makes.
    AwaitsNobody = "awaits_nobody",
    /// Wishes are held for a person.
    Held = "held",
    /// Wishes are in doubt.
    InDoubt = "in_doubt",
    /// Wishes were rejected and nobody has acknowledged it.
    Rejected = "rejected",
    /// Written quantities do not show at the service.
    NotShown = "not_shown",
    /// Entries fail alone and are set aside.
    Quarantined = "quarantined",
    /// Records that no poll can read.
    Unreadable = "unreadable",
    /// Tracked SKUs that the service does not return.
    MissingSkus = "missing_skus",
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.as_str())
    }
}

/// A finding's text is cut after this many characters.
const TEXT_MAX: usize = 800;

/// The weight of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// A person has to look: `status` exits 3.
    Person,
    /// To be known; nothing is wrong.
    Note,
}

/// A thing that is wrong, or to be known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Its code.
    pub code: Code,
    /// Its weight.
    pub severity: Severity,
    /// The number of jobs, wishes, records or calls it is about.
    pub count: i64,
    /// The time since which it is so, where that is known.
    #[serde(serialize_with = "rfc3339")]
    pub since: Option<Timestamp>,
    /// The names of what it is about: jobs, keys of wishes, SKUs, orders.
    pub subjects: Vec<String>,
    /// The sentence for an operator.
    pub text: String,
    /// The next step, naming the command.
    pub what_to_do: String,
}

impl Finding {
    pub(super) fn new(code: Code, count: i64, text: impl Into<String>, todo: impl Into<String>) -> Self {
        Self {
            code,
            severity: Severity::Person,
            count,
            since: None,
            subjects: Vec::new(),
            text: one_line(&text.into()),
            what_to_do: one_line(&todo.into()),
        }
    }

    pub(super) fn since(self, since: Timestamp) -> Self {
        Self { since: Some(since), ..self }
    }

    pub(super) fn about(self, subjects: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { subjects: subjects.into_iter().map(Into::into).collect(), ..self }
    }

    pub(super) fn noted(self) -> Self {
        Self { severity: Severity::Note, ..self }
    }

    /// True if a person has to look.
    pub fn needs_a_person(&self) -> bool {
        self.severity == Severity::Person
    }

    /// The finding and the next step as one line.
    pub fn sentence(&self) -> String {
        format!("{}; {}", self.text, self.what_to_do)
    }
}

/// The platform's words stand in it: they are cut, and break no line.
fn one_line(text: &str) -> String {
    let plain = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    let cut = if text.chars().nth(TEXT_MAX).is_some() { "…" } else { "" };
    text.chars().take(TEXT_MAX).map(plain).chain(cut.chars()).collect()
}

fn rfc3339<S: Serializer>(at: &Option<Timestamp>, to: S) -> Result<S::Ok, S::Error> {
    match at {
        Some(at) => to.serialize_str(&at.rfc3339()),
        None => to.serialize_none(),
    }
}
