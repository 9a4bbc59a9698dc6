//! The steps of one stock level's history, and their sentences.
//!
//! Steps are ordered by position. A trip and a move to *held* have only a time; they follow the last step
//! that is not later.

use crate::model::{Effect, Operation, Timestamp};
use crate::outbox::{self, Body};
use crate::store::{CellNow, PairRow, Store, StoreError, StoryEvent, StoryWish};
use serde_json::Value;
use std::collections::BTreeMap;

/// A step of the history.
#[derive(Debug)]
pub(super) struct Step {
    /// The position in the journal, if any.
    pub(super) position: Option<i64>,
    /// The time in milliseconds.
    pub(super) at_ms: i64,
    /// The code: `fact`, `wish`, `push`, `agreed`, `look`, `trip`, `event` or `moved`.
    pub(super) what: &'static str,
    /// The sentence.
    pub(super) text: String,
}

/// The stored data of one stock level.
pub(super) struct Story {
    pairs: Vec<PairRow>,
    wishes: Vec<StoryWish>,
    events: Vec<StoryEvent>,
}

impl Story {
    pub(super) async fn read(
        store: &Store,
        product: Option<i64>,
        spellings: &[String],
        cell: &CellNow,
    ) -> Result<Self, StoreError> {
        let pairs = match product {
            Some(product) => store.explain_pairs(product, cell.warehouse_id).await?,
            None => Vec::new(),
        };
        let wishes = store.explain_wishes(spellings, cell.warehouse_id).await?;
        let ids: Vec<i64> = wishes.iter().map(|wish| wish.id).collect();
        Ok(Self { pairs, events: store.explain_events(&ids).await?, wishes })
    }

    /// Returns the changes that are not in a final state.
    pub(super) fn open(&self) -> impl Iterator<Item = &StoryWish> {
        self.wishes
            .iter()
            .filter(|wish| matches!(wish.state.as_str(), "pending" | "sending" | "held" | "in_doubt"))
    }

    /// Returns all steps in order.
    pub(super) fn steps(&self) -> Vec<Step> {
        let mut steps = self.facts();
        steps.extend(self.wishes.iter().map(inserted));
        steps.extend(self.carried());
        let (placed, timed): (Vec<Step>, Vec<Step>) = self
            .events
            .iter()
            .map(happened)
            .chain(self.wishes.iter().filter_map(moved))
            .partition(|step| step.position.is_some());
        steps.extend(placed);
        // At one position a decision precedes its effects; a change comes last, because its position is that
        // of its insertion.
        let rank = |step: &Step| ["event", "fact", "agreed"].iter().position(|what| *what == step.what);
        steps.sort_by_key(|step| (step.position, rank(step).unwrap_or(usize::MAX)));
        for step in timed {
            let at = steps.iter().rposition(|other| other.at_ms <= step.at_ms).map_or(0, |index| index + 1);
            steps.insert(at, step);
        }
        steps
    }

    /// Returns the changes of the fact, each with its origin.
    fn facts(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut before: Option<&PairRow> = None;
        for pair in &self.pairs {
            let by = source(pair);
            let text = match before {
                None => format!("{by}the service says {}", pair.quantity),
                Some(old) => format!("{by}{} -> {}{}", old.quantity, pair.quantity, whose(old, pair)),
            };
            let (position, at_ms) = (pair.position.unwrap_or(0), pair.since_ms.unwrap_or(0));
            steps.push(Step { position: Some(position), at_ms, what: "fact", text });
            before = Some(pair);
        }
        steps
    }

    /// Returns the entries that carried changes, and the matching reads that made a call unnecessary.
    fn carried(&self) -> Vec<Step> {
        let mut by_exchange: BTreeMap<i64, Vec<&StoryWish>> = BTreeMap::new();
        for wish in &self.wishes {
            by_exchange.entry(wish.exchange_id.unwrap_or(0)).or_default().push(wish);
        }
        by_exchange.remove(&0);
        by_exchange.into_iter().filter_map(|(exchange, wishes)| entry(exchange, &wishes)).collect()
    }
}

fn source(pair: &PairRow) -> String {
    match (pair.exchange_id, pair.operation.as_deref()) {
        (Some(exchange), Some(operation)) => format!("exchange {exchange} ({operation}): "),
        _ if pair.position.is_some() => "a look was taken for the answer that was lost: ".into(),
        _ => String::new(),
    }
}

/// Splits a difference into our own (own delta moved) and that of others (R - O moved).
fn whose(old: &PairRow, new: &PairRow) -> String {
    let ours = new.ours - old.ours;
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

fn inserted(wish: &StoryWish) -> Step {
    let wanted = match outbox::read(&wish.kind, &wish.body) {
        Ok(Body::QuantitySet(set)) => {
            let base = match (set.counted_at, wish.base_quantity, wish.base_ours) {
                (Some(at), _, _) if set.seen.is_none() => format!(", counted at {at}"),
                (_, Some(seen), Some(0)) => format!(", counted when the service showed {seen}"),
                (_, Some(seen), Some(ours)) => {
                    format!(", counted when the service showed {seen} (our sum {ours:+})")
                }
                _ => ", counted before the cell was read".into(),
            };
            format!("set {}{base}", set.quantity)
        }
        Ok(Body::QuantityAdjust(adjust)) => format!("adjust {:+}", adjust.delta),
        Ok(_) | Err(_) => wish.kind.clone(),
    };
    Step {
        position: Some(wish.position.unwrap_or(0)),
        at_ms: Timestamp::parse(&wish.created_at).map_or(0, |at| at.0),
        what: "wish",
        text: format!("the wish `{}` is inserted: {wanted}; {}", wish.key, stands(wish)),
    }
}

/// Returns the current state of a change.
fn stands(wish: &StoryWish) -> String {
    let state = if wish.state == "in_doubt" { "in doubt" } else { &wish.state };
    match &wish.reason {
        Some(reason) => format!("now {state} ({reason})"),
        None => format!("now {state}"),
    }
}

/// Describes the entry that one exchange carried for the stock level, with each change's arithmetic.
fn entry(exchange: i64, wishes: &[&StoryWish]) -> Option<Step> {
    let first = wishes.first()?;
    let (operation, written) = (first.operation.as_deref()?, first.written?);
    let is_write = operation.parse::<Operation>().is_ok_and(|operation| operation.effect() == Effect::Write);
    let shares = wishes.iter().map(|wish| match (&wish.detail, wish.state.as_str()) {
        (Some(how), "applied") => format!("`{}` {}", wish.key, arithmetic(how, written)),
        _ => format!("`{}`", wish.key),
    });
    let shares = shares.collect::<Vec<_>>().join("; ");
    let merged =
        if wishes.len() > 1 { format!(", {} wishes in one entry", wishes.len()) } else { String::new() };
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
    Some(Step { position: Some(position), at_ms: first.sent_ms.unwrap_or(0), what, text })
}

/// Rewrites `set 47 counted at 50, 2 sold since: 45` as a sentence of the history.
fn arithmetic(how: &str, written: i64) -> String {
    match how.rsplit_once(": ").filter(|_| how.starts_with("set ")) {
        Some((why, result)) => {
            let told = why.replacen("counted at", "counted when the service showed", 1);
            let makes = if result == written.to_string() { "sent" } else { "makes" };
            format!("{}; {makes} {result}", told.replace(", ", "; "))
        }
        None => how.to_owned(),
    }
}

fn happened(event: &StoryEvent) -> Step {
    let (subject, detail) = (&event.subject, event.detail.as_deref().unwrap_or_default());
    let told: Value = serde_json::from_str(detail).unwrap_or_default();
    let (what, text) = match event.kind.as_str() {
        "look" => (
            "look",
            format!("a look for `{subject}` in exchange {} shows {detail}", event.position.unwrap_or(0)),
        ),
        "trip" => ("trip", format!("a brake holds `{subject}`: {detail}")),
        "brake.released" => ("event", "a person releases what the brake held".into()),
        "outbox.settled" => match told["landed"].as_bool() {
            Some(true) => ("event", format!("settled: what `{subject}` sent was done")),
            _ => ("event", format!("settled: what `{subject}` sent was not done, it is planned anew")),
        },
        kind => ("event", format!("{kind} `{subject}`: {detail}")),
    };
    Step { position: event.position, at_ms: event.at_ms, what, text }
}

/// Returns a step for a change that is held, rejected, cancelled or in doubt. Sent changes have their own
/// steps.
fn moved(wish: &StoryWish) -> Option<Step> {
    let state = match wish.state.as_str() {
        "held" | "rejected" | "cancelled" => wish.state.as_str(),
        "in_doubt" => "in doubt",
        _ => return None,
    };
    let detail = wish.detail.as_deref().unwrap_or_default();
    let reason = wish.reason.as_deref().unwrap_or_default();
    let text = format!("the wish `{}` is {state} ({reason}): {detail}", wish.key);
    Some(Step { position: None, at_ms: wish.moved_ms?, what: "moved", text })
}
