//! The client side of requests: calls to the platform on behalf of a command (docs/rules.md 32).
//!
//! Only the holder of the lock calls the platform. Without a daemon the command takes the lock itself. Beside
//! a daemon it leaves a request in the database and waits for the answer. The calls are journalled and
//! counted like all others.
//!
//! The lock may be held by a process that does not serve requests (`run --once`, another command). So the
//! client polls the lock while it waits for the answer.

use super::server::{self, Question, Ran, Said};
use crate::client::wire::ProductKey;
use crate::config::Config;
use crate::daemon::{Daemon, StartError};
use crate::exec::{Input, JobError, Probed};
use crate::model::{Clock, JobKind, ProductId, integral};
use crate::store::{Durability, Lock, LockError, Store, StoreError};
use crate::sync::Verified;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// The time limit for an answer. It covers a call with its time-out, but not a long hold.
const PATIENCE: Duration = Duration::from_secs(60);
/// The interval at which the lock and the answer are polled.
const LOOK: Duration = Duration::from_secs(1);

/// A failure of a request to the platform.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
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
        "the tallyd at work did not answer within {} s; it may be told to wait: see tallyd status",
        PATIENCE.as_secs()
    )]
    Silent,
}

impl From<StoreError> for AskError {
    fn from(error: StoreError) -> Self {
        Self::Start(error.into())
    }
}

/// Makes one request to the platform, through the daemon if one runs.
///
/// # Errors
/// Returns [`AskError::Silent`] if a daemon runs and does not answer in time; the request is then withdrawn.
pub async fn ask(config: Config, clock: Arc<dyn Clock>, question: &Question) -> Result<Value, AskError> {
    let path = config.database.path.clone();
    match Lock::take(&path) {
        Ok(lock) => drop(lock),
        Err(LockError::Held { .. }) => return beside(config, clock, question).await,
        Err(error) => return Err(StartError::from(error).into()),
    }
    alone(config, clock, question).await
}

/// Takes the lock and answers the request in this process.
async fn alone(config: Config, clock: Arc<dyn Clock>, question: &Question) -> Result<Value, AskError> {
    let daemon = Daemon::start(config, clock).await?;
    let answer = server::answer(&daemon.context, question).await;
    daemon.close().await?;
    Ok(answer?.0)
}

/// Leaves the request for the holder of the lock and waits for the answer.
async fn beside(config: Config, clock: Arc<dyn Clock>, question: &Question) -> Result<Value, AskError> {
    let store = Store::open_beside(&config.database.path).await?;
    let (kind, input) = question.columns();
    let mut watch = store.watch();
    let mut write = store.begin(Durability::Normal).await?;
    let id = write.request_ask(&kind, &input, clock.now()).await?;
    write.commit().await?;
    let begun = Instant::now();
    let answer = loop {
        if let Some(answer) = store.request_answer(id).await? {
            break Some(answer);
        }
        if begun.elapsed() > PATIENCE || Lock::take(&config.database.path).is_ok() {
            break None;
        }
        // Both a notification and the time-out lead to the next poll.
        let _ = timeout(LOOK, watch.changed()).await;
    };
    let mut write = store.begin(Durability::Normal).await?;
    write.request_withdraw(id).await?;
    write.commit().await?;
    match answer.map(|answer| serde_json::from_str(&answer)) {
        Some(Ok(Said::Answer(value))) => Ok(value),
        Some(Ok(Said::Error(why))) => Err(AskError::Daemon(why)),
        Some(Err(why)) => Err(AskError::Daemon(format!("the daemon's answer cannot be read: {why}"))),
        None if begun.elapsed() > PATIENCE => Err(AskError::Silent),
        None => alone(config, clock, question).await,
    }
}

/// Checks the keys with one call.
pub async fn prove_keys(config: Config, clock: Arc<dyn Clock>) -> Result<Probed, AskError> {
    read_back(ask(config, clock, &Question::Keys {}).await?)
}

/// Looks up products (*Get products by SKU or UPC*), records them and returns the SKUs found.
pub async fn find_products(
    config: Config,
    clock: Arc<dyn Clock>,
    by: ProductKey,
    ids: &[String],
) -> Result<Vec<String>, AskError> {
    let question = Question::FindProducts { by_upc: matches!(by, ProductKey::Upc), ids: ids.to_vec() };
    let found = ask(config, clock, &question).await?;
    serde_json::from_value(found)
        .map_err(|why| AskError::Daemon(format!("the daemon's answer cannot be read: {why}")))
}

/// Reads the components of a kit (*Get kit components*), records them and returns the kit's product id.
pub async fn read_components(
    config: Config,
    clock: Arc<dyn Clock>,
    sku: &str,
) -> Result<ProductId, AskError> {
    let kit = ask(config, clock, &Question::Components { sku: sku.to_owned() }).await?;
    let id = kit.as_number().and_then(integral);
    id.map(ProductId).ok_or_else(|| AskError::Daemon(format!("the daemon's answer `{kit}` is no product id")))
}

/// Compares the mirror with the platform, using at most `calls` calls. Changes no fact.
pub async fn verify(config: Config, clock: Arc<dyn Clock>, calls: usize) -> Result<Verified, AskError> {
    read_back(ask(config, clock, &Question::Verify { calls }).await?)
}

/// Runs a job once, on the given input or on the work that is due.
pub async fn run_job(
    config: Config,
    clock: Arc<dyn Clock>,
    kind: JobKind,
    input: &Input,
) -> Result<Ran, AskError> {
    let question = Question::RunJob { job: kind.as_str().into(), input: input.clone() };
    read_back(ask(config, clock, &question).await?)
}

fn read_back<T: DeserializeOwned>(answer: Value) -> Result<T, AskError> {
    let why = "the daemon's answer cannot be read; is it of the same version as this program?";
    serde_json::from_value(answer).map_err(|_| AskError::Daemon(why.into()))
}
