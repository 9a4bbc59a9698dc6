//! Causes and consequences: of several findings with one cause, a person reads the cause and its step once.

use super::finding::{Finding, FindingCode};

pub(super) fn group_by_cause(findings: Vec<Finding>) -> Vec<Finding> {
    let mut causes: Vec<Finding> = Vec::new();
    for found in findings {
        match causes.iter_mut().find(|cause| is_explained(cause.code, found.code)) {
            Some(cause) => cause.consequences.push(found),
            None => causes.push(found),
        }
    }
    causes
}

/// Returns true if `found` follows from `cause`, and is over once the cause is.
fn is_explained(cause: FindingCode, found: FindingCode) -> bool {
    use FindingCode as Code;
    let is_delay = matches!(found, Code::PushFails | Code::Stale | Code::Waiting);
    match cause {
        Code::DatabaseReplaced | Code::OtherAccount | Code::NoDaemon => {
            is_delay || matches!(found, Code::NoDaemon | Code::StandbyAway | Code::BackupOld)
        }
        Code::DiskLow => is_delay || matches!(found, Code::BackupOld | Code::NotPruned),
        Code::KeyRefused | Code::Unreachable => is_delay || found == Code::CallsFail,
        Code::CallsFail => is_delay,
        Code::QuotaHold | Code::ReadsOnly => is_delay || matches!(found, Code::ReadsOnly | Code::BadRequests),
        Code::BadRequests | Code::PushFails => found == Code::Waiting,
        _ => false,
    }
}
