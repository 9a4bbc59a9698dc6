//! Imports of files: the warning about a file that holds most lines of an earlier one.

use super::CliChange;
use crate::cli::CommandFailure;
use crate::store::Store;
use std::collections::BTreeMap;

/// Warns if an earlier file of equal name holds most of these movements.
///
/// Lines were probably appended to that file, and an import would book all earlier lines again.
pub(super) async fn repeated_import_warning(
    store: &Store,
    changes: &[CliChange],
) -> Result<Option<String>, CommandFailure> {
    let movements: Vec<&CliChange> =
        changes.iter().filter(|change| change.kind == "quantity.adjust").collect();
    let Some((name, digest)) = movements.iter().find_map(|change| import_file_of(&change.key)) else {
        return Ok(None);
    };
    let mut files: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
    for (key, body) in store.outbox_adjusts_by_prefix(name).await? {
        if let Some((_, other)) = import_file_of(&key).filter(|(file, _)| *file == name) {
            *files.entry(other.to_owned()).or_default().entry(body).or_default() += 1;
        }
    }
    // An unchanged file changes nothing.
    if files.contains_key(digest) {
        return Ok(None);
    }
    let shared = |mut left: BTreeMap<String, usize>| {
        let is_shared = |change: &&&CliChange| {
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
