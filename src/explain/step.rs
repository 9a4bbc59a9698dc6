//! Steps in the history of one stock level, from stored rows.
//!
//! Steps are ordered by position. A trip and a move to *held* have only a time; they follow the last step
//! that is not later.

use crate::model::{CallEffect, Operation, Timestamp};
use crate::outbox::{ChangeBody, ChangeState};
use crate::store::{ChangeRow, ExplainedChange, ExplainedEvent, QuantityStateRow};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StepKind {
    /// Quantity that the platform showed, or that a decision set.
    #[default]
    Fact,
    Change,
    Push,
    Agreed,
    Look,
    Trip,
    /// Decision of a person or of `settle`.
    Event,
    /// State in which a change stays.
    Moved,
}

#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct StepChange {
    pub key: String,
    /// State; `None` for the change of an event.
    pub state: Option<String>,
    pub reason: Option<String>,
    /// Reason, as a sentence; for an applied change its arithmetic.
    pub detail: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct StepCall {
    pub exchange: i64,
    pub operation: Option<String>,
    /// Verdict; `None`: in progress, or not known here.
    pub verdict: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct ExplainStep {
    /// Position in the journal; 0: before the first known one.
    pub position: Option<i64>,
    pub at: Timestamp,
    pub kind: StepKind,
    /// Quantity before, of a count its base.
    pub before: Option<i64>,
    /// Quantity after, of a count the counted one, of a check the shown one.
    pub after: Option<i64>,
    /// Units that our write or adjust adds.
    pub ours: Option<i64>,
    pub others: Option<i64>,
    /// Author: a name with its sort, such as `user:anna`, or `tallyd`, `others`, `tallyd and others`, or `program` for one
    /// beside the database. `None`: the platform showed it, or no author is recorded.
    pub by: Option<String>,
    /// Changes of the step, in the order of their ids.
    pub changes: Vec<StepChange>,
    pub call: Option<StepCall>,
    /// Exchange before which others changed nothing.
    pub since_exchange: Option<i64>,
    pub event: Option<String>,
    /// Request of an insertion, result of a check, numbers of a trip, or the event's detail as JSON.
    pub detail: Option<String>,
}

impl ExplainStep {
    fn new(kind: StepKind, position: Option<i64>, at_ms: i64) -> Self {
        Self { kind, position, at: Timestamp(at_ms), ..Self::default() }
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({
            "position": self.position, "at": self.at.to_rfc3339(), "what": self.kind, "text": self.to_string(),
            "before": self.before, "after": self.after, "ours": self.ours, "others": self.others,
            "by": self.by, "changes": self.changes, "call": self.call,
            "since_exchange": self.since_exchange, "event": self.event, "detail": self.detail,
        })
    }
}

/// Returns the steps of a stock level, oldest first.
pub(super) fn history_steps(
    facts: &[QuantityStateRow],
    changes: &[ExplainedChange],
    events: &[ExplainedEvent],
) -> Vec<ExplainStep> {
    let earlier = std::iter::once(None).chain(facts.iter().map(Some));
    let mut steps: Vec<ExplainStep> = facts.iter().zip(earlier).map(fact_step).collect();
    steps.extend(changes.iter().map(insertion_step));
    let mut entries: BTreeMap<i64, Vec<&ExplainedChange>> = BTreeMap::new();
    for change in changes {
        if let Some(exchange) = change.change.exchange_id {
            entries.entry(exchange).or_default().push(change);
        }
    }
    steps.extend(entries.into_iter().filter_map(|(exchange, changes)| entry_step(exchange, &changes, facts)));
    let others = events.iter().map(event_step).chain(changes.iter().filter_map(state_step));
    let (positioned, timed): (Vec<_>, Vec<_>) = others.partition(|step| step.position.is_some());
    steps.extend(positioned);
    // At one position a decision precedes its effects; a change comes last, because its position is that of
    // its insertion.
    let rank = |step: &ExplainStep| match step.kind {
        StepKind::Event => 0,
        StepKind::Fact => 1,
        StepKind::Agreed => 2,
        _ => 3,
    };
    steps.sort_by_key(|step| (step.position, rank(step)));
    for step in timed {
        let at = steps.iter().rposition(|other| other.at <= step.at).map_or(0, |index| index + 1);
        steps.insert(at, step);
    }
    steps
}

/// Splits a difference into our own (own delta moved) and that of others (R - O moved).
fn fact_step((fact, earlier): (&QuantityStateRow, Option<&QuantityStateRow>)) -> ExplainStep {
    let position = Some(fact.position.unwrap_or(0));
    let mut step = ExplainStep::new(StepKind::Fact, position, fact.since_ms.unwrap_or(0));
    step.after = Some(fact.quantity);
    if let (Some(exchange), Some(operation)) = (fact.exchange_id, fact.operation.clone()) {
        step.call = Some(StepCall { exchange, operation: Some(operation), verdict: None });
    }
    let Some(old) = earlier else { return step };
    let own = fact.own_delta - old.own_delta;
    let others = fact.quantity - old.quantity - own;
    step.before = Some(old.quantity);
    step.ours = Some(own).filter(|units| *units != 0);
    step.others = Some(others).filter(|units| *units != 0);
    step.since_exchange = step.others.and(old.exchange_id);
    let by = match (step.ours, step.others) {
        (Some(_), Some(_)) => Some("tallyd and others"),
        (Some(_), None) => Some("tallyd"),
        (None, Some(_)) => Some("others"),
        (None, None) => None,
    };
    step.by = by.map(str::to_owned);
    step
}

fn insertion_step(ExplainedChange { change, .. }: &ExplainedChange) -> ExplainStep {
    let at_ms = Timestamp::parse(&change.created_at).map_or(0, |at| at.0);
    let mut step = ExplainStep::new(StepKind::Change, Some(change.position.unwrap_or(0)), at_ms);
    let request = match &change.content.body {
        Ok(ChangeBody::QuantitySet(set)) => {
            (step.before, step.after) = (change.base_quantity.map(|base| base.0), Some(set.quantity.0));
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
        Ok(ChangeBody::QuantityAdjust(adjust)) => {
            step.ours = Some(adjust.delta);
            format!("adjust {:+}", adjust.delta)
        }
        Ok(_) | Err(_) => change.content.kind.clone(),
    };
    step.by = change.inserted_by.clone().or_else(|| Some("program".into()));
    step.changes = vec![step_change(change)];
    step.detail = Some(request);
    step
}

fn step_change(change: &ChangeRow) -> StepChange {
    StepChange {
        key: change.key.to_string(),
        state: Some(change.state.to_string()),
        reason: change.reason.clone(),
        detail: change.detail.clone(),
    }
}

/// Returns the step of the entry that an exchange carried, or of the matching read that made a call unnecessary.
fn entry_step(
    exchange: i64,
    changes: &[&ExplainedChange],
    facts: &[QuantityStateRow],
) -> Option<ExplainStep> {
    let first = changes.first()?;
    let (operation, written) = (first.operation.clone()?, first.change.written?);
    let is_write =
        Operation::from_code(&operation).is_some_and(|operation| operation.effect() == CallEffect::Write);
    let (kind, position) =
        if is_write { (StepKind::Push, exchange) } else { (StepKind::Agreed, first.ended?) };
    let mut step = ExplainStep::new(kind, Some(position), first.sent_ms.unwrap_or(0));
    let known = facts.iter().rev().find(|fact| fact.position.unwrap_or(0) <= exchange);
    step.before = if is_write { known.map(|fact| fact.quantity) } else { Some(written) };
    step.after = Some(written);
    step.by = Some("tallyd".into());
    step.changes = changes.iter().map(|of| step_change(&of.change)).collect();
    step.call = Some(StepCall { exchange, operation: Some(operation), verdict: first.verdict.clone() });
    Some(step)
}

fn event_step(event: &ExplainedEvent) -> ExplainStep {
    let kind = match event.kind.as_str() {
        "look" => StepKind::Look,
        "trip" => StepKind::Trip,
        _ => StepKind::Event,
    };
    let mut step = ExplainStep::new(kind, event.position, event.at_ms);
    if kind == StepKind::Look {
        step.after = event.detail.as_ref().and_then(|shown| shown.parse().ok());
        step.call = event.position.map(|exchange| StepCall { exchange, operation: None, verdict: None });
    }
    if event.kind != "brake.released" {
        let key = event.subject.to_string();
        step.changes = vec![StepChange { key, state: None, reason: None, detail: None }];
    }
    step.by = event.decided_by.clone().or_else(|| Some("tallyd".into()));
    step.event = (kind == StepKind::Event).then(|| event.kind.clone());
    step.detail = event.detail.clone();
    step
}

/// Returns a step for a change that is held, rejected, cancelled or in doubt. Sent changes have their own steps.
fn state_step(of: &ExplainedChange) -> Option<ExplainStep> {
    use ChangeState::{Cancelled, Held, InDoubt, Rejected};
    if !matches!(of.change.state, Held | Rejected | Cancelled | InDoubt) {
        return None;
    }
    let mut step = ExplainStep::new(StepKind::Moved, None, of.state_changed_ms?);
    step.changes = vec![step_change(&of.change)];
    Some(step)
}
