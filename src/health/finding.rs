//! A finding: a fault, with a code that programs may rely on.

use crate::model::{Timestamp, code_enum};
use serde::{Serialize, Serializer};

code_enum! {
    #[derive(Serialize)]
    #[serde(rename_all = "snake_case")]
    /// Code of a finding in JSON, metrics and the log, in the order in which findings are listed.
    pub enum FindingCode {
        Paused = "paused",
        DatabaseReplaced = "database_replaced",
        OtherAccount = "other_account",
        KeyRefused = "key_refused",
        NoDaemon = "no_daemon",
        StandbyAway = "standby_away",
        DiskLow = "disk_low",
        /// A file that the daemon writes is old, or belongs to another user.
        FileUnwritten = "file_unwritten",
        Unreachable = "unreachable",
        CallsFail = "calls_fail",
        PushFails = "push_fails",
        /// The platform orders a long wait.
        QuotaHold = "quota_hold",
        ReadsOnly = "reads_only",
        BadRequests = "bad_requests",
        Stale = "stale",
        BackupOld = "backup_old",
        /// The clock jumped, so nothing of the journal is deleted by age.
        NotPruned = "not_pruned",
        Waiting = "waiting",
        Restored = "restored",
        Held = "held",
        InDoubt = "in_doubt",
        Rejected = "rejected",
        NotShown = "not_shown",
        Quarantined = "quarantined",
        /// Records that no poll can read.
        Unreadable = "unreadable",
        MissingSkus = "missing_skus",
        NothingTracked = "nothing_tracked",
    }
}

const TEXT_MAX: usize = 800;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FindingSeverity {
    /// An operator must act: `status` exits with 3.
    Person,
    Note,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub code: FindingCode,
    pub(crate) severity: FindingSeverity,
    pub count: i64,
    /// Start of the fault, if known.
    #[serde(serialize_with = "rfc3339")]
    pub since: Option<Timestamp>,
    /// Names of the affected jobs, changes (by key), SKUs or orders.
    pub subjects: Vec<String>,
    pub text: String,
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

    pub(super) fn with_since(self, since: impl Into<Option<Timestamp>>) -> Self {
        Self { since: since.into(), ..self }
    }

    /// Makes the finding a note, which needs no operator, under this condition.
    pub(super) fn note_if(self, is_note: bool) -> Self {
        Self { severity: if is_note { FindingSeverity::Note } else { self.severity }, ..self }
    }

    pub(super) fn with_subjects(self, subjects: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { subjects: subjects.into_iter().map(Into::into).collect(), ..self }
    }

    /// Returns the identity of a finding, by which it began and ended. It includes the operation, account or
    /// job, but no changes and records, whose number may differ each minute.
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

    pub fn needs_operator(&self) -> bool {
        self.severity == FindingSeverity::Person
    }

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
