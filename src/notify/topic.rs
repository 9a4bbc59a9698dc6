//! Topics of notices, and their sources: findings of the health judgement, and outcomes of changes.

use crate::health::FindingCode;
use crate::model::code_enum;
use crate::outbox::{ChangeState, Reason};

code_enum! {
    /// Topic of a notice; `on` of a notifier lists those that it sends.
    pub enum NoticeTopic {
        /// Changes that wait for an operator.
        Held = "held",
        /// Changes that were refused for good.
        Rejected = "rejected",
        /// Changes that a brake holds.
        Brake = "brake",
        /// The platform refuses the key.
        Key = "key",
        /// Data or changes that are late, also because calls fail.
        Stale = "stale",
        /// Counts that differ from the platform's quantity.
        Conflict = "conflict",
        /// Disk space.
        Disk = "disk",
        /// The daemon ended.
        Daemon = "daemon",
        /// The database went back in time or is a copy.
        Restored = "restored",
    }
}

/// Returns the topic of a finding.
pub(crate) fn finding_topic(code: FindingCode) -> NoticeTopic {
    match code {
        FindingCode::KeyRefused => NoticeTopic::Key,
        FindingCode::DatabaseReplaced
        | FindingCode::OtherAccount
        | FindingCode::NoDaemon
        | FindingCode::StandbyAway => NoticeTopic::Daemon,
        FindingCode::Paused
        | FindingCode::Unreachable
        | FindingCode::CallsFail
        | FindingCode::PushFails
        | FindingCode::QuotaHold
        | FindingCode::ReadsOnly
        | FindingCode::BadRequests
        | FindingCode::Stale
        | FindingCode::BackupOld
        | FindingCode::Waiting => NoticeTopic::Stale,
        FindingCode::NotPruned | FindingCode::DiskLow | FindingCode::FileUnwritten => NoticeTopic::Disk,
        FindingCode::Held
        | FindingCode::InDoubt
        | FindingCode::Quarantined
        | FindingCode::Unreadable
        | FindingCode::MissingSkus
        | FindingCode::NothingTracked => NoticeTopic::Held,
        FindingCode::Restored => NoticeTopic::Restored,
        FindingCode::Rejected => NoticeTopic::Rejected,
        FindingCode::NotShown => NoticeTopic::Conflict,
    }
}

/// Returns true if notices name the single changes instead of the finding. `settle` decides changes in doubt or
/// holds them, so a change in doubt by itself is no notice.
pub(super) fn is_told_by_change(code: FindingCode) -> bool {
    matches!(code, FindingCode::Held | FindingCode::Rejected | FindingCode::InDoubt)
}

/// Returns the topic of a change that is held, rejected, or in doubt for an operator.
pub(super) fn change_topic(state: ChangeState, reason: Option<Reason>) -> NoticeTopic {
    match reason {
        _ if state == ChangeState::Rejected => NoticeTopic::Rejected,
        Some(Reason::Brake | Reason::Jump) => NoticeTopic::Brake,
        Some(Reason::Restored) => NoticeTopic::Restored,
        Some(Reason::Conflict | Reason::StaleBase | Reason::Mismatch) => NoticeTopic::Conflict,
        _ => NoticeTopic::Held,
    }
}
