//! One thing asked of the service while no daemon runs: the lock is taken for its time, the calls are journalled and
//! counted like all others, and the run says nothing about its job's data.
//!
//! Beside a running daemon this fails with [`LockError::Held`](crate::store::LockError): only the holder of the lock
//! calls the service.

use super::start::{Daemon, StartError};
use crate::client::wire::ProductKey;
use crate::config::Config;
use crate::job::{self, Context, Finished, Input, JobError, Verified};
use crate::journal::RunOutcome;
use crate::model::{Clock, JobKind, ProductId, RunId, Trigger};
use crate::store::{Durability, LockError, StoreError};
use std::sync::Arc;

/// Why the service was not asked, or did not answer what was asked.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// Nothing could be asked.
    #[error(transparent)]
    Start(#[from] StartError),
    /// It was asked in vain.
    #[error(transparent)]
    Job(#[from] JobError),
}

impl From<StoreError> for AskError {
    fn from(error: StoreError) -> Self {
        Self::Start(error.into())
    }
}

impl AskError {
    /// Whether a daemon holds the lock, so that it alone may ask.
    pub fn is_held(&self) -> bool {
        match self {
            Self::Start(StartError::Lock(LockError::Held { .. })) => true,
            Self::Start(_) | Self::Job(_) => false,
        }
    }
}

/// Spends one call to find out whether the service accepts the keys. Takes the lock for its time.
pub async fn prove_keys(config: Config, clock: Arc<dyn Clock>) -> Result<bool, StartError> {
    let asked = Asked::begin(config, clock, JobKind::WorkQueue).await?;
    let works = job::key_works(asked.context(), asked.run).await;
    asked.end(&works).await?;
    Ok(works.unwrap_or(false))
}

/// Looks products up at the service (*Get products by SKU or UPC*) and records them; the SKUs found are returned.
pub async fn find_products(
    config: Config,
    clock: Arc<dyn Clock>,
    by: ProductKey,
    ids: &[String],
) -> Result<Vec<String>, AskError> {
    let asked = Asked::begin(config, clock, JobKind::Balances).await?;
    let found = job::find_products(asked.context(), asked.run, by, ids).await;
    asked.end(&found).await?;
    Ok(found?)
}

/// Asks the service what a kit is made of (*Get kit components*) and records it; the kit's product id is returned.
pub async fn read_components(
    config: Config,
    clock: Arc<dyn Clock>,
    sku: &str,
) -> Result<ProductId, AskError> {
    let asked = Asked::begin(config, clock, JobKind::KitComponents).await?;
    let kit = job::read_components(asked.context(), asked.run, sku).await;
    asked.end(&kit).await?;
    Ok(kit?)
}

/// Compares mirror and service within `calls` calls; no fact changes.
pub async fn verify(config: Config, clock: Arc<dyn Clock>, calls: usize) -> Result<Verified, AskError> {
    let asked = Asked::begin(config, clock, JobKind::Balances).await?;
    let verified = job::verify(asked.context(), asked.run, calls).await;
    asked.end(&verified).await?;
    Ok(verified?)
}

/// Runs a job once, on what is due or on what is named. Takes the lock for its time.
pub async fn run_job(
    config: Config,
    clock: Arc<dyn Clock>,
    kind: JobKind,
    input: &Input,
) -> Result<Finished, StartError> {
    let daemon = Daemon::start(config, clock).await?;
    let finished = job::run_on(&daemon.context, kind, Trigger::Operator, input).await?;
    daemon.close().await?;
    Ok(finished)
}

/// A daemon that was started to ask one thing.
struct Asked {
    daemon: Daemon,
    run: RunId,
}

impl Asked {
    async fn begin(config: Config, clock: Arc<dyn Clock>, kind: JobKind) -> Result<Self, StartError> {
        let daemon = Daemon::start(config, clock).await?;
        let context = &daemon.context;
        let mut write = context.store.begin(Durability::Normal).await?;
        let run = write.run_begin(context.session_id, kind, Trigger::Operator, context.now()).await?;
        write.commit().await?;
        Ok(Self { daemon, run })
    }

    fn context(&self) -> &Context {
        &self.daemon.context
    }

    /// Writes down how it went, and closes.
    async fn end<T>(self, asked: &Result<T, JobError>) -> Result<(), StoreError> {
        let (outcome, summary) = match asked {
            Ok(_) => (RunOutcome::Ok, "a person asked, and the service answered".to_owned()),
            Err(error) => (RunOutcome::Failed, error.to_string()),
        };
        let context = self.context();
        let mut write = context.store.begin(Durability::Full).await?;
        write.run_close(self.run, outcome, &summary, context.now()).await?;
        write.commit().await?;
        self.daemon.close().await
    }
}
