//! State of the leader, and the fence of its writes (docs/rules.md 23).
//!
//! Without the leader's row a write transaction of a daemon fails, whatever the daemon believes.

use super::error::fenced;
use crate::model::Position;
use sqlx_macros::FromRow;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};

/// State of the leader, as one look shows it.
#[derive(Clone, Debug, PartialEq, Eq, FromRow)]
pub(crate) struct LeaderRow {
    /// Session of the leader; `None`: no daemon leads.
    pub session_id: Option<i64>,
    /// Number that the leader raises every few seconds.
    pub heartbeat: i64,
    /// Time since the last heartbeat by the server's clock, in milliseconds. It decides nothing.
    pub silent_ms: i64,
    pub position: i64,
    /// Version of the schema: that of its newest migration.
    pub schema_version: Option<i64>,
    /// Name of the leader's lock file.
    pub instance_id: Option<String>,
    pub host_name: Option<String>,
    /// Time since it leads, by the server's clock.
    pub began_ms: Option<i64>,
    /// Duration of the last takeover in milliseconds.
    pub takeover_ms: Option<i64>,
}

/// Session that this process leads with, and the last position that it saw committed. Empty while it does not lead.
#[derive(Debug, Default)]
pub(super) struct Fence {
    session_id: OnceLock<i64>,
    position: AtomicI64,
}

impl Fence {
    pub(super) fn session_id(&self) -> Option<i64> {
        self.session_id.get().copied()
    }

    /// Notes that this process leads. A store leads once: its process ends with its leadership.
    pub(super) fn lead(&self, session_id: i64, seen: Position) {
        self.note(seen);
        self.session_id.get_or_init(|| session_id);
    }

    pub(super) fn note(&self, position: Position) {
        self.position.fetch_max(position.0, Ordering::SeqCst);
    }

    /// Fails if the server no longer has the leader's row, or went back behind what this process saw.
    pub(super) fn check(&self, found: Option<i64>) -> sqlx::Result<()> {
        let Some(position) = found else {
            return Err(fenced("another tallyd leads this account by now".into()));
        };
        let seen = self.position.load(Ordering::SeqCst);
        if position < seen {
            return Err(fenced(format!(
                "the server went back from position {seen} of the journal to {position}, as after a failover that \
                 lost commits"
            )));
        }
        self.note(Position(position));
        Ok(())
    }
}
