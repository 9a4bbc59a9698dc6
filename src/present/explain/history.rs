//! The steps of one stock level's history, and their sentences.
//!
//! Steps are ordered by position. A trip and a move to *held* have only a time; they follow the last step
//! that is not later.

use crate::model::{CallEffect, Operation, Timestamp};
use crate::outbox::ChangeBody;
use crate::store::{CurrentStockLevel, ExplainedChange, ExplainedEvent, QuantityStateRow, Store, StoreError};
use serde_json::Value;
use std::collections::BTreeMap;

pub(crate) struct ExplainStep {
    pub(crate) position: Option<i64>,
    pub(crate) at_ms: i64,
    /// `fact`, `change`, `push`, `agreed`, `look`, `trip`, `event` or `moved`.
    pub(crate) code: &'static str,
    pub(crate) text: String,
}

pub(crate) struct ExplainHistory {
    pub(crate) facts: Vec<QuantityStateRow>,
    pub(crate) changes: Vec<ExplainedChange>,
    events: Vec<ExplainedEvent>,
}

impl ExplainHistory {
    pub(crate) async fn load(
        store: &Store,
        product: Option<i64>,
        spellings: &[String],
        level: &CurrentStockLevel,
    ) -> Result<Self, StoreError> {
        let facts = match product {
            Some(product) => store.explain_quantity_states(product, level.warehouse_id).await?,
            None => Vec::new(),
        };
        let changes = store.explain_changes(spellings, level.warehouse_id).await?;
        let ids: Vec<i64> = changes.iter().map(|change| change.id).collect();
        Ok(Self { facts, events: store.explain_events(&ids).await?, changes })
    }

    pub(crate) fn open_changes(&self) -> impl Iterator<Item = &ExplainedChange> {
        self.changes
            .iter()
            .filter(|change| matches!(change.state.as_str(), "pending" | "sending" | "held" | "in_doubt"))
    }

    pub(crate) fn steps(&self) -> Vec<ExplainStep> {
        let mut steps = self.fact_steps();
        steps.extend(self.changes.iter().map(insertion_step));
        steps.extend(self.call_steps());
        let others = self.events.iter().map(event_step).chain(self.changes.iter().filter_map(state_step));
        let (positioned, timed): (Vec<_>, Vec<_>) = others.partition(|step| step.position.is_some());
        steps.extend(positioned);
        // At one position a decision precedes its effects; a change comes last, because its position is that
        // of its insertion.
        let rank =
            |step: &ExplainStep| ["event", "fact", "agreed"].iter().position(|code| *code == step.code);
        steps.sort_by_key(|step| (step.position, rank(step).unwrap_or(usize::MAX)));
        for step in timed {
            let at = steps.iter().rposition(|other| other.at_ms <= step.at_ms).map_or(0, |index| index + 1);
            steps.insert(at, step);
        }
        steps
    }

    fn fact_steps(&self) -> Vec<ExplainStep> {
        let earlier = std::iter::once(None).chain(self.facts.iter().map(Some));
        let step = |(fact, earlier): (&QuantityStateRow, Option<&QuantityStateRow>)| {
            let source = fact_source(fact);
            let text = match earlier {
                None => format!("{source}the platform shows {}", fact.quantity),
                Some(old) => {
                    let origins = difference_by_origin(old, fact);
                    format!("{source}{} -> {}{origins}", old.quantity, fact.quantity)
                }
            };
            let (position, at_ms) = (Some(fact.position.unwrap_or(0)), fact.since_ms.unwrap_or(0));
            ExplainStep { position, at_ms, code: "fact", text }
        };
        self.facts.iter().zip(earlier).map(step).collect()
    }

    /// Returns the entries that carried changes, and the matching reads that made a call unnecessary.
    fn call_steps(&self) -> Vec<ExplainStep> {
        let mut by_exchange: BTreeMap<i64, Vec<&ExplainedChange>> = BTreeMap::new();
        for change in &self.changes {
            if let Some(exchange) = change.exchange_id {
                by_exchange.entry(exchange).or_default().push(change);
            }
        }
        by_exchange.into_iter().filter_map(|(exchange, changes)| entry_step(exchange, &changes)).collect()
    }
}

fn fact_source(fact: &QuantityStateRow) -> String {
    match (fact.exchange_id, fact.operation.as_deref()) {
        (Some(exchange), Some(operation)) => format!("exchange {exchange} ({operation}): "),
        _ if fact.position.is_some() => "a check replaced the lost answer: ".into(),
        _ => String::new(),
    }
}

/// Splits a difference into our own (own delta moved) and that of others (R - O moved).
fn difference_by_origin(old: &QuantityStateRow, new: &QuantityStateRow) -> String {
    let own = new.own_delta - old.own_delta;
    let others = new.quantity - old.quantity - own;
    let mut text = String::new();
    if own != 0 {
        text.push_str(&format!("; our writes changed it by {own:+}"));
    }
    if others != 0 {
        let since =
            old.exchange_id.map_or_else(String::new, |exchange| format!(" since exchange {exchange}"));
        text.push_str(&format!("; others changed it by {others:+}{since}"));
    }
    text
}

fn insertion_step(change: &ExplainedChange) -> ExplainStep {
    let request = match &change.content.body {
        Ok(ChangeBody::QuantitySet(set)) => {
            let base = match (set.counted_at, change.base_quantity, change.base_own_delta) {
                (Some(at), _, _) if set.seen.is_none() => format!(", counted at {at}"),
                (_, Some(seen), Some(0)) => format!(", counted while the platform showed {seen}"),
                (_, Some(seen), Some(own)) => {
                    format!(", counted while the platform showed {seen} (own delta {own:+})")
                }
                _ => ", counted before the stock level was read".into(),
            };
            format!("set {}{base}", set.quantity)
        }
        Ok(ChangeBody::QuantityAdjust(adjust)) => format!("adjust {:+}", adjust.delta),
        Ok(_) | Err(_) => change.content.kind.clone(),
    };
    let at_ms = Timestamp::parse(&change.created_at).map_or(0, |at| at.0);
    let text = format!("change `{}` inserted: {request}; {}", change.key, state_text(change));
    ExplainStep { position: Some(change.position.unwrap_or(0)), at_ms, code: "change", text }
}

fn state_text(change: &ExplainedChange) -> String {
    let state = change.state.replace('_', " ");
    match &change.reason {
        Some(reason) => format!("now {state} ({reason})"),
        None => format!("now {state}"),
    }
}

/// Describes the entry that one exchange carried for the stock level, with each change's arithmetic.
fn entry_step(exchange: i64, changes: &[&ExplainedChange]) -> Option<ExplainStep> {
    let first = changes.first()?;
    let (operation, written) = (first.operation.as_deref()?, first.written?);
    let is_write =
        operation.parse::<Operation>().is_ok_and(|operation| operation.effect() == CallEffect::Write);
    let shares = changes.iter().map(|change| match (&change.detail, change.state.as_str()) {
        (Some(how), "applied") => format!("`{}` {}", change.key, arithmetic_text(how, written)),
        _ => format!("`{}`", change.key),
    });
    let shares = shares.collect::<Vec<_>>().join("; ");
    let merged =
        if changes.len() > 1 { format!(", {} changes in one entry", changes.len()) } else { String::new() };
    let (position, code, text) = if is_write {
        let answer = match first.verdict.as_deref() {
            Some("accepted") => "",
            Some("in_doubt" | "interrupted" | "transient") => "; no answer received",
            Some(_) => "; the platform refused it",
            None => "; in progress",
        };
        let text = format!("exchange {exchange} ({operation}) sends {written}{merged}: {shares}{answer}");
        (exchange, "push", text)
    } else {
        let text =
            format!("exchange {exchange} already showed {written}, so no call was made{merged}: {shares}");
        (first.ended?, "agreed", text)
    };
    Some(ExplainStep { position: Some(position), at_ms: first.sent_ms.unwrap_or(0), code, text })
}

/// Rewrites `counted 47 while the platform showed 50, 2 sold since: 45` as a sentence of the history.
fn arithmetic_text(how: &str, written: i64) -> String {
    match how.rsplit_once(": ").filter(|_| how.starts_with("counted ")) {
        Some((why, result)) => {
            let makes = if result == written.to_string() { "sent" } else { "makes" };
            format!("{}; {makes} {result}", why.replace(", ", "; "))
        }
        None => how.to_owned(),
    }
}

fn event_step(event: &ExplainedEvent) -> ExplainStep {
    let (subject, detail) = (&event.subject, event.detail.as_deref().unwrap_or_default());
    let fields: Value = serde_json::from_str(detail).unwrap_or_default();
    let (code, text) = match (event.kind.as_str(), fields["landed"].as_bool()) {
        ("look", _) => {
            let exchange = event.position.unwrap_or(0);
            ("look", format!("a check of `{subject}` in exchange {exchange} showed {detail}"))
        }
        ("trip", _) => ("trip", format!("a brake held `{subject}`: {detail}")),
        ("brake.released", _) => ("event", "an operator released the changes that the brake held".into()),
        ("outbox.finished", Some(true)) => ("event", format!("settled: the call of `{subject}` took effect")),
        ("outbox.finished", _) => {
            let text = format!("settled: the call of `{subject}` had no effect; the change is planned again");
            ("event", text)
        }
        (kind, _) => ("event", format!("{kind} `{subject}`: {detail}")),
    };
    ExplainStep { position: event.position, at_ms: event.at_ms, code, text }
}

/// Returns a step for a change that is held, rejected, cancelled or in doubt. Sent changes have their own
/// steps.
fn state_step(change: &ExplainedChange) -> Option<ExplainStep> {
    if !matches!(change.state.as_str(), "held" | "rejected" | "cancelled" | "in_doubt") {
        return None;
    }
    let state = change.state.replace('_', " ");
    let detail = change.detail.as_deref().unwrap_or_default();
    let reason = change.reason.as_deref().unwrap_or_default();
    let text = format!("change `{}` is {state} ({reason}): {detail}", change.key);
    Some(ExplainStep { position: None, at_ms: change.state_changed_ms?, code: "moved", text })
}
