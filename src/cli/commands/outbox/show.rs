//! `outbox show`: a change with its history and evidence, for decisions that no check of the platform can
//! make.

use crate::cli::commands::journal::job::exchange_json;
use crate::cli::context::CliContext;
use crate::cli::output::{TextTable, json_line, or_dash, plain_line, pretty_json};
use crate::cli::{CommandFailure, CommandOutput, OutputArgs};
use crate::model::{ChangeId, Clock, Timestamp};
use crate::outbox::{self, ChangeBody, ChangeState, Reason};
use crate::reconcile::shipments::{ClaimedLine, check_adoption};
use crate::settle;
use crate::store::{
    CandidateShipment, ChangeRow, ExchangeRow, InDoubtRow, JournalEvent, Store, TransitionRow,
};
use serde_json::{Value, json as value};

/// The stored data of a change.
struct ShownChange {
    change: ChangeRow,
    transitions: Vec<TransitionRow>,
    decisions: Vec<JournalEvent>,
    exchanges: Vec<ExchangeRow>,
    /// The data it was last sent with.
    sent: Option<InDoubtRow>,
    /// The evidence stored with its claim, and the checks since.
    evidence: Value,
    /// The condition that settle waits for, and the time of its next check.
    waits_for: Option<(String, Option<Timestamp>)>,
    candidates: Vec<CandidateShipment>,
}

pub(super) async fn show_change(
    context: &CliContext,
    key: &str,
    reading: OutputArgs,
) -> Result<CommandOutput, CommandFailure> {
    let store = context.open_store().await?;
    let change = store.outbox_show(key).await?;
    let change =
        change.ok_or_else(|| CommandFailure::failed(format!("there is no change with the key `{key}`")))?;
    let story = ShownChange::load(context, &store, change).await?;
    Ok(if reading.json { pretty_json(&story.to_json()) } else { story.to_text() }.into())
}

/// Returns a change for `--json`.
pub(super) fn change_json(row: &ChangeRow) -> Value {
    value!({
        "id": row.id, "key": row.key, "kind": row.kind, "priority": row.priority, "state": row.state,
        "reason": row.reason, "detail": row.detail,
        "body": row.body.as_text().and_then(|body| serde_json::from_str(body).ok()).unwrap_or(Value::Null),
        "created_at": row.created_at, "settled_at": row.settled_at,
        "base_quantity": row.base_quantity, "written": row.written, "exchange_id": row.exchange_id,
        "mine": row.mine, "theirs": row.theirs,
    })
}

impl ShownChange {
    async fn load(context: &CliContext, store: &Store, change: ChangeRow) -> Result<Self, CommandFailure> {
        let id = ChangeId(change.id);
        let timeout = context.config()?.service.timeout;
        let candidates = match outbox::read_stored_body(&change.kind, &change.body) {
            Ok(ChangeBody::ShipmentCreate(ship)) if change.state == ChangeState::InDoubt.as_str() => {
                store.change_candidate_shipments(ship.order_id).await?
            }
            _ => Vec::new(),
        };
        Ok(Self {
            transitions: store.change_transitions(id).await?,
            decisions: store.change_decisions(&change.key).await?,
            exchanges: store.change_exchanges(id).await?,
            sent: store.change_last_request(id).await?,
            evidence: store.change_evidence(id).await?,
            waits_for: settle::describe_wait(store, timeout, context.clock().now(), id).await?,
            candidates,
            change,
        })
    }

    fn to_json(&self) -> Value {
        let moved = |row: &TransitionRow| {
            value!({"at": time_text(row.at_ms), "position": row.position, "state": row.state, "reason": row.reason, "detail": row.detail,
                    "exchange_id": row.exchange_id})
        };
        let decided = |row: &JournalEvent| value!({"at": time_text(row.at_ms), "position": row.position, "kind": row.kind, "detail": decision_detail(row)});
        let mut all = change_json(&self.change);
        all["what_to_do"] = self.what_to_do().into();
        all["moves"] = self.transitions.iter().map(moved).collect();
        all["decisions"] = self.decisions.iter().map(decided).collect();
        all["exchanges"] = self.exchanges.iter().map(exchange_json).collect();
        all["evidence"] = self.sent.as_ref().map_or(Value::Null, |sent| {
            value!({
                "sent_at": time_text(sent.sent_ms), "before": sent.before, "target": sent.written,
                "claimed": self.evidence["claimed"], "made_id": self.evidence["made_id"],
                "looks": self.evidence["looks"],
                "waits_for": self.waits_for.as_ref().map(|(what, _)| what),
                "next_look_at": self.next_check().map(Timestamp::to_rfc3339),
            })
        });
        let candidate = |row: &CandidateShipment| {
            let fit = self.compare_candidate(row);
            value!({"shipment_id": row.shipment_id, "items": row.items, "fits": fit.is_ok(), "why_not": fit.err()})
        };
        all["candidates"] = self.candidates.iter().map(candidate).collect();
        all
    }

    fn to_text(&self) -> String {
        let mut text = String::new();
        let head = change_json(&self.change);
        for (name, field) in head.as_object().into_iter().flatten() {
            match field {
                Value::Null => {}
                Value::String(field) => text.push_str(&format!("{name:<14} {}\n", plain_line(field))),
                other => text.push_str(&format!("{name:<14} {}\n", json_line(other))),
            }
        }
        if let Some(what) = self.what_to_do() {
            text.push_str(&format!("{:<14} {}\n", "what to do", plain_line(&what)));
        }
        text.push_str(&self.transitions_text());
        text.push_str(&self.exchanges_text());
        text.push_str(&self.evidence_text());
        text
    }

    fn transitions_text(&self) -> String {
        let decided = |row: &JournalEvent| {
            let levels = [
                time_text(row.at_ms),
                row.kind.clone(),
                or_dash::<i64>(None),
                decision_detail(row).to_string(),
            ];
            (row.position, levels)
        };
        let moved = |row: &TransitionRow| {
            let why =
                [&row.reason, &row.detail].into_iter().flatten().cloned().collect::<Vec<_>>().join(": ");
            (row.position, [time_text(row.at_ms), row.state.clone(), or_dash(row.exchange_id), why])
        };
        // The sort is stable, so that a decision precedes the move it made.
        let mut steps: Vec<_> =
            self.decisions.iter().map(decided).chain(self.transitions.iter().map(moved)).collect();
        steps.sort_by_key(|(position, _)| *position);
        let mut table = TextTable::new(&["when", "what", "exchange", "why"]);
        table.add_row([
            self.change.created_at.clone(),
            "inserted".into(),
            or_dash::<i64>(None),
            String::new(),
        ]);
        for (_, levels) in steps {
            table.add_row(levels);
        }
        format!("\nthe story\n{}", table.to_text(""))
    }

    fn exchanges_text(&self) -> String {
        let mut table = TextTable::new(&["exchange", "operation", "sent", "answered", "verdict", "status"]);
        for row in &self.exchanges {
            let levels = [
                row.id.to_string(),
                row.operation.clone(),
                time_text(row.sent_ms),
                or_dash(row.answered_ms.map(time_text)),
                or_dash(row.verdict.as_ref()),
                or_dash(row.status),
            ];
            table.add_row(levels);
        }
        format!("\nsent by\n{}", table.to_text("no call yet"))
    }

    /// Returns what was sent, the checks since, and the condition that settle waits for.
    fn evidence_text(&self) -> String {
        let Some(sent) = &self.sent else { return String::new() };
        let mut text = "\nthe evidence\n".to_owned();
        if let Some(target) = sent.written.filter(|_| sent.product.is_some()) {
            text.push_str(&format!("the stock level held {}, and {target} was sent\n", or_dash(sent.before)));
        } else if let claimed @ (Value::Object(_) | Value::Array(_)) = &self.evidence["claimed"] {
            text.push_str(&format!("sent with {}\n", json_line(claimed)));
        }
        for look in self.evidence["looks"].as_array().into_iter().flatten() {
            let at = look["at"].as_str().unwrap_or_default();
            let shown = json_line(&look["shown"]);
            text.push_str(&format!("{at}, exchange {}, showed {shown}\n", look["exchange_id"]));
        }
        if let Some((what, _)) = &self.waits_for {
            let at = self.next_check().map_or_else(String::new, |at| format!(", at {at}"));
            text.push_str(&format!("settle waits for {}{at}\n", plain_line(what)));
        }
        for row in &self.candidates {
            let fits = self
                .compare_candidate(row)
                .map_or_else(|why| format!("is not it: {why}"), |()| "fits".into());
            text.push_str(&format!("shipment {} {}\n", row.shipment_id, plain_line(&fits)));
        }
        if self.change.state == ChangeState::InDoubt.as_str()
            && self.is_shipment()
            && self.candidates.is_empty()
        {
            text.push_str("no shipment of the order is known here; its page at the platform lists them\n");
        }
        text
    }

    fn what_to_do(&self) -> Option<String> {
        let reason: Reason = self.change.reason.as_deref()?.parse().ok()?;
        Some(reason.advice_for(&self.change.key))
    }

    fn next_check(&self) -> Option<Timestamp> {
        self.waits_for.as_ref().and_then(|(_, at)| *at)
    }

    fn is_shipment(&self) -> bool {
        self.change.kind == outbox::ChangeKind::ShipmentCreate.as_str()
    }

    /// Checks that a shipment has the lines and quantities that were sent.
    fn compare_candidate(&self, row: &CandidateShipment) -> Result<(), String> {
        let claimed: Option<Vec<ClaimedLine>> = serde_json::from_value(self.evidence["claimed"].clone()).ok();
        let claimed = claimed.ok_or("what was sent cannot be read any more")?;
        check_adoption(&claimed, &row.items, None)
    }
}

fn decision_detail(row: &JournalEvent) -> Value {
    row.detail.as_deref().and_then(|detail| serde_json::from_str(detail).ok()).unwrap_or_default()
}

fn time_text(ms: i64) -> String {
    Timestamp(ms).to_rfc3339()
}
