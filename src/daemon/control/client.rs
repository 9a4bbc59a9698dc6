//! The client side of requests: calls to the platform on behalf of a command (docs/rules.md 32).
//!
//! Only the holder of the lock calls the platform. Without a daemon the command takes the lock itself. Beside
//! a daemon it leaves a request in the database and waits for the answer. The calls are journalled and
//! counted like all others.
//!
//! The lock may be held by a process that does not serve requests (`run --once`, another command). So the
//! client polls the lock while it waits for the answer.

use super::server::{self, ControlReply, ControlRequest, RunResult};
use crate::client::wire::ProductKey;
use crate::config::Config;
use crate::daemon::{Daemon, StartError};
use crate::exec::{JobError, KeyStatus, RunArgs};
use crate::model::{Clock, JobKind, ProductId};
use crate::store::{DatabaseLock, Durability, LockError, Store, StoreError};
use crate::sync::VerifyReport;
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
    /// The call failed.
    #[error(transparent)]
    Job(#[from] JobError),
    /// The daemon reported an error.
    #[error("{0}")]
    Daemon(String),
    /// No answer came within the time limit.
    #[error(
        "the running tallyd did not answer within {} s; the platform may have ordered a wait: see tallyd status",
        REPLY_TIMEOUT.as_secs()
    )]
    ReplyTimeout,
}

impl From<StoreError> for ControlError {
    fn from(error: StoreError) -> Self {
        Self::Start(error.into())
    }
}

/// Makes one request to the platform, through the daemon if one runs.
///
/// # Errors
/// Returns [`ControlError::ReplyTimeout`] if a daemon runs and does not answer in time; the request is then withdrawn.
pub async fn send_control_request(
    config: Config,
    clock: Arc<dyn Clock>,
    request: &ControlRequest,
) -> Result<Value, ControlError> {
    let path = config.database.path.clone();
    match DatabaseLock::acquire(&path) {
        Ok(lock) => drop(lock),
        Err(LockError::Held { .. }) => return ask_daemon(config, clock, request).await,
        Err(error) => return Err(StartError::from(error).into()),
    }
    answer_in_process(config, clock, request).await
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
    let store = Store::open_beside(&config.database.path).await?;
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
        if begun.elapsed() > REPLY_TIMEOUT || DatabaseLock::acquire(&config.database.path).is_ok() {
            break None;
        }
        // Both a notification and the time-out lead to the next poll.
        let _ = timeout(POLL_INTERVAL, watch.wait_for_write()).await;
    };
    let mut write = store.begin_write(Durability::Normal).await?;
    write.request_withdraw(id).await?;
    write.commit().await?;
    match answer.map(|answer| serde_json::from_str(&answer)) {
        Some(Ok(ControlReply::Answer(value))) => Ok(value),
        Some(Ok(ControlReply::Error(why))) => Err(ControlError::Daemon(why)),
        Some(Err(why)) => Err(ControlError::Daemon(format!("the daemon's answer cannot be read: {why}"))),
        None if begun.elapsed() > REPLY_TIMEOUT => Err(ControlError::ReplyTimeout),
        None => answer_in_process(config, clock, request).await,
    }
}

/// Checks the keys with one call.
pub async fn check_keys(config: Config, clock: Arc<dyn Clock>) -> Result<KeyStatus, ControlError> {
    parse_reply(send_control_request(config, clock, &ControlRequest::Keys {}).await?)
}

/// Looks up products (*Get products by SKU or UPC*), records them and returns the SKUs found.
pub async fn find_products(
    config: Config,
    clock: Arc<dyn Clock>,
    by: ProductKey,
    ids: &[String],
) -> Result<Vec<String>, ControlError> {
    let request = ControlRequest::FindProducts { by_upc: matches!(by, ProductKey::Upc), ids: ids.to_vec() };
    parse_reply(send_control_request(config, clock, &request).await?)
}

/// Reads the components of a kit (*Get kit components*), records them and returns the kit's product id.
pub async fn read_components(
    config: Config,
    clock: Arc<dyn Clock>,
    sku: &str,
) -> Result<ProductId, ControlError> {
    let request = ControlRequest::Components { sku: sku.to_owned() };
    parse_reply(send_control_request(config, clock, &request).await?)
}

/// Compares the mirror with the platform, using at most `calls` calls. Changes no fact.
pub async fn verify_mirror(
    config: Config,
    clock: Arc<dyn Clock>,
    calls: usize,
) -> Result<VerifyReport, ControlError> {
    parse_reply(send_control_request(config, clock, &ControlRequest::Verify { calls }).await?)
}

/// Runs a job once, on the given input or on the work that is due.
pub async fn run_job(
    config: Config,
    clock: Arc<dyn Clock>,
    kind: JobKind,
    input: &RunArgs,
) -> Result<RunResult, ControlError> {
    let request = ControlRequest::RunJob { job: kind.as_str().into(), input: input.clone() };
    parse_reply(send_control_request(config, clock, &request).await?)
}

fn parse_reply<T: DeserializeOwned>(answer: Value) -> Result<T, ControlError> {
    let why = "the daemon's answer cannot be read; check that daemon and command have the same version";
    serde_json::from_value(answer).map_err(|_| ControlError::Daemon(why.into()))
}
