//! The report of queued changes: a text, or JSON with stable fields, and the exit code of a wait.
//!
//! | exit code | outcome with `--wait` |
//! |---|---|
//! | 0 | every change is applied |
//! | 4 | a change is rejected or cancelled |
//! | 5 | a change is held |
//! | 6 | a change is still pending, being sent or in doubt |
//! | 7 | the same, and no daemon runs |
//!
//! Of several changes the first row that fits counts, from 4 on. Without `--wait` the exit code is 0.

use crate::cli::CommandOutput;
use crate::cli::local_time::local_sentence;
use crate::cli::output::{SHOWN_MAX, plain_line, pretty_json, shortened};
use crate::health::{Finding, FindingCode};
use crate::model::{counted, format_elapsed, in_words};
use crate::outbox::{ChangeState, quote_key};
use crate::store::ChangeSummary;
use serde_json::{Value, json};
use std::time::Duration;

/// The exit code of a wait that ends before the outcome.
pub(super) const EXIT_OUTSTANDING: u8 = 6;

pub(super) struct QueueReport {
    pub(super) rows: Vec<ChangeSummary>,
    /// The number of new changes; the keys of the others were known already.
    pub(super) new: u64,
    /// Obstacles of pending changes, the first cause first.
    pub(super) obstacles: Vec<Finding>,
    /// The longest wait; `None`: nothing was waited for.
    pub(super) wait: Option<Duration>,
}

fn is_outstanding(row: &ChangeSummary) -> bool {
    row.state == ChangeState::Pending || row.state.is_in_flight()
}

fn is_absence(found: &Finding) -> bool {
    matches!(found.code, FindingCode::NoDaemon | FindingCode::DatabaseReplaced)
}

impl QueueReport {
    pub(super) fn warning(&self) -> Option<String> {
        // A wait of seconds needs no warning.
        let lasts =
            |found: &&Finding| !matches!(found.code, FindingCode::QuotaHold | FindingCode::Unreachable);
        let obstacle = self.rows.iter().find_map(|row| self.obstacle_of(row)).filter(lasts)?;
        self.wait.is_none().then(|| local_sentence(obstacle.full_text()))
    }

    /// Returns the obstacle of the change. What was sent already needs a daemon alone.
    fn obstacle_of(&self, row: &ChangeSummary) -> Option<&Finding> {
        let concerns = |found: &&Finding| row.state == ChangeState::Pending || is_absence(found);
        self.obstacles.first().filter(concerns).filter(|_| is_outstanding(row))
    }

    fn has_daemon(&self) -> bool {
        !self.obstacles.iter().any(is_absence)
    }

    /// Returns one object for a change that was typed, else a list.
    pub(super) fn to_json_output(&self, is_single: bool) -> CommandOutput {
        let rows: Vec<Value> = self.rows.iter().map(|row| self.row_json(row)).collect();
        let text = match rows.as_slice() {
            [row] if is_single => pretty_json(row),
            rows => pretty_json(rows),
        };
        CommandOutput { text, exit_code: self.exit_code() }
    }

    fn row_json(&self, row: &ChangeSummary) -> Value {
        let (message, what_to_do) = self.message_and_step(row);
        json!({
            "id": row.id, "key": row.key, "state": row.state, "reason": row.reason,
            "message": message, "what_to_do": what_to_do,
        })
    }

    pub(super) fn to_text_output(&self) -> CommandOutput {
        let known = (self.rows.len() as u64).saturating_sub(self.new);
        let mut text = match self.rows.as_slice() {
            [only] if self.new == 1 => format!("change {} is queued\n", plain_line(&only.key)),
            _ => format!("{} queued, {known} known already by their keys\n", counted(self.new, "change")),
        };
        if let Some(limit) = self.wait {
            text.push_str(&self.outcome_text(limit));
        }
        CommandOutput { text, exit_code: self.exit_code() }
    }

    fn outcome_text(&self, limit: Duration) -> String {
        if let [only] = self.rows.as_slice() {
            return self.row_text(only, limit);
        }
        let count = |state: &ChangeState| self.rows.iter().filter(|row| row.state == *state).count();
        let states = ChangeState::ALL.iter().filter(|state| count(state) > 0);
        let counts: Vec<String> =
            states.map(|state| format!("{} {}", count(state), in_words(state.as_str()))).collect();
        let open = self.rows.iter().filter(|row| row.state != ChangeState::Applied);
        let open = shortened(open.map(|row| self.row_text(row, limit)), SHOWN_MAX);
        format!("{}\n{}", counts.join(", "), open.concat())
    }

    fn row_text(&self, row: &ChangeSummary, limit: Duration) -> String {
        let (message, what_to_do) = self.message_and_step(row);
        let mut text = format!("change {} is {}", plain_line(&row.key), in_words(row.state.as_str()));
        if let Some(reason) = &row.reason {
            text.push_str(&format!(" ({reason})"));
        }
        if is_outstanding(row) && self.has_daemon() {
            text.push_str(&format!(" after {}", format_elapsed(limit)));
        }
        text.push_str(&format!(": {}\n", plain_line(&local_sentence(message))));
        if let Some(what_to_do) = what_to_do {
            text.push_str(&format!("what to do: {}\n", plain_line(&what_to_do)));
        }
        text
    }

    /// Returns what became of the change, and the next step of a person if there is one.
    fn message_and_step(&self, row: &ChangeSummary) -> (String, Option<String>) {
        if let Some(obstacle) = self.obstacle_of(row) {
            return (obstacle.text.clone(), Some(obstacle.what_to_do.clone()));
        }
        let usual = match row.state {
            ChangeState::Pending => "queued, and not sent yet",
            ChangeState::Sending => "sent, and the answer has not come yet",
            ChangeState::InDoubt => "sent, and its outcome is not known yet",
            ChangeState::Applied => "the platform accepted it",
            ChangeState::Held => "it waits for a decision",
            ChangeState::Rejected => "it was refused for good",
            ChangeState::Cancelled => "it was withdrawn",
        };
        let is_late = self.wait.is_some() && is_outstanding(row);
        let look = is_late.then(|| format!("see: tallyd outbox show {}", quote_key(&row.key)));
        let advice = row.reason().map(|reason| reason.advice_for(&row.key));
        (row.detail.clone().unwrap_or_else(|| usual.to_owned()), advice.or(look))
    }

    fn exit_code(&self) -> u8 {
        let outstanding = if self.has_daemon() { EXIT_OUTSTANDING } else { 7 };
        let code = |row: &ChangeSummary| match row.state {
            ChangeState::Applied => None,
            ChangeState::Rejected | ChangeState::Cancelled => Some(4),
            ChangeState::Held => Some(5),
            ChangeState::Pending | ChangeState::Sending | ChangeState::InDoubt => Some(outstanding),
        };
        self.rows.iter().filter_map(code).min().filter(|_| self.wait.is_some()).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health;
    use crate::model::ChangeId;
    use ChangeState::{Applied, Cancelled, Held, InDoubt, Pending, Rejected, Sending};

    const WAIT: Option<Duration> = Some(Duration::from_secs(30));

    fn report(states: &[ChangeState], obstacle: Option<FindingCode>, wait: Option<Duration>) -> QueueReport {
        let row = |(id, state): (i64, &ChangeState)| ChangeSummary {
            id: ChangeId(id),
            key: format!("key-{id}").into(),
            sku: None,
            warehouse_id: None,
            state: *state,
            reason: None,
            detail: None,
        };
        let obstacles = obstacle.map(|code| Finding { code, ..health::database_replaced() });
        let obstacles = obstacles.into_iter().collect();
        QueueReport { rows: (1..).zip(states).map(row).collect(), new: states.len() as u64, obstacles, wait }
    }

    #[test]
    fn the_exit_code_is_that_of_the_worst_outcome() {
        let cases: [(&[ChangeState], Option<FindingCode>, u8); 13] = [
            (&[Applied], None, 0),
            (&[Applied], Some(FindingCode::NoDaemon), 0),
            (&[Rejected], None, 4),
            (&[Cancelled], None, 4),
            (&[Held], None, 5),
            (&[Pending], None, 6),
            (&[Pending], Some(FindingCode::KeyRefused), 6),
            (&[Sending], None, 6),
            (&[InDoubt], None, 6),
            (&[Pending], Some(FindingCode::NoDaemon), 7),
            (&[InDoubt], Some(FindingCode::DatabaseReplaced), 7),
            (&[Applied, Held, Rejected, Pending], None, 4),
            (&[Applied, Held, Pending], Some(FindingCode::NoDaemon), 5),
        ];
        for (states, obstacle, code) in cases {
            assert_eq!(report(states, obstacle, WAIT).exit_code(), code, "{states:?} {obstacle:?}");
            assert_eq!(report(states, obstacle, None).exit_code(), 0, "nothing was waited for");
        }
    }

    #[test]
    fn a_text_lists_what_is_not_applied_and_counts_the_rest() {
        let states = [vec![Applied; 3], vec![Pending; SHOWN_MAX + 2]].concat();
        let text = report(&states, None, WAIT).to_text_output().text;
        assert!(text.contains("22 pending, 3 applied\n"), "{text}");
        assert_eq!(text.matches("is pending after 30 s: queued, and not sent yet\n").count(), SHOWN_MAX);
        assert!(text.ends_with("and 2 more"), "{text}");
    }

    #[test]
    fn one_change_is_an_object_and_a_file_is_a_list() {
        let one = |is_single| report(&[Held], None, WAIT).to_json_output(is_single).text;
        assert!(serde_json::from_str::<Value>(&one(true)).unwrap().is_object());
        assert_eq!(serde_json::from_str::<Value>(&one(false)).unwrap().as_array().map(Vec::len), Some(1));
    }
}
