//! Content of a notice: what is collected, the JSON for a webhook, and the text for a command.

use super::NoticeTopic;
use crate::model::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;

const ITEMS_MAX: usize = 20;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NoticeItem {
    pub event: String,
    pub key: Option<String>,
    pub sku: Option<String>,
    pub warehouse: Option<i64>,
    pub message: String,
    pub what_to_do: String,
    pub at: String,
    pub over: bool,
}

impl NoticeItem {
    pub(crate) fn new(
        topic: NoticeTopic,
        message: impl Into<String>,
        todo: impl Into<String>,
        at: Timestamp,
    ) -> Self {
        Self {
            event: topic.as_str().to_owned(),
            key: None,
            sku: None,
            warehouse: None,
            message: message.into(),
            what_to_do: todo.into(),
            at: at.to_rfc3339(),
            over: false,
        }
    }

    pub(super) fn ended(topic: NoticeTopic, message: impl Into<String>, at: Timestamp) -> Self {
        Self { over: true, ..Self::new(topic, message, "nothing", at) }
    }
}

/// Collected items of a notice: the first of them, and the number of all by topic.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NoticeBatch {
    pub items: Vec<NoticeItem>,
    pub counts: BTreeMap<String, u64>,
    pub ended: u64,
}

impl NoticeBatch {
    /// Adds an item; beyond [`ITEMS_MAX`] it is only counted.
    pub(crate) fn add(&mut self, item: NoticeItem) {
        match item.over {
            true => self.ended += 1,
            false => *self.counts.entry(item.event.clone()).or_default() += 1,
        }
        if self.items.len() < ITEMS_MAX {
            self.items.push(item);
        }
    }

    pub(super) fn extend(&mut self, more: &Self) {
        let room = ITEMS_MAX.saturating_sub(self.items.len());
        self.items.extend(more.items.iter().take(room).cloned());
        for (topic, count) in &more.counts {
            *self.counts.entry(topic.clone()).or_default() += count;
        }
        self.ended += more.ended;
    }

    fn count(&self) -> u64 {
        self.counts.values().sum::<u64>() + self.ended
    }

    /// Returns the sentence for all items. A single item speaks for itself.
    fn headline(&self) -> String {
        let first = self.items.first().map_or("nothing", |item| item.message.as_str());
        if self.count() <= 1 {
            return first.to_owned();
        }
        let mut parts: Vec<String> = self.counts.iter().map(|(topic, n)| format!("{n} {topic}")).collect();
        if self.ended > 0 {
            parts.push(format!("{} over", self.ended));
        }
        format!("{}; the first: {first}", parts.join(", "))
    }
}

#[derive(Clone, Debug)]
pub struct NoticeOrigin {
    /// Prefix of the ids: a name of the database, random and for ever.
    pub database: String,
    pub host: String,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct NoticeMessage<'a> {
    pub(super) id: &'a str,
    pub(super) host: &'a str,
    pub(super) account: &'a str,
    pub(super) batch: &'a NoticeBatch,
}

impl NoticeMessage<'_> {
    /// Returns the JSON for a webhook. The fields of the first item stand on top, for receivers that read no list.
    pub(super) fn to_json(self) -> String {
        let batch = self.batch;
        let mut value = batch.items.first().map_or_else(|| json!({}), |item| json!(item));
        let count = batch.count();
        value["message"] = batch.headline().into();
        value["over"] = (batch.ended == count).into();
        value["id"] = self.id.into();
        value["host"] = self.host.into();
        value["account"] = self.account.into();
        value["count"] = count.into();
        value["counts"] = json!(batch.counts);
        value["items"] = json!(batch.items);
        value.to_string()
    }

    /// Returns the text for a command: a line of its own for the headline, then each item with its next step.
    pub(super) fn to_text(self) -> String {
        let Self { id, host, account, batch } = self;
        let mut text = format!("tallyd: {}\nhost {host}, account {account}, notice {id}\n", batch.headline());
        for item in &batch.items {
            let names = [
                item.key.as_ref().map(|key| format!("change {key}")),
                item.sku.as_ref().map(|sku| format!("SKU {sku}")),
                item.warehouse.map(|warehouse| format!("warehouse {warehouse}")),
            ];
            let names: Vec<String> = names.into_iter().flatten().collect();
            let names = if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) };
            let kind = if item.over { "over" } else { item.event.as_str() };
            text.push_str(&format!("\n{} {kind}{names}: {}\n", item.at, item.message));
            if !item.over {
                text.push_str(&format!("  to do: {}\n", item.what_to_do));
            }
        }
        let unnamed = batch.count().saturating_sub(batch.items.len() as u64);
        if unnamed > 0 {
            text.push_str(&format!("\nand {unnamed} more: tallyd status\n"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn rejected(n: u64) -> NoticeItem {
        let item = NoticeItem::new(NoticeTopic::Rejected, format!("no SKU {n}"), "correct it", Timestamp(0));
        NoticeItem { key: Some(format!("k{n}")), sku: Some("A".into()), warehouse: Some(3), ..item }
    }

    fn json_of(batch: &NoticeBatch) -> Value {
        let message = NoticeMessage { id: "d-7", host: "h", account: "a", batch };
        serde_json::from_str(&message.to_json()).unwrap()
    }

    #[test]
    fn a_single_item_stands_on_top_and_many_are_a_digest() {
        let mut batch = NoticeBatch::default();
        batch.add(rejected(1));
        let one = json_of(&batch);
        for (field, value) in [
            ("event", json!("rejected")),
            ("key", json!("k1")),
            ("sku", json!("A")),
            ("warehouse", json!(3)),
            ("message", json!("no SKU 1")),
            ("what_to_do", json!("correct it")),
            ("host", json!("h")),
            ("account", json!("a")),
            ("id", json!("d-7")),
            ("count", json!(1)),
            ("over", json!(false)),
        ] {
            assert_eq!(one[field], value, "{field}");
        }
        (2..=300).for_each(|n| batch.add(rejected(n)));
        batch.add(NoticeItem::ended(NoticeTopic::Key, "the finding key_refused has cleared", Timestamp(0)));
        let many = json_of(&batch);
        assert_eq!(many["message"], "300 rejected, 1 over; the first: no SKU 1");
        assert_eq!((&many["count"], &many["counts"]), (&json!(301), &json!({"rejected": 300})));
        assert_eq!(many["items"].as_array().unwrap().len(), ITEMS_MAX);
        let text = NoticeMessage { id: "d-7", host: "h", account: "a", batch: &batch }.to_text();
        assert!(text.starts_with("tallyd: 300 rejected, 1 over; the first: no SKU 1\n"), "{text}");
        assert!(
            text.contains("rejected (change k1, SKU A, warehouse 3): no SKU 1\n  to do: correct it\n"),
            "{text}"
        );
        assert!(text.ends_with("\nand 281 more: tallyd status\n"), "{text}");
    }

    #[test]
    fn a_notice_of_ends_alone_is_over() {
        let mut batch = NoticeBatch::default();
        batch.add(NoticeItem::ended(NoticeTopic::Key, "the finding key_refused has cleared", Timestamp(0)));
        assert_eq!(json_of(&batch)["over"], true);
    }
}
