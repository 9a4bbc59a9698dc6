//! One thing asked of the service by a command. Only the holder of the lock calls the service: without a daemon the lock
//! is taken for its time, beside one the question is left in the database and its answer waited for (rules.md 32). The
//! calls are journalled and counted like all others.
//!
//! A holder that answers nothing (a `run --once`, another command) goes away by and by, so the lock is tried again while
//! the answer is waited for.

use super::answer::{self, Question, Ran, Said};
use super::error::StartError;
use super::start::Daemon;
use crate::client::wire::ProductKey;
use crate::config::Config;
use crate::job::{Input, JobError, Probed, Verified};
use crate::model::{Clock, JobKind, ProductId, integral};
use crate::store::{Durability, Lock, LockError, Store, StoreError};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// How long an answer is waited for. A call and its time-out fit in; a person does not wait for a hold of an hour.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often the lock is tried again meanwhile, and the answer looked for in case no word of it came.
const LOOK: Duration = Duration::from_secs(1);

/// Why the service was not asked, or did not answer what was asked.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// Nothing could be asked.
    #[error(transparent)]
    Start(#[from] StartError),
    /// It was asked in vain.
    #[error(transparent)]
    Job(#[from] JobError),
    /// The daemon asked it in vain.
    #[error("{0}")]
    Daemon(String),
    /// Nobody answered.
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

/// Asks the service one thing, through the daemon if one is at work.
///
/// # Errors
/// [`AskError::Silent`] where a daemon is at work and does not answer in time; the question is withdrawn then.
pub async fn ask(config: Config, clock: Arc<dyn Clock>, question: &Question) -> Result<Value, AskError> {
    let path = config.database.path.clone();
    match Lock::take(&path) {
        Ok(lock) => drop(lock),
        Err(LockError::Held { .. }) => return beside(config, clock, question).await,
        Err(error) => return Err(StartError::from(error).into()),
    }
    alone(config, clock, question).await
}

/// Takes the lock for its time.
async fn alone(config: Config, clock: Arc<dyn Clock>, question: &Question) -> Result<Value, AskError> {
    let daemon = Daemon::start(config, clock).await?;
    let answer = answer::answer(&daemon.context, question).await;
    daemon.close().await?;
    Ok(answer?.0)
}

/// Leaves the question for the holder of the lock and waits.
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
        // A word of a write or the time: the next look tells.
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

/// Spends one call to find out the state of the keys.
pub async fn prove_keys(config: Config, clock: Arc<dyn Clock>) -> Result<Probed, AskError> {
    read_back(ask(config, clock, &Question::Keys {}).await?)
}

/// Looks products up at the service (*Get products by SKU or UPC*) and records them; the SKUs found are returned.
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

/// Asks the service what a kit is made of (*Get kit components*) and records it; the kit's product id is returned.
pub async fn read_components(
    config: Config,
    clock: Arc<dyn Clock>,
    sku: &str,
) -> Result<ProductId, AskError> {
    let kit = ask(config, clock, &Question::Components { sku: sku.to_owned() }).await?;
    let id = kit.as_number().and_then(integral);
    id.map(ProductId).ok_or_else(|| AskError::Daemon(format!("the daemon's answer `{kit}` is no product id")))
}

/// Compares mirror and service within `calls` calls; no fact changes.
pub async fn verify(config: Config, clock: Arc<dyn Clock>, calls: usize) -> Result<Verified, AskError> {
    read_back(ask(config, clock, &Question::Verify { calls }).await?)
}

/// Runs a job once, on what is due or on what is named.
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
