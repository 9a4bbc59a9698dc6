//! Plan of the next push, byte for byte, from the stored facts. Makes no call and writes nothing.
//!
//! The functions that build requests for sending build them here too, from the same decisions. Unknown
//! answers are not guessed: a change that depends on another one's answer is listed with its reason.

use super::preview::Preview;
use super::{JobError, Settings, deliver, push};
use crate::model::{Moment, Timestamp, WishId};
use crate::store::Store;

/// Plans the next push from the outbox.
///
/// `at`: the calendar time, and the time since the boot in which the daemon last ran. After another boot the
/// age of facts is an estimate until the daemon runs again.
pub async fn preview(
    store: &Store,
    settings: &Settings,
    at: (Timestamp, Moment),
) -> Result<Preview, JobError> {
    let mut preview = Preview::default();
    for row in store.outbox_pending().await? {
        preview.keys.insert(WishId(row.id), row.key);
    }
    push::foresee(store, settings, at, &mut preview).await?;
    deliver::foresee(store, &mut preview).await?;
    preview.note_the_rest();
    Ok(preview)
}
