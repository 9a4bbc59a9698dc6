//! The steps of one stock level's history, and their sentences.
//!
//! Steps are ordered by position. A trip and a move to *held* have only a time; they follow the last step
//! that is not later.

use crate::model::{CallEffect, Operation, Timestamp};
use crate::outbox::{self, ChangeBody};
use crate::store::{CurrentStockLevel, ExplainedChange, ExplainedEvent, QuantityStateRow, Store, StoreError};
use serde_json::Value;
use std::collections::BTreeMap;

/// A step of the history.
#[derive(Debug)]
pub(super) struct ExplainStep {
    /// The position in the journal, if any.
    pub(super) position: Option<i64>,
    /// The time in milliseconds.
    pub(super) at_ms: i64,
    /// The code: `fact`, `change`, `push`, `agreed`, `look`, `trip`, `event` or `moved`.
    pub(super) code: &'static str,
    /// The sentence.
    pub(super) text: String,
}

/// The stored data of one stock level.
pub(super) struct ExplainHistory {
    versions: Vec<QuantityStateRow>,
    changes: Vec<ExplainedChange>,
    events: Vec<ExplainedEvent>,
}

impl ExplainHistory {
    pub(super) async fn load(
        store: &Store,
        product: Option<i64>,
        spellings: &[String],
        level: &CurrentStockLevel,
    ) -> Result<Self, StoreError> {
        let pairs = match product {
            Some(product) => store.explain_quantity_states(product, level.warehouse_id).await?,
            None => Vec::new(),
        };
        let changes = store.explain_changes(spellings, level.warehouse_id).await?;
        let ids: Vec<i64> = changes.iter().map(|change| change.id).collect();
        Ok(Self { versions: pairs, events: store.explain_events(&ids).await?, changes })
    }

    /// Returns the changes that are not in a final state.
    pub(super) fn open_changes(&self) -> impl Iterator<Item = &ExplainedChange> {
        self.changes
            .iter()
            .filter(|change| matches!(change.state.as_str(), "pending" | "sending" | "held" | "in_doubt"))
    }

    /// Returns all steps in order.
    pub(super) fn steps(&self) -> Vec<ExplainStep> {
        let mut steps = self.fact_steps();
        steps.extend(self.changes.iter().map(insertion_step));
        steps.extend(self.call_steps());
        let (placed, timed): (Vec<ExplainStep>, Vec<ExplainStep>) = self
            .events
            .iter()
            .map(event_step)
            .chain(self.changes.iter().filter_map(state_step))
            .partition(|step| step.position.is_some());
        steps.extend(placed);
        // At one position a decision precedes its effects; a change comes last, because its position is that
        // of its insertion.
        let rank =
            |step: &ExplainStep| ["event", "fact", "agreed"].iter().position(|what| *what == step.code);
        steps.sort_by_key(|step| (step.position, rank(step).unwrap_or(usize::MAX)));
        for step in timed {
            let at = steps.iter().rposition(|other| other.at_ms <= step.at_ms).map_or(0, |index| index + 1);
            steps.insert(at, step);
        }
        steps
    }

    /// Returns the changes of the fact, each with its origin.
    fn fact_steps(&self) -> Vec<ExplainStep> {
        let mut steps = Vec::new();
        let mut before: Option<&QuantityStateRow> = None;
        for pair in &self.versions {
            let by = fact_source(pair);
            let text = match before {
                None => format!("{by}the platform says {}", pair.quantity),
                Some(old) => {
                    format!("{by}{} -> {}{}", old.quantity, pair.quantity, difference_by_origin(old, pair))
                }
            };
            let (position, at_ms) = (pair.position.unwrap_or(0), pair.since_ms.unwrap_or(0));
            steps.push(ExplainStep { position: Some(position), at_ms, code: "fact", text });
            before = Some(pair);
        }
        steps
    }

    /// Returns the entries that carried changes, and the matching reads that made a call unnecessary.
    fn call_steps(&self) -> Vec<ExplainStep> {
        let mut by_exchange: BTreeMap<i64, Vec<&ExplainedChange>> = BTreeMap::new();
        for change in &self.changes {
            by_exchange.entry(change.exchange_id.unwrap_or(0)).or_default().push(change);
        }
        by_exchange.remove(&0);
        by_exchange.into_iter().filter_map(|(exchange, changes)| entry_step(exchange, &changes)).collect()
    }
}

fn fact_source(pair: &QuantityStateRow) -> String {
    match (pair.exchange_id, pair.operation.as_deref()) {
        (Some(exchange), Some(operation)) => format!("exchange {exchange} ({operation}): "),
        _ if pair.position.is_some() => "a look was taken for the answer that was lost: ".into(),
        _ => String::new(),
    }
}

/// Splits a difference into our own (own delta moved) and that of others (R - O moved).
fn difference_by_origin(old: &QuantityStateRow, new: &QuantityStateRow) -> String {
    let ours = new.own_delta - old.own_delta;
    let others = new.quantity - old.quantity - ours;
    let since = match old.exchange_id {
        Some(exchange) => format!(" since exchange {exchange}"),
        None => String::new(),
    };
    let mut text = String::new();
    if ours != 0 {
        text.push_str(&format!("; our writes moved it by {ours:+}"));
    }
    if others != 0 {
        text.push_str(&format!("; others moved it by {others:+}{since}"));
    }
    text
}

fn insertion_step(change: &ExplainedChange) -> ExplainStep {
    let wanted = match outbox::read_stored_body(&change.kind, &change.body) {
        Ok(ChangeBody::QuantitySet(set)) => {
            let base = match (set.counted_at, change.base_quantity, change.base_own_delta) {
                (Some(at), _, _) if set.seen.is_none() => format!(", counted at {at}"),
                (_, Some(seen), Some(0)) => format!(", counted when the platform showed {seen}"),
                (_, Some(seen), Some(ours)) => {
                    format!(", counted when the platform showed {seen} (our sum {ours:+})")
                }
                _ => ", counted before the stock level was read".into(),
            };
            format!("set {}{base}", set.quantity)
        }
        Ok(ChangeBody::QuantityAdjust(adjust)) => format!("adjust {:+}", adjust.delta),
        Ok(_) | Err(_) => change.kind.clone(),
    };
    ExplainStep {
        position: Some(change.position.unwrap_or(0)),
        at_ms: Timestamp::parse(&change.created_at).map_or(0, |at| at.0),
        code: "change",
        text: format!("the change `{}` is inserted: {wanted}; {}", change.key, state_text(change)),
    }
}

/// Returns the current state of a change.
fn state_text(change: &ExplainedChange) -> String {
    let state = if change.state == "in_doubt" { "in doubt" } else { &change.state };
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
    let (what, position, text) = if is_write {
        let answer = match first.verdict.as_deref() {
            Some("accepted") => "",
            Some("in_doubt" | "interrupted" | "transient") => "; no answer came",
            Some(_) => "; it was refused",
            None => "; it is on its way",
        };
        (
            "push",
            exchange,
            format!("exchange {exchange} ({operation}) sends {written}{merged}: {shares}{answer}"),
        )
    } else {
        (
            "agreed",
            first.ended?,
            format!("exchange {exchange} showed {written} already, no call{merged}: {shares}"),
        )
    };
    Some(ExplainStep { position: Some(position), at_ms: first.sent_ms.unwrap_or(0), code: what, text })
}

/// Rewrites `set 47 counted at 50, 2 sold since: 45` as a sentence of the history.
fn arithmetic_text(how: &str, written: i64) -> String {
    match how.rsplit_once(": ").filter(|_| how.starts_with("set ")) {
        Some((why, result)) => {
            let detail = why.replacen("counted at", "counted when the platform showed", 1);
            let makes = if result == written.to_string() { "sent" } else { "makes" };
            format!("{}; {makes} {result}", detail.replace(", ", "; "))
        }
        None => how.to_owned(),
    }
}

fn event_step(event: &ExplainedEvent) -> ExplainStep {
    let (subject, detail) = (&event.subject, event.detail.as_deref().unwrap_or_default());
    let told: Value = serde_json::from_str(detail).unwrap_or_default();
    let (what, text) = match event.kind.as_str() {
        "look" => (
            "look",
            format!("a look for `{subject}` in exchange {} shows {detail}", event.position.unwrap_or(0)),
        ),
        "trip" => ("trip", format!("a brake holds `{subject}`: {detail}")),
        "brake.released" => ("event", "a person releases what the brake held".into()),
        "outbox.finished" => match told["landed"].as_bool() {
            Some(true) => ("event", format!("settled: what `{subject}` sent was done")),
            _ => ("event", format!("settled: what `{subject}` sent was not done, it is planned anew")),
        },
        kind => ("event", format!("{kind} `{subject}`: {detail}")),
    };
    ExplainStep { position: event.position, at_ms: event.at_ms, code: what, text }
}

/// Returns a step for a change that is held, rejected, cancelled or in doubt. Sent changes have their own
/// steps.
fn state_step(change: &ExplainedChange) -> Option<ExplainStep> {
    let state = match change.state.as_str() {
        "held" | "rejected" | "cancelled" => change.state.as_str(),
        "in_doubt" => "in doubt",
        _ => return None,
    };
    let detail = change.detail.as_deref().unwrap_or_default();
    let reason = change.reason.as_deref().unwrap_or_default();
    let text = format!("the change `{}` is {state} ({reason}): {detail}", change.key);
    Some(ExplainStep { position: None, at_ms: change.state_changed_ms?, code: "moved", text })
}
