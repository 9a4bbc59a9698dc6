//! The state of the daemon: by its lock on this host, by the leader's heartbeat on another one.

use super::ViewError;
use crate::config::Config;
use crate::health::DaemonState;
use crate::store::{DaemonName, DatabaseLock, FileId, LeaderRow, LockState, Store};

pub(crate) async fn daemon_state(config: &Config, store: &Store) -> Result<DaemonState, ViewError> {
    let of_this_host = lock_state(config)?;
    match store.leader().await? {
        Some(leader) if leads_elsewhere(&leader, config)? => {
            Ok(if leader.lives() { DaemonState::Running } else { DaemonState::NotRunning })
        }
        _ => Ok(of_this_host),
    }
}

pub(crate) fn lock_state(config: &Config) -> Result<DaemonState, ViewError> {
    let path = &config.database.path;
    let at_path = FileId::from_path(path).ok().flatten().map(|id| id.to_string());
    Ok(match DatabaseLock::inspect(path)? {
        LockState::Free => DaemonState::NotRunning,
        LockState::Held { opened_file: Some(opened) } if Some(&opened) != at_path.as_ref() => {
            DaemonState::OtherFile
        }
        LockState::Held { .. } => DaemonState::Running,
    })
}

/// Returns true if a daemon of another lock file leads, whose heartbeat then tells if it lives.
fn leads_elsewhere(leader: &LeaderRow, config: &Config) -> Result<bool, ViewError> {
    let path = &config.database.path;
    let failed = |error| ViewError::Unknown(format!("cannot read the lock of {}: {error}", path.display()));
    let own = DaemonName::of_database(path).map_err(failed)?;
    Ok(leader.session_id.is_some() && !own.is_some_and(|name| leader.is_named(&name)))
}
