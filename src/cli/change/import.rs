//! Imports of files: lines of one file that contradict each other, and lines that an earlier file brought.
//!
//! A line is known by the name of its file, its parsed content and its occurrence; case does not count. So neither
//! encoding, separators and the order of lines and columns make another line, nor does the number of a second download.
//! Files of equal lines are equal under any name. A line with a `key` of its own is known by that key alone.

use super::{ChangeToQueue, FileChangeArgs};
use crate::cli::CommandFailure;
use crate::cli::local_time::local_sentence;
use crate::cli::output::NAMED_MAX;
use crate::model::case_key;
use crate::outbox::{ChangeBody, QuantitySet, TrackingSubmit, content_digest, derived_key};
use crate::store::WriteTransaction;
use clap::Args;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};

/// A person's word on lines that an earlier file brought.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct RepeatArgs {
    /// Of a file with lines that an earlier file of its name brought, queue only the others
    #[arg(long, conflicts_with = "again")]
    new_lines: bool,
    /// Queue all lines, also those that an earlier file brought: they are done once more
    #[arg(long)]
    again: bool,
}

/// Returns the key of each change: its own, that of an equal line of an earlier file, or a new one. Fails if an earlier
/// file brought a line, unless an option says what is meant.
pub(super) async fn line_keys(
    write: &mut WriteTransaction,
    changes: &[ChangeToQueue],
    FileChangeArgs { file, repeat, .. }: &FileChangeArgs,
) -> Result<Vec<String>, CommandFailure> {
    let content = |change: &ChangeToQueue| format!("{} {}", change.kind, case_key(&change.body));
    let contents: Vec<Option<String>> =
        changes.iter().map(|change| change.key.is_none().then(|| content(change))).collect();
    let mut lines: Vec<&String> = contents.iter().flatten().collect();
    lines.sort();
    let (source, whole) = (file.source_name(), content_digest(&lines));
    let beginning = |content: &String| derived_key(&source, &[content.as_str()], "");
    let earlier = write.outbox_keys_by_beginning(lines.iter().copied().map(beginning)).await?;

    let (mut keys, mut known) = (Vec::new(), Vec::new());
    let mut numbers: HashMap<&String, usize> = HashMap::new();
    for (change, content) in changes.iter().zip(&contents) {
        let Some(content) = content else {
            keys.extend(change.key.clone());
            continue;
        };
        let taken = earlier.get(&beginning(content)).map_or(&[][..], Vec::as_slice);
        let first = if repeat.again { taken.len() } else { 0 };
        let number = numbers.entry(content).or_insert(first);
        let key = taken.get(*number).cloned();
        known.extend(change.line_number.filter(|_| key.is_some()));
        *number += 1;
        keys.push(
            key.unwrap_or_else(|| derived_key(&source, &[content.as_str()], format!("{whole}:{number}"))),
        );
    }
    let refusal =
        |why: String| Err(CommandFailure::failed(format!("cannot import {}: {why}", file.shown_name())));
    if repeat.again || (repeat.new_lines && known.len() == lines.len()) {
        return Ok(keys);
    }
    if let Some((key, at)) = write.outbox_first_import(&whole).await? {
        let first = key.rsplitn(4, ':').nth(3).unwrap_or(&key);
        let at = local_sentence(format!("at {at}"));
        return refusal(format!(
            "the same lines were imported {at} from {first}; nothing was queued. If all of them are to be done once more, \
             add --again"
        ));
    }
    if known.is_empty() || repeat.new_lines {
        return Ok(keys);
    }
    let named: Vec<String> = known.iter().take(NAMED_MAX).map(u64::to_string).collect();
    refusal(format!(
        "an earlier file of this name brought {} of its {} lines, the first in line {}; nothing was queued. To queue the \
         others only, add --new-lines. If each file of this name has new movements, as one of every day, add --again: then \
         all lines are queued",
        known.len(),
        changes.len(),
        named.join(", ")
    ))
}

/// Adds the counts of one stock level, as of several shelves. Counts that differ in more than the quantity stay apart.
pub(in crate::cli) fn sum_counts(changes: Vec<ChangeToQueue>) -> Vec<ChangeToQueue> {
    let mut sums: HashMap<_, (ChangeToQueue, Value, i64)> = HashMap::new();
    for change in changes {
        let mut body: Value = serde_json::from_str(&change.body).unwrap_or_default();
        let units = body["quantity"].take().as_i64();
        let apart = change.line_number.filter(|_| units.is_none());
        let group = (change.key.clone(), case_key(&body.to_string()), apart);
        sums.entry(group).or_insert((change, body, 0)).2 += units.unwrap_or(0);
    }
    let mut changes: Vec<ChangeToQueue> = Vec::new();
    for (change, mut body, units) in sums.into_values() {
        body["quantity"] = units.into();
        let is_count = change.kind == "quantity.set";
        changes.push(if is_count { ChangeToQueue { body: body.to_string(), ..change } } else { change });
    }
    changes.sort_by_key(|change| change.line_number);
    changes
}

/// Returns a sentence for each line that contradicts another line of the file, with the index of its change.
pub(super) fn contradictions(changes: &[ChangeToQueue], bodies: &[ChangeBody]) -> BTreeMap<usize, String> {
    let (mut first, mut problems) = (HashMap::new(), BTreeMap::new());
    for (index, (change, body)) in changes.iter().zip(bodies).enumerate() {
        let subject = match body {
            ChangeBody::QuantitySet(QuantitySet { stock_level, .. }) => {
                let level = (stock_level.sku.case_key(), stock_level.warehouse_id);
                Some((
                    "counts this stock level too; --sum adds counts of one `seen` and `counted_at`",
                    format!("{level:?}"),
                ))
            }
            ChangeBody::TrackingSubmit(TrackingSubmit { shipment, lines, .. }) => {
                let lines: Vec<_> = lines.iter().flatten().map(|line| line.line).collect();
                Some(("has other values for this shipment", format!("{shipment:?} {lines:?}")))
            }
            _ => None,
        };
        let key = change.key.clone().map(|key| ("has this `key` too", key));
        for subject in key.into_iter().chain(subject) {
            let what = subject.0;
            let other = *first.entry(subject).or_insert(index);
            let is_tracking = matches!(body, ChangeBody::TrackingSubmit(_));
            if other == index || (is_tracking && changes[other].body == change.body) {
                continue;
            }
            for (one, other) in [(index, other), (other, index)] {
                let line = changes[other].line_number.unwrap_or(0);
                problems.entry(one).or_insert(format!("line {line} {what}"));
            }
        }
    }
    problems
}
