//! Changes queued from the command line, validated as the daemon validates them.

use super::context::CliContext;
use super::output::plain_line;
use super::{CommandFailure, CommandOutput, csv};
use crate::outbox;
use crate::store::Durability;
use clap::Args;
use std::collections::BTreeMap;
use std::fmt::Display;

/// The change's name.
#[derive(Debug, Args)]
pub(super) struct ChangeKeyArgs {
    /// Your own name for the change: the same key again changes nothing [default: a new one]
    #[arg(long)]
    key: Option<String>,
}

/// A change to be inserted.
pub(super) struct CliChange {
    key: String,
    kind: &'static str,
    /// The JSON text as given, so that the outbox can detect a duplicate field.
    body: String,
    priority: i64,
}

impl CliChange {
    /// Creates a change typed by an operator, with priority over bulk changes.
    pub(super) fn from_operator(
        place: &CliContext,
        kind: &'static str,
        body: impl Display,
        key: ChangeKeyArgs,
    ) -> Self {
        let key = key.key.unwrap_or_else(|| place.new_change_key());
        Self { key, kind, body: body.to_string(), priority: 1 }
    }

    /// Creates a change from a line of a file, with the line's `key` column or a derived key.
    pub(super) fn from_csv_row(
        line: &csv::CsvRow,
        kind: &'static str,
        body: impl Display,
    ) -> Result<Self, String> {
        let body = body.to_string();
        outbox::parse_body(kind, &body).map_err(|rejection| rejection.detail)?;
        let key = line.get("key").map_or_else(|| line.key.clone(), str::to_owned);
        Ok(Self { key, kind, body, priority: 0 })
    }
}

/// Warns if an earlier file of equal name holds most of these movements.
///
/// Lines were probably appended to that file, and an import would book all earlier lines again.
pub(super) async fn repeated_import_warning(
    place: &CliContext,
    changes: &[CliChange],
) -> Result<Option<String>, CommandFailure> {
    let movements: Vec<&CliChange> =
        changes.iter().filter(|change| change.kind == "quantity.adjust").collect();
    let Some((name, own)) = movements.iter().find_map(|change| import_file_of(&change.key)) else {
        return Ok(None);
    };
    let mut files: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (key, body) in place.open_or_create_store().await?.outbox_adjusts_by_prefix(name).await? {
        if let Some((_, file)) = import_file_of(&key).filter(|(of, _)| *of == name) {
            files.entry(file.to_owned()).or_default().push(body);
        }
    }
    // An unchanged file changes nothing.
    if files.contains_key(own) {
        return Ok(None);
    }
    let shared = |bodies: &Vec<String>| {
        let mut left: BTreeMap<&str, usize> = BTreeMap::new();
        bodies.iter().for_each(|body| *left.entry(body).or_default() += 1);
        let is_there = |change: &&&CliChange| match left.get_mut(change.body.as_str()) {
            Some(count) if *count > 0 => {
                *count -= 1;
                true
            }
            _ => false,
        };
        movements.iter().filter(is_there).count()
    };
    let most = files.values().map(shared).max().unwrap_or(0);
    Ok((most * 2 > movements.len()).then(|| {
        format!(
            "warning: {most} of {} movement(s) stood in an earlier file `{name}`: where lines were added to that file, they \
             are booked a second time; cancel what is too much (`tallyd outbox list`), and hand in new lines in a file \
             of their own",
            movements.len()
        )
    }))
}

/// Returns name and content digest of the file in a derived key; `None` for a key chosen by a user.
fn import_file_of(key: &str) -> Option<(&str, &str)> {
    let mut parts = key.rsplitn(3, ':');
    let (line, digest, name) = (parts.next()?, parts.next()?, parts.next()?);
    let is_ours = line.parse::<u64>().is_ok() && digest.len() == 16;
    (is_ours && digest.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some((name, digest))
}

/// Inserts changes into the outbox, all or none; `notes` tell the ignored parts of a file.
pub(super) async fn insert_changes(
    place: &CliContext,
    changes: &[CliChange],
    notes: &[String],
) -> Result<CommandOutput, CommandFailure> {
    for change in changes {
        outbox::parse_body(change.kind, &change.body).map_err(|why| CommandFailure::usage(why.detail))?;
    }
    let store = place.open_or_create_store().await?;
    let mut write = store.begin_write(Durability::Full).await?;
    let mut new = 0;
    for change in changes {
        let inserted = write.outbox_insert(&change.key, change.kind, &change.body, change.priority).await;
        let named = |error| {
            CommandFailure::failed(format!("the change `{}`: {error}; nothing was taken", change.key))
        };
        new += u64::from(inserted.map_err(named)?);
    }
    write.commit().await?;
    let known = changes.len() as u64 - new;
    let mut text = match changes {
        [only] if new == 1 => format!("change {} stands in the outbox\n", plain_line(&only.key)),
        _ => format!("{new} change(s) stand in the outbox, {known} were known by their keys\n"),
    };
    csv::append_notes(&mut text, notes);
    Ok(text.into())
}
