//! Sentences of the steps, made from their fields.

use super::step::{ExplainStep, StepAuthor, StepChange, StepKind};
use serde_json::Value;
use std::fmt;

impl fmt::Display for ExplainStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let change = self.changes.first().cloned().unwrap_or_default();
        let key = &change.key;
        let detail = self.detail.as_deref().unwrap_or_default();
        match self.kind {
            StepKind::Fact => self.write_fact(f),
            StepKind::Change => {
                write!(f, "change `{key}` inserted: {detail}; now {}", state_text(&change))?;
                self.write_name(f)
            }
            StepKind::Push | StepKind::Agreed => self.write_entry(f),
            StepKind::Look => {
                let exchange = self.call.as_ref().map_or(0, |call| call.exchange);
                write!(f, "a check of `{key}` in exchange {exchange} showed {detail}")
            }
            StepKind::Trip => write!(f, "a brake held `{key}`: {detail}"),
            StepKind::Event => {
                self.write_event(f, key, detail)?;
                self.write_name(f)
            }
            StepKind::Moved => {
                let [state, reason, detail] =
                    [&change.state, &change.reason, &change.detail].map(|text| text.as_deref().unwrap_or(""));
                write!(f, "change `{key}` is {} ({reason}): {detail}", state.replace('_', " "))
            }
        }
    }
}

impl ExplainStep {
    fn write_name(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.by {
            Some(StepAuthor::Named(name)) => write!(f, "; by {name}"),
            _ => Ok(()),
        }
    }

    fn write_fact(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.call {
            Some(call) => {
                write!(f, "exchange {} ({}): ", call.exchange, call.operation.as_deref().unwrap_or_default())?
            }
            None if self.position > Some(0) => f.write_str("a check replaced the lost answer: ")?,
            None => {}
        }
        let after = self.after.unwrap_or_default();
        let Some(before) = self.before else { return write!(f, "the platform shows {after}") };
        write!(f, "{before} -> {after}")?;
        if let Some(ours) = self.ours {
            write!(f, "; our writes changed it by {ours:+}")?;
        }
        if let Some(others) = self.others {
            write!(f, "; others changed it by {others:+}")?;
        }
        self.since_exchange.map_or(Ok(()), |exchange| write!(f, " since exchange {exchange}"))
    }

    /// Writes the entry that a call carried, with the arithmetic of each change.
    fn write_entry(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Some(call), Some(written)) = (&self.call, self.after) else { return Ok(()) };
        let exchange = call.exchange;
        match self.kind {
            StepKind::Agreed => {
                write!(f, "exchange {exchange} already showed {written}, so no call was made")?
            }
            _ => {
                let operation = call.operation.as_deref().unwrap_or_default();
                write!(f, "exchange {exchange} ({operation}) sends {written}")?;
            }
        }
        if self.changes.len() > 1 {
            write!(f, ", {} changes in one entry", self.changes.len())?;
        }
        for (index, change) in self.changes.iter().enumerate() {
            let separator = if index == 0 { ": " } else { "; " };
            write!(f, "{separator}`{}`", change.key)?;
            if let (Some(how), Some("applied")) = (&change.detail, change.state.as_deref()) {
                write!(f, " {}", arithmetic_text(how, written))?;
            }
        }
        f.write_str(match (self.kind, call.verdict.as_deref()) {
            (StepKind::Agreed, _) | (_, Some("accepted")) => "",
            (_, Some("in_doubt" | "interrupted" | "transient")) => "; no answer received",
            (_, Some(_)) => "; the platform refused it",
            (_, None) => "; in progress",
        })
    }

    fn write_event(&self, f: &mut fmt::Formatter<'_>, key: &str, detail: &str) -> fmt::Result {
        let fields: Value = serde_json::from_str(detail).unwrap_or_default();
        match (self.event.as_deref().unwrap_or_default(), fields["took_effect"].as_bool()) {
            ("brake.released", _) => f.write_str("an operator released the changes that the brake held"),
            ("outbox.finished", Some(true)) => write!(f, "settled: the call of `{key}` took effect"),
            ("outbox.finished", _) => {
                write!(f, "settled: the call of `{key}` had no effect; the change is planned again")
            }
            (event, _) => write!(f, "{event} `{key}`: {detail}"),
        }
    }
}

fn state_text(change: &StepChange) -> String {
    let state = change.state.as_deref().unwrap_or_default().replace('_', " ");
    match &change.reason {
        Some(reason) => format!("{state} ({reason})"),
        None => state,
    }
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
