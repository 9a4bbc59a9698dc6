//! Error of a run.

use crate::client::wire::MalformedBody;
use crate::projection::ProjectionError;
use crate::store::StoreError;

/// Error of a run.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// The daemon is stopping; unfinished work stays due.
    #[error("tallyd is stopping")]
    Stopped,
    /// An operator paused the job during its run.
    #[error("{0}")]
    Paused(String),
    /// The platform refuses the key.
    #[error("the platform refuses the key: {0}")]
    KeyRefused(String),
    /// The platform refused this content for good.
    #[error("the platform refused {what}: {why}")]
    Rejected {
        /// Subject of the request.
        what: String,
        /// The platform's message.
        why: String,
    },
    /// All attempts failed.
    #[error("cannot read {what}: {why}; the next run reads it again")]
    GivenUp {
        /// Subject of the request.
        what: String,
        /// Reason of the last failure.
        why: String,
    },
    /// An implausible answer.
    #[error("{0}")]
    Implausible(String),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl JobError {
    /// Returns the reason of a failure that the entry of a call may cause. Other entries can still be read.
    /// `None` for an error that ends the run.
    pub(crate) fn entry_failure(&self) -> Option<String> {
        match self {
            Self::Rejected { why, .. } | Self::GivenUp { why, .. } | Self::Implausible(why) => {
                Some(why.clone())
            }
            Self::Store(error) if error.is_refusal() => Some(error.to_string()),
            Self::Stopped | Self::Paused(_) | Self::KeyRefused(_) | Self::Store(_) => None,
        }
    }
}

impl JobError {
    /// Returns true for an error that ends the run, and not only the work on its subject.
    pub(crate) fn ends_run(&self) -> bool {
        match self {
            Self::Rejected { .. } | Self::GivenUp { .. } | Self::Implausible(_) => false,
            Self::Stopped | Self::Paused(_) | Self::KeyRefused(_) | Self::Store(_) => true,
        }
    }
}

impl From<ProjectionError> for JobError {
    fn from(error: ProjectionError) -> Self {
        match error {
            ProjectionError::Damaged(why) => Self::Implausible(why),
            ProjectionError::Store(error) => Self::Store(error),
        }
    }
}

impl From<MalformedBody> for JobError {
    fn from(error: MalformedBody) -> Self {
        Self::Implausible(error.to_string())
    }
}
