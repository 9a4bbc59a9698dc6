//! Changes queued from the command line, validated as the daemon validates them.

pub(super) use crate::present::queue::without_nulls;

use super::context::CliContext;
use super::output::plain_line;
use super::{CommandFailure, CommandResult, csv};
use crate::outbox;
use crate::present::queue::{QueueError, QueuedChange, queue_changes};
use clap::Args;
use std::collections::BTreeMap;
use std::fmt::Display;

impl From<QueueError> for CommandFailure {
    fn from(error: QueueError) -> Self {
        match error {
            QueueError::Body(why) => Self::usage(why),
            QueueError::Store(error) => error.into(),
            error @ QueueError::Insert { .. } => Self::failed(error.to_string()),
        }
    }
}

#[derive(Debug, Args)]
pub(super) struct ChangeKeyArgs {
    /// Key of the change; a key that exists already has no effect [default: a new key]
    #[arg(long)]
    key: Option<String>,
}

/// Creates a change from a line of a file, with the line's `key` column or a derived key.
pub(super) fn change_from_csv_row(
    line: &csv::CsvRow,
    kind: &'static str,
    body: impl Display,
) -> Result<QueuedChange, String> {
    let body = body.to_string();
    outbox::parse_body(kind, &body).map_err(|rejection| rejection.detail)?;
    let key = line.get("key").map_or_else(|| line.key.clone(), str::to_owned);
    Ok(QueuedChange { key, kind, body, priority: 0 })
}

/// Warns if an earlier file of equal name holds most of these movements.
///
/// Lines were probably appended to that file, and an import would book all earlier lines again.
pub(super) async fn repeated_import_warning(
    context: &CliContext,
    changes: &[QueuedChange],
) -> Result<Option<String>, CommandFailure> {
    let movements: Vec<&QueuedChange> =
        changes.iter().filter(|change| change.kind == "quantity.adjust").collect();
    let Some((name, digest)) = movements.iter().find_map(|change| import_file_of(&change.key)) else {
        return Ok(None);
    };
    let mut files: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
    for (key, body) in context.open_or_create_store().await?.outbox_adjusts_by_prefix(name).await? {
        if let Some((_, other)) = import_file_of(&key).filter(|(file, _)| *file == name) {
            *files.entry(other.to_owned()).or_default().entry(body).or_default() += 1;
        }
    }
    // An unchanged file changes nothing.
    if files.contains_key(digest) {
        return Ok(None);
    }
    let shared = |mut left: BTreeMap<String, usize>| {
        let is_shared = |change: &&&QueuedChange| {
            let count = left.get_mut(&change.body).filter(|count| **count > 0);
            count.map(|count| *count -= 1).is_some()
        };
        movements.iter().filter(is_shared).count()
    };
    let most = files.into_values().map(shared).max().unwrap_or(0);
    Ok((most * 2 > movements.len()).then(|| {
        format!(
            "warning: {most} of {} adjustment(s) are also in an earlier file `{name}`. If lines were appended to that \
             file, the earlier lines are applied twice: cancel the duplicates (`tallyd outbox list`), and import new \
             lines in a separate file",
            movements.len()
        )
    }))
}

/// Returns name and content digest of the file in a derived key; `None` for a key chosen by a user.
fn import_file_of(key: &str) -> Option<(&str, &str)> {
    let mut parts = key.rsplitn(3, ':');
    let (line, digest, name) = (parts.next()?, parts.next()?, parts.next()?);
    let is_derived = line.parse::<u64>().is_ok() && digest.len() == 16;
    (is_derived && digest.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some((name, digest))
}

/// Queues a change typed by an operator, with priority over bulk changes.
pub(super) async fn queue_change(
    context: &CliContext,
    kind: &'static str,
    body: impl Display,
    key: ChangeKeyArgs,
) -> CommandResult {
    let key = key.key.unwrap_or_else(|| context.new_change_key());
    let change = QueuedChange { key, kind, body: body.to_string(), priority: 1 };
    insert_changes(context, &[change], &[]).await
}

/// Inserts changes into the outbox, all or none; `notes` report the ignored parts of a file.
pub(super) async fn insert_changes(
    context: &CliContext,
    changes: &[QueuedChange],
    notes: &[String],
) -> CommandResult {
    let new = queue_changes(&context.open_or_create_store().await?, changes).await?;
    let known = changes.len() as u64 - new;
    let mut text = match changes {
        [only] if new == 1 => format!("change {} is queued\n", plain_line(&only.key)),
        _ => format!("{new} change(s) queued, {known} known already by their keys\n"),
    };
    csv::append_notes(&mut text, notes);
    Ok(text.into())
}
