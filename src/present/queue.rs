//! The insertion of changes into the outbox, validated as the daemon validates them.

use super::ViewError;
use crate::outbox::{self, ChangeBody};
use crate::store::WriteTransaction;
use serde_json::Value;

pub(crate) struct ChangeToQueue {
    pub(crate) kind: &'static str,
    /// The JSON text as given, so that the outbox can detect a duplicate field.
    pub(crate) body: String,
    /// The key that a person chose; `None`: the line of the file has none.
    pub(crate) key: Option<String>,
    /// The line of an imported file; `None` for a change that was typed.
    pub(crate) line_number: Option<u64>,
}

impl ChangeToQueue {
    pub(crate) fn typed(key: String, kind: &'static str, body: String) -> Self {
        Self { kind, body, key: Some(key), line_number: None }
    }

    /// Parses the body as the daemon does.
    pub(crate) fn parsed_body(&self) -> Result<ChangeBody, ViewError> {
        outbox::parse_body(self.kind, &self.body).map_err(|why| ViewError::Invalid(why.detail))
    }
}

/// Inserts changes under these keys, and returns the number of new ones; a known key has no effect. After a failure the
/// caller commits nothing.
pub(crate) async fn insert_changes(
    write: &mut WriteTransaction,
    changes: &[ChangeToQueue],
    keys: &[String],
) -> Result<u64, ViewError> {
    let mut new = 0;
    for (change, key) in changes.iter().zip(keys) {
        // A change that a person typed goes before bulk changes.
        let priority = i64::from(change.line_number.is_none());
        let inserted = write.outbox_insert(key, change.kind, &change.body, priority).await;
        let failure = |error| {
            let line = change.line_number.map_or_else(String::new, |number| format!("line {number}: "));
            ViewError::Refused(format!("{line}change `{key}`: {error}; nothing was queued"))
        };
        new += u64::from(inserted.map_err(failure)?);
    }
    Ok(new)
}

/// Returns a body without the fields that have no value.
pub(crate) fn without_nulls(mut body: Value) -> Value {
    if let Value::Object(fields) = &mut body {
        fields.retain(|_, value| !value.is_null());
    }
    body
}
