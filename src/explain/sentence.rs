//! Sentences of the steps, made from their fields.

use super::step::{ExplainStep, StepCall, StepChange, StepKind};
use crate::model::in_words;
use serde_json::Value;
use std::fmt;

impl fmt::Display for ExplainStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let change = self.changes.first().cloned().unwrap_or_default();
        let key = &change.key;
        let detail = self.detail.as_deref().unwrap_or_default();
        let named = self.by.iter().filter(|by| by.contains(':'));
        let name: String = named.map(|by| format!("; by {by}")).collect();
        f.write_str(&match self.kind {
            StepKind::Fact => self.fact_text(),
            StepKind::Change => {
                format!("change `{key}` inserted: {detail}; now {}{name}", state_text(&change))
            }
            StepKind::Push | StepKind::Agreed => self.entry_text(),
            StepKind::Look => {
                let exchange = self.call.as_ref().map_or(0, |call| call.exchange);
                format!("a check of `{key}` in exchange {exchange} showed {detail}")
            }
            StepKind::Trip => format!("a brake held `{key}`: {detail}"),
            StepKind::Event => self.event_text(key, detail) + &name,
            StepKind::Moved => {
                let [state, reason, detail] =
                    [&change.state, &change.reason, &change.detail].map(|text| text.as_deref().unwrap_or(""));
                format!("change `{key}` is {} ({reason}): {detail}", in_words(state))
            }
        })
    }
}

fn call_text(call: &StepCall) -> String {
    format!("exchange {} ({})", call.exchange, call.operation.as_deref().unwrap_or_default())
}

impl ExplainStep {
    fn fact_text(&self) -> String {
        let source = match &self.call {
            Some(call) => call_text(call) + ": ",
            None if self.position > Some(0) => "a check replaced the lost answer: ".to_owned(),
            None => String::new(),
        };
        let after = self.after.unwrap_or_default();
        let Some(before) = self.before else { return format!("{source}the platform shows {after}") };
        let ours = self.ours.map(|ours| format!("; our writes changed it by {ours:+}"));
        let others = self.others.map(|others| format!("; others changed it by {others:+}"));
        let since = self.since_exchange.map(|exchange| format!(" since exchange {exchange}"));
        let parts = [Some(format!("{source}{before} -> {after}")), ours, others, since];
        parts.into_iter().flatten().collect()
    }

    /// Returns the entry that a call carried, with the arithmetic of each change.
    fn entry_text(&self) -> String {
        let (Some(call), Some(written)) = (&self.call, self.after) else { return String::new() };
        let head = match self.kind {
            StepKind::Agreed => {
                format!("exchange {} already showed {written}, so no call was made", call.exchange)
            }
            _ => format!("{} sends {written}", call_text(call)),
        };
        let count = match self.changes.len() {
            0 | 1 => String::new(),
            count => format!(", {count} changes in one entry"),
        };
        let change = |change: &StepChange| match (&change.detail, change.state.as_deref()) {
            (Some(how), Some("applied")) => format!("`{}` {how}", change.key),
            _ => format!("`{}`", change.key),
        };
        let changes: Vec<String> = self.changes.iter().map(change).collect();
        let end = match (self.kind, call.verdict.as_deref()) {
            (StepKind::Agreed, _) | (_, Some("accepted")) => "",
            (_, Some("in_doubt" | "interrupted" | "transient")) => "; no answer received",
            (_, Some(_)) => "; the platform refused it",
            (_, None) => "; in progress",
        };
        format!("{head}{count}: {}{end}", changes.join("; "))
    }

    fn event_text(&self, key: &str, detail: &str) -> String {
        let fields: Value = serde_json::from_str(detail).unwrap_or_default();
        match (self.event.as_deref().unwrap_or_default(), fields["took_effect"].as_bool()) {
            ("brake.released", _) => "an operator released the changes that the brake held".into(),
            ("outbox.finished", Some(true)) => format!("settled: the call of `{key}` took effect"),
            ("outbox.finished", _) => {
                format!("settled: the call of `{key}` had no effect; the change is planned again")
            }
            (event, _) => format!("{event} `{key}`: {detail}"),
        }
    }
}

fn state_text(change: &StepChange) -> String {
    let state = in_words(change.state.as_deref().unwrap_or_default());
    match &change.reason {
        Some(reason) => format!("{state} ({reason})"),
        None => state,
    }
}
