//! The data of views: the values that a command prints with `--json` and that a page shows, and the changes that
//! both queue.
//!
//! The command line and the page present the same values, so neither has them. This room reads the
//! database and prints nothing. Each value that programs read has one function `…_json`; its fields are a contract.

pub(crate) mod call_budget;
pub(crate) mod call_demand;
pub(crate) mod change;
pub(crate) mod daemon_state;
pub(crate) mod decisions;
pub(crate) mod listing;
pub(crate) mod orders;
pub(crate) mod pauses;
pub(crate) mod queue;
pub(crate) mod runs;
pub(crate) mod sentence;
pub(crate) mod status;
pub(crate) mod tracked;

use crate::config::KeyError;
use crate::exec::JobError;
use crate::explain::ExplainError;
use crate::model::Timestamp;
use crate::store::{Durability, LockError, Store, StoreError, WriteTransaction};
use serde_json::Value;

/// The reason that a view, a decision or the page itself cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum ViewError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    Job(#[from] JobError),
    /// The database has no such row, or the system refused something.
    #[error("{0}")]
    Unknown(String),
    /// A name, an address or a setting that cannot be used.
    #[error("{0}")]
    Invalid(String),
    /// The decision is not possible, and nothing was changed.
    #[error("{0}")]
    Refused(String),
}

/// The sentences about a decision; [`ViewError::Refused`] has the reason of an impossible one.
pub(crate) type DecisionSentences = Result<Vec<String>, ViewError>;

impl From<ExplainError> for ViewError {
    fn from(error: ExplainError) -> Self {
        match error {
            ExplainError::Store(error) => error.into(),
            ExplainError::InvalidSku(..) => Self::Invalid(error.to_string()),
            ExplainError::AmbiguousSku(..) | ExplainError::NothingKnown(_) => {
                Self::Unknown(error.to_string())
            }
        }
    }
}

/// Runs `work` in a durable write transaction and commits it.
pub(crate) async fn write_and_commit<T>(
    store: &Store,
    work: impl AsyncFnOnce(&mut WriteTransaction) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let mut write = store.begin_write(Durability::Full).await?;
    let done = work(&mut write).await?;
    write.commit().await?;
    Ok(done)
}

/// Returns a time of the database as in all JSON outputs.
pub(crate) fn time_text(ms: i64) -> String {
    Timestamp(ms).to_rfc3339()
}

pub(crate) fn parse_json(text: Option<&str>) -> Value {
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}
