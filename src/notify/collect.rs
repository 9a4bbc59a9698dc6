//! Collection: what needs attention now, compared with what was told.

use super::message::{NoticeBatch, NoticeItem};
use super::topic::{change_topic, finding_topic, is_told_by_change};
use super::{NoticeChannel, NoticeTopic, NotifierSettings};
use crate::health::{Finding, HealthReport};
use crate::model::time::DAY;
use crate::model::{ChangeId, Timestamp, counted};
use crate::outbox::ChangeState;
use crate::store::{ChangeSummary, Durability, Store, StoreError, WriteTransaction};
use crate::telemetry::event;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const CHANGES_PAGE: i64 = 500;
const RETENTION: Duration = DAY.saturating_mul(7);

/// Adds what began and what ended since the last call to the open notices, in one transaction.
/// Without a difference nothing is written. Fails if the database cannot be read or written; the
/// next call finds the same differences.
pub async fn collect_notices(
    store: &Store,
    notifiers: &[NotifierSettings],
    health: &HealthReport,
    now: Timestamp,
) -> Result<(), StoreError> {
    let notifiers: Vec<&NotifierSettings> = told_notifiers(notifiers).collect();
    if notifiers.is_empty() {
        return Ok(());
    }
    let told: BTreeSet<(String, String)> = store.notice_findings().await?.into_iter().collect();
    let open: BTreeMap<(String, String), &Finding> = open_findings(health, &told);
    let has_news = told.len() != open.len() || open.keys().any(|finding| !told.contains(finding));
    if !has_news && !store.notice_is_due().await? {
        return Ok(());
    }
    let mut write = store.begin_write(Durability::Full).await?;
    let mut batches = NewItems::new();
    for (topic, item) in new_findings(&told, &open, now) {
        batches.entry(topic).or_default().add(item);
    }
    collect_changes(&mut write, &mut batches, now).await?;
    if has_news {
        write.notice_findings_store(&open.into_keys().collect::<Vec<_>>()).await?;
    }
    for notifier in &notifiers {
        store_items(&mut write, notifier, &batches, now).await?;
    }
    let names: Vec<&str> = notifiers.iter().map(|notifier| notifier.name.as_str()).collect();
    let dropped = write.notice_prune(&names, now.minus(RETENTION)).await?;
    write.commit().await?;
    if dropped > 0 {
        tracing::warn!(
            event = event::NOTICE_DROPPED,
            notices = dropped,
            "{} dropped: the notifier is no longer configured, or its receiver took none for 7 days",
            counted(dropped, "notice")
        );
    }
    Ok(())
}

/// Adds an occurrence, such as a restart after a crash, to the open notices. The caller commits.
pub(crate) async fn tell_occurrence(
    write: &mut WriteTransaction,
    notifiers: &[NotifierSettings],
    topic: NoticeTopic,
    (message, todo): (&str, &str),
    now: Timestamp,
) -> Result<(), StoreError> {
    let mut items = NewItems::new();
    items.entry(topic).or_default().add(NoticeItem::new(topic, message, todo, now));
    for notifier in told_notifiers(notifiers) {
        store_items(write, notifier, &items, now).await?;
    }
    Ok(())
}

fn told_notifiers(notifiers: &[NotifierSettings]) -> impl Iterator<Item = &NotifierSettings> {
    notifiers.iter().filter(|notifier| !matches!(notifier.channel, NoticeChannel::Ping { .. }))
}

/// New items by topic. Only the items that a notice can name are kept, the others are counted.
type NewItems = BTreeMap<NoticeTopic, NoticeBatch>;

/// Returns the findings to tell by code and subject. A consequence that was told stays open; else its cause is told.
fn open_findings<'a>(
    health: &'a HealthReport,
    told: &BTreeSet<(String, String)>,
) -> BTreeMap<(String, String), &'a Finding> {
    let findings =
        health.all_findings().filter(|found| found.needs_operator() && !is_told_by_change(found.code));
    let named = findings.map(|found| {
        let (code, subjects) = found.identity();
        ((code.as_str().to_owned(), subjects.join(", ")), found)
    });
    named.filter(|(name, found)| health.findings.contains(found) || told.contains(name)).collect()
}

fn new_findings(
    told: &BTreeSet<(String, String)>,
    open: &BTreeMap<(String, String), &Finding>,
    now: Timestamp,
) -> Vec<(NoticeTopic, NoticeItem)> {
    let begun = open.iter().filter(|(name, _)| !told.contains(*name)).map(|(_, found)| {
        let topic = finding_topic(found.code);
        (topic, NoticeItem::new(topic, &*found.text, &*found.what_to_do, now))
    });
    let ended = told.iter().filter(|name| !open.contains_key(*name)).map(|(code, subject)| {
        // A finding of another version has no topic here, and goes to all that hear of the daemon.
        let topic = crate::health::FindingCode::from_code(code).map_or(NoticeTopic::Daemon, finding_topic);
        let of = if subject.is_empty() { String::new() } else { format!(" ({subject})") };
        (topic, NoticeItem::ended(topic, format!("the finding {code}{of} has cleared"), now))
    });
    begun.chain(ended).collect()
}

async fn collect_changes(
    write: &mut WriteTransaction,
    items: &mut NewItems,
    now: Timestamp,
) -> Result<(), StoreError> {
    let ended: BTreeSet<String> = write.notice_changes_end().await?.into_iter().collect();
    let mut last = ChangeId(0);
    loop {
        let rows = write.notice_changes(last, CHANGES_PAGE).await?;
        let Some(newest) = rows.last() else { break };
        last = newest.id;
        let mut told: Vec<(ChangeId, ChangeState, &str)> = Vec::with_capacity(rows.len());
        for row in rows {
            let topic = change_topic(row.state, row.reason());
            told.push((row.id, row.state, topic.as_str()));
            items.entry(topic).or_default().add(change_item(topic, row, now));
        }
        write.notice_changes_store(&told).await?;
    }
    if !ended.is_empty() {
        let left: BTreeSet<String> = write.notice_change_topics().await?.into_iter().collect();
        for topic in ended.difference(&left).filter_map(|code| NoticeTopic::from_code(code)) {
            let message = match topic {
                NoticeTopic::Rejected => "every rejected change is acknowledged".to_owned(),
                topic => format!("no change is held any more (topic {topic})"),
            };
            items.entry(topic).or_default().add(NoticeItem::ended(topic, message, now));
        }
    }
    Ok(())
}

fn change_item(topic: NoticeTopic, row: ChangeSummary, now: Timestamp) -> NoticeItem {
    let reason = row.reason();
    let todo = reason.map_or_else(|| "see: tallyd status".to_owned(), |reason| reason.advice_for(&row.key));
    let message = row.detail.or(row.reason).unwrap_or_else(|| format!("the change is {}", row.state));
    NoticeItem {
        key: Some(row.key.to_string()),
        sku: row.sku.map(|sku| sku.to_string()),
        warehouse: row.warehouse_id,
        ..NoticeItem::new(topic, message, todo, now)
    }
}

async fn store_items(
    write: &mut WriteTransaction,
    notifier: &NotifierSettings,
    items: &NewItems,
    now: Timestamp,
) -> Result<(), StoreError> {
    let wanted: Vec<(&NoticeTopic, &NoticeBatch)> =
        items.iter().filter(|(topic, _)| notifier.topics.contains(topic)).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    // A daemon that ended is told at once: the person may still see the cause.
    let is_urgent = wanted.iter().any(|(topic, _)| **topic == NoticeTopic::Daemon);
    let due = if is_urgent { now } else { now.plus(notifier.window) };
    let open = write.notice_open(&notifier.name, now).await?;
    let stored = open.as_ref().and_then(|row| serde_json::from_str(&row.batch).ok());
    let mut batch: NoticeBatch = stored.unwrap_or_default();
    wanted.into_iter().for_each(|(_, more)| batch.extend(more));
    let text = serde_json::to_string(&batch).unwrap_or_default();
    match open {
        Some(row) => write.notice_extend(row.id, &text, due).await,
        None => write.notice_begin(&notifier.name, &text, due).await,
    }
}
