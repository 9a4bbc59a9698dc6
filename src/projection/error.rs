//! Error of a projection of the journal.

use crate::store::StoreError;

/// Error of a projection of the journal.
#[derive(Debug, thiserror::Error)]
pub enum ProjectionError {
    /// The journal is damaged, or another projection version recorded it.
    #[error("{0}")]
    Damaged(String),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
