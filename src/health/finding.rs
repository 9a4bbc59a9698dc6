//! A finding: a fault, with a code that programs may rely on.

use crate::model::{Timestamp, code_enum};
use serde::{Serialize, Serializer};

code_enum! {
    /// Code of a finding in JSON, metrics and the log, in the order in which findings are listed.
    pub enum FindingCode {
        /// An operator paused a job.
        Paused = "paused",
        /// The database that a daemon has open is not the file at its path.
        DatabaseReplaced = "database_replaced",
        /// The keys or the address are of another account than the database.
        OtherAccount = "other_account",
        /// The platform refuses the key.
        KeyRefused = "key_refused",
        /// No daemon runs.
        NoDaemon = "no_daemon",
        /// A host that stood by, or led, is away.
        StandbyAway = "standby_away",
        /// The disk is short of space.
        DiskLow = "disk_low",
        /// A file that the daemon writes is old, or belongs to another user.
        FileUnwritten = "file_unwritten",
        /// The platform cannot be reached.
        Unreachable = "unreachable",
        /// Every call fails.
        CallsFail = "calls_fail",
        /// The pushes fail repeatedly.
        PushFails = "push_fails",
        /// The platform orders a long wait.
        QuotaHold = "quota_hold",
        /// The platform throttled the account for bad requests.
        ReadsOnly = "reads_only",
        /// Answers of 400 reached a threshold at which calls stop.
        BadRequests = "bad_requests",
        /// The data of a job is older than twice its interval.
        Stale = "stale",
        /// The last good backup of the database is too old.
        BackupOld = "backup_old",
        /// The clock jumped, so nothing of the journal is deleted by age.
        NotPruned = "not_pruned",
        /// Changes wait longer than they should.
        Waiting = "waiting",
        /// The database was restored, and changes that programs insert are held.
        Restored = "restored",
        /// Changes are held for an operator.
        Held = "held",
        /// Changes are in doubt.
        InDoubt = "in_doubt",
        /// Changes were rejected and not acknowledged.
        Rejected = "rejected",
        /// Written quantities do not show at the platform.
        NotShown = "not_shown",
        /// Entries fail alone and are quarantined.
        Quarantined = "quarantined",
        /// Records that no poll can read.
        Unreadable = "unreadable",
        /// Tracked SKUs that the platform does not return.
        MissingSkus = "missing_skus",
        /// No SKU is tracked.
        NothingTracked = "nothing_tracked",
    }
}

impl Serialize for FindingCode {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.as_str())
    }
}

const TEXT_MAX: usize = 800;

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingSeverity {
    /// An operator must act: `status` exits with 3.
    Person,
    /// For information; nothing is wrong.
    Note,
}

/// A fault, or information for the operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Code of the finding.
    pub code: FindingCode,
    /// Severity of the finding.
    pub severity: FindingSeverity,
    /// Number of affected jobs, changes, records or calls.
    pub count: i64,
    /// Start of the fault, if known.
    #[serde(serialize_with = "rfc3339")]
    pub since: Option<Timestamp>,
    /// Names of the affected jobs, changes (by key), SKUs or orders.
    pub subjects: Vec<String>,
    /// Sentence for an operator.
    pub text: String,
    /// Next step, with the command.
    pub what_to_do: String,
    /// Findings that follow from this one and need no step of their own.
    pub consequences: Vec<Finding>,
}

impl Finding {
    pub(super) fn new(
        code: FindingCode,
        count: impl TryInto<i64>,
        text: impl Into<String>,
        todo: impl Into<String>,
    ) -> Self {
        Self {
            code,
            severity: FindingSeverity::Person,
            count: count.try_into().unwrap_or(i64::MAX),
            since: None,
            subjects: Vec::new(),
            text: one_line(&text.into()),
            what_to_do: one_line(&todo.into()),
            consequences: Vec::new(),
        }
    }

    pub(super) fn with_since(self, since: Timestamp) -> Self {
        Self { since: Some(since), ..self }
    }

    pub(super) fn with_subjects(self, subjects: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { subjects: subjects.into_iter().map(Into::into).collect(), ..self }
    }

    /// Returns the identity of a finding, by which it began and ended. It includes the operation, account or job,
    /// but no changes and records, because their number may differ each minute.
    pub(crate) fn identity(&self) -> (FindingCode, Vec<String>) {
        let has_subjects = matches!(
            self.code,
            FindingCode::Paused
                | FindingCode::QuotaHold
                | FindingCode::PushFails
                | FindingCode::Stale
                | FindingCode::StandbyAway
        );
        (self.code, if has_subjects { self.subjects.clone() } else { Vec::new() })
    }

    /// Returns true if an operator must act.
    pub fn needs_operator(&self) -> bool {
        self.severity == FindingSeverity::Person
    }

    /// Returns the finding and the next step as one line.
    pub(crate) fn full_text(&self) -> String {
        format!("{}; {}", self.text, self.what_to_do)
    }
}

/// Truncates a text and replaces its control characters, because it may contain the platform's messages.
fn one_line(text: &str) -> String {
    let plain = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    let cut = if text.chars().nth(TEXT_MAX).is_some() { "…" } else { "" };
    text.chars().take(TEXT_MAX).map(plain).chain(cut.chars()).collect()
}

fn rfc3339<S: Serializer>(at: &Option<Timestamp>, to: S) -> Result<S::Ok, S::Error> {
    at.map(Timestamp::to_rfc3339).serialize(to)
}
