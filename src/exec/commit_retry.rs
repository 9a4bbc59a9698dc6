//! Commit retry for results that must not be lost (docs/rules.md 20).
//!
//! If the commit of an answer fails with a transient error, the answer stays in memory and the commit is
//! retried. Such errors are a foreign lock or a full disk. Losing the answer would leave its changes in doubt
//! although their outcome is known. Nothing is claimed meanwhile, nor while free disk space is low. At a stop
//! the daemon gives up uncommitted answers after the drain time, and the next start finds their changes in
//! doubt.
//!
//! Results that can be read or planned again are not retried here; their next run does that.

use super::{JobContext, JobError};
use crate::store::StoreError;
use crate::telemetry::event;

impl JobContext {
    /// Repeats the attempts at a commit until one succeeds or fails for good; `action` completes "cannot …".
    pub(crate) async fn retry_commit<T, F: Future<Output = Result<T, StoreError>>>(
        &self,
        action: &'static str,
        attempt: impl Fn() -> F,
    ) -> Result<T, StoreError> {
        self.repeat_while(action, StoreError::is_transient, attempt).await
    }

    /// Repeats like [`JobContext::retry_commit`], and also after a commit of which the reply was lost. The
    /// attempt must have no further effect if that commit was made.
    pub(crate) async fn retry_conclusion<T, F: Future<Output = Result<T, StoreError>>>(
        &self,
        action: &'static str,
        attempt: impl Fn() -> F,
    ) -> Result<T, StoreError> {
        self.repeat_while(action, |error| error.is_transient() || error.is_commit_unknown(), attempt).await
    }

    async fn repeat_while<T, F: Future<Output = Result<T, StoreError>>>(
        &self,
        action: &'static str,
        may_repeat: fn(&StoreError) -> bool,
        attempt: impl Fn() -> F,
    ) -> Result<T, StoreError> {
        let until = self.moment().plus(self.commit_patience);
        self.claim_gate.repeat_commit(&*self.clock, until, action, may_repeat, attempt).await
    }

    /// Waits until changes may be claimed: no answer waits for its commit, and free disk space is above the
    /// floor.
    pub(crate) async fn wait_until_claimable(&self) -> Result<(), JobError> {
        tokio::select! {
            () = self.claim_gate.wait_until_open() => {}
            () = self.wait_for_stop() => return Err(JobError::Stopped),
        }
        let room = self.store.check_free_space(self.settings().free_floor_bytes);
        let was_low = self.claim_gate.note_disk(room.is_err());
        if let (Err(error), false) = (&room, was_low) {
            let floor_bytes = self.settings().free_floor_bytes;
            tracing::error!(event = event::DISK_LOW, floor_bytes, "{error}");
        }
        Ok(room?)
    }
}
