//! The client side of requests: calls to the platform on behalf of a command (docs/rules.md 19).
//!
//! Only the holder of the lock calls the platform. Without a daemon the command takes the lock itself. Beside
//! a daemon it leaves a request in the database and waits for the answer. The calls are journalled and
//! counted like all others.
//!
//! The lock may be held by a process that does not serve requests (`run --once`, another command). So the
//! client polls the lock while it waits for the answer.

use super::server::{self, ControlReply, ControlRequest};
use crate::config::Config;
use crate::daemon::{Daemon, StartError};
use crate::exec::JobError;
use crate::model::Clock;
use crate::store::{DatabaseLock, Durability, LockError, Store, StoreError};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// The time limit for an answer. It covers a call with its time-out, but not a long hold.
const REPLY_TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// A failure of a request to the platform.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The request could not be made.
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Job(#[from] JobError),
    #[error("{0}")]
    Daemon(String),
    /// The daemon and the command have different versions.
    #[error("the daemon's answer cannot be read ({0}); check that daemon and command have the same version")]
    Unreadable(#[from] serde_json::Error),
    /// No answer came within the time limit.
    #[error(
        "the running tallyd did not answer within {} s, so the request was withdrawn; what keeps it: tallyd status",
        REPLY_TIMEOUT.as_secs()
    )]
    ReplyTimeout,
}

impl From<StoreError> for ControlError {
    fn from(error: StoreError) -> Self {
        Self::Start(error.into())
    }
}

/// Makes one request to the platform, through the daemon if one runs, and returns its answer. Returns
/// [`ControlError::ReplyTimeout`] if a daemon runs and does not answer in time; the request is then withdrawn.
pub async fn send_control_request<T: DeserializeOwned>(
    config: Config,
    clock: Arc<dyn Clock>,
    request: &ControlRequest,
) -> Result<T, ControlError> {
    let answer = match DatabaseLock::acquire(&config.database.path) {
        Ok(lock) => {
            drop(lock);
            match answer_in_process(config.clone(), Arc::clone(&clock), request).await {
                Err(ControlError::Start(StartError::Led { .. })) => {
                    ask_daemon(config, clock, request).await?
                }
                answered => answered?,
            }
        }
        Err(LockError::Held { .. }) => ask_daemon(config, clock, request).await?,
        Err(error) => return Err(StartError::from(error).into()),
    };
    Ok(serde_json::from_value(answer)?)
}

async fn answer_in_process(
    config: Config,
    clock: Arc<dyn Clock>,
    request: &ControlRequest,
) -> Result<Value, ControlError> {
    let daemon = Daemon::start(config, clock).await?;
    let answer = server::answer_request(&daemon.context, request).await;
    daemon.close().await?;
    Ok(answer?.0)
}

async fn ask_daemon(
    config: Config,
    clock: Arc<dyn Clock>,
    request: &ControlRequest,
) -> Result<Value, ControlError> {
    let store = Store::open_beside(config.database.location().map_err(StartError::from)?).await?;
    let (kind, input) = request.to_columns();
    let mut watch = store.watch_writes();
    let mut write = store.begin_write(Durability::Normal).await?;
    let id = write.request_add(&kind, &input, clock.now()).await?;
    write.commit().await?;
    let begun = Instant::now();
    let answer = loop {
        if let Some(answer) = store.request_answer(id).await? {
            break Some(answer);
        }
        let is_daemon_gone = match store.leader().await? {
            Some(leader) => leader.session_id.is_none(),
            None => DatabaseLock::acquire(&config.database.path).is_ok(),
        };
        if begun.elapsed() > REPLY_TIMEOUT || is_daemon_gone {
            break None;
        }
        // Both a notification and the time-out lead to the next poll.
        let _ = timeout(POLL_INTERVAL, watch.wait_for_write()).await;
    };
    let mut write = store.begin_write(Durability::Normal).await?;
    write.request_withdraw(id).await?;
    write.commit().await?;
    match answer.map(|answer| serde_json::from_str::<ControlReply>(&answer)).transpose()? {
        Some(reply) => reply.map_err(ControlError::Daemon),
        None if begun.elapsed() > REPLY_TIMEOUT => Err(ControlError::ReplyTimeout),
        None => answer_in_process(config, clock, request).await,
    }
}
