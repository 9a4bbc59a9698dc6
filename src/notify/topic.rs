//! Topics of notices, and their sources: findings of the health judgement, and outcomes of changes.

use crate::health::FindingCode;
use crate::model::code_enum;
use crate::outbox::{ChangeState, Reason};

code_enum! {
    /// Topic of a notice; `on` of a notifier lists those that it sends.
    pub enum NoticeTopic {
        Held = "held",
        Rejected = "rejected",
        Brake = "brake",
        Key = "key",
        /// Data or changes that are late, also because calls fail.
        Stale = "stale",
        Conflict = "conflict",
        Disk = "disk",
        Daemon = "daemon",
        Restored = "restored",
    }
}

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

pub(super) fn change_topic(state: ChangeState, reason: Option<Reason>) -> NoticeTopic {
    match reason {
        _ if state == ChangeState::Rejected => NoticeTopic::Rejected,
        Some(Reason::Brake) => NoticeTopic::Brake,
        Some(Reason::Restored) => NoticeTopic::Restored,
        Some(Reason::Conflict | Reason::StaleBase | Reason::Mismatch) => NoticeTopic::Conflict,
        _ => NoticeTopic::Held,
    }
}
