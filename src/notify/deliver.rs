//! Delivery of the notices that are due.

use super::message::{NoticeBatch, NoticeMessage, NoticeOrigin};
use super::{NoticeSender, NotifierSettings};
use crate::model::{RetryDelays, Timestamp};
use crate::store::{Durability, Store, StoreError};
use crate::telemetry::event;

/// Sends the due notices of a notifier, oldest first, and records each outcome. After a failure the others
/// wait, because they have the same receiver. Returns the number of those that were delivered. A notice that
/// was sent but not recorded is sent again, under the same id.
pub async fn deliver_notices(
    store: &Store,
    notifier: &NotifierSettings,
    (sender, origin): (&NoticeSender, &NoticeOrigin),
    now: impl Fn() -> Timestamp,
) -> Result<usize, StoreError> {
    let mut delivered = 0;
    while let Some(row) = store.notice_next(&notifier.name, now()).await? {
        if Timestamp(row.next_ms) > now() {
            break;
        }
        let batch: NoticeBatch = serde_json::from_str(&row.batch).unwrap_or_default();
        let id = format!("{}-{}", origin.database, row.id);
        let message =
            NoticeMessage { id: &id, host: &origin.host, account: &notifier.account, batch: &batch };
        let sent = sender.send(&notifier.channel, message).await;
        let mut write = store.begin_write(Durability::Full).await?;
        let (notice, name, attempts) = (&id, &notifier.name, row.attempts + 1);
        match sent {
            Ok(()) => {
                write.notice_sent(row.id, now()).await?;
                write.commit().await?;
                delivered += 1;
                tracing::info!(
                    event = event::NOTICE_SENT,
                    notice,
                    notifier = name,
                    attempts,
                    "notice {notice} was delivered to {name}"
                );
            }
            Err(why) => {
                // The delays grow no more after these.
                let failures = usize::try_from(row.attempts).unwrap_or(usize::MAX).min(16);
                let delay = RetryDelays::slow_retry().nth(failures).unwrap_or_default();
                write.notice_failed(row.id, &why, now().plus(delay)).await?;
                write.commit().await?;
                tracing::warn!(
                    event = event::NOTICE_FAILED,
                    notice,
                    notifier = name,
                    attempts,
                    retry_s = delay.as_secs(),
                    "notice {notice} could not be delivered to {name}, next attempt in {} s: {why}",
                    delay.as_secs()
                );
                break;
            }
        }
    }
    Ok(delivered)
}
