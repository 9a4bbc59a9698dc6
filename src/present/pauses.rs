//! Pauses of jobs: the limits of an operator's fields, and the sentence of a pause.

use super::{DecisionSentences, ViewError, write_and_commit};
use crate::config;
use crate::model::{JobKind, Timestamp};
use crate::store::{PauseRow, Store};
use std::time::Duration;

/// Longest duration of a pause; a longer one is a pause that an operator ends.
const LONGEST_PAUSE: Duration = Duration::from_hours(24 * 366);

/// Parses the duration of a pause, such as `30m`, `2h` or `1d`.
pub(crate) fn parse_pause_duration(text: &str) -> Result<Duration, String> {
    let duration = config::parse_duration(text)?;
    if (Duration::from_secs(1)..=LONGEST_PAUSE).contains(&duration) {
        Ok(duration)
    } else {
        Err("a pause lasts from 1s to 366d".into())
    }
}

pub(crate) fn parse_pause_reason(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("write the reason".into()),
        _ if text.contains('\0') => Err("the reason has a character U+0000: remove it".into()),
        why => Ok(why.to_owned()),
    }
}

/// Pauses jobs, and returns a sentence about each. The pause of a job that was resumed at once has none.
pub(crate) async fn pause_jobs(
    store: &Store,
    kinds: &[JobKind],
    (duration, why): (Option<Duration>, &str),
    now: Timestamp,
) -> DecisionSentences {
    let until = duration.map(|duration| now.plus(duration));
    write_and_commit(store, async |write| {
        for kind in kinds {
            write.pause_begin(*kind, until, why, now).await?;
        }
        Ok(())
    })
    .await?;
    let paused = store.pause_list(now).await?;
    let is_named = |pause: &&PauseRow| kinds.iter().any(|kind| kind.as_str() == pause.job);
    Ok(paused.iter().filter(is_named).map(pause_text).collect())
}

pub(crate) async fn resume_job(store: &Store, kind: JobKind, now: Timestamp) -> DecisionSentences {
    match write_and_commit(store, async |write| write.pause_end(kind, now).await).await? {
        true => Ok(vec![format!("{kind}: resumed")]),
        false => Err(ViewError::Refused(format!("{kind}: it was not paused"))),
    }
}

pub(crate) fn pause_text(pause: &PauseRow) -> String {
    let effect = match JobKind::from_code(&pause.job) {
        Some(JobKind::Push) => "changes are accepted and wait; reads go on",
        _ => "a run in progress ends as usual, and no other begins",
    };
    format!("{}; {effect}", pause.to_text())
}
