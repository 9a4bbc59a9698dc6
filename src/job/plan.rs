//! What the next push would send, byte for byte, from the facts at hand; makes no call and writes nothing.
//!
//! Every request is built by the function that builds it for sending, from the same decision. What cannot be known
//! without a call is not guessed: a wish that depends on the answer to another one is named with what it waits for.

use super::preview::Preview;
use super::{JobError, Settings, deliver, push};
use crate::model::{Moment, Timestamp, WishId};
use crate::store::Store;

/// Looks at the outbox as the next push would. `at`: the time by the calendar, and since the boot in which the daemon
/// last ran; after another boot the age of facts is a guess until it runs again.
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
