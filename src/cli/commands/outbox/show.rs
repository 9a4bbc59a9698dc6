//! `outbox show`: a change with its history and evidence, for decisions that no check of the platform can
//! make.

use super::select::require_key;
use crate::cli::commands::journal::job::exchange_json;
use crate::cli::context::CliContext;
use crate::cli::local_time::{local_sentence, local_text, local_time};
use crate::cli::output::{TableCell, TextTable, cells, json_line, parse_json, plain_line, time_text};
use crate::cli::{CommandFailure, CommandResult, OutputArgs};
use crate::model::Timestamp;
use crate::outbox::{ChangeBody, ChangeState, Reason};
use crate::reconcile::shipments::{ClaimedLine, check_adoption};
use crate::settle;
use crate::store::{
    CandidateShipment, ChangeRow, ExchangeRow, InDoubtRow, JournalEvent, Store, TransitionRow,
};
use serde_json::{Value, json};

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

pub(super) async fn show_change(context: &CliContext, key: &str, output: OutputArgs) -> CommandResult {
    let store = context.open_store().await?;
    let key = require_key(&store, key).await?;
    let change = store.outbox_show(&key).await?;
    let change = change.ok_or_else(|| CommandFailure::failed(format!("no change has the key `{key}`")))?;
    let shown = ShownChange::load(context, &store, change).await?;
    Ok(output.render(|| shown.to_json(), || shown.to_text()).into())
}

pub(super) fn change_json(row: &ChangeRow) -> Value {
    json!({
        "id": row.id, "key": row.key, "kind": row.content.kind, "priority": row.priority, "state": row.state,
        "reason": row.reason, "detail": row.detail,
        "body": parse_json(row.content.stored_body.as_text()),
        "created_at": row.created_at, "inserted_by": row.inserted_by, "settled_at": row.settled_at,
        "base_quantity": row.base_quantity, "written": row.written, "exchange_id": row.exchange_id,
        "mine": row.mine, "theirs": row.theirs,
    })
}

impl ShownChange {
    async fn load(context: &CliContext, store: &Store, change: ChangeRow) -> Result<Self, CommandFailure> {
        let id = change.id;
        let timeout = context.config()?.service.timeout;
        let candidates = match &change.content.body {
            Ok(ChangeBody::ShipmentCreate(ship)) if change.state == ChangeState::InDoubt => {
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
            waits_for: settle::describe_wait(store, timeout, context.now(), id).await?,
            candidates,
            change,
        })
    }

    fn to_json(&self) -> Value {
        let transition = |row: &TransitionRow| {
            json!({"at": time_text(row.at_ms), "position": row.position, "state": row.state, "reason": row.reason, "detail": row.detail,
                    "exchange_id": row.exchange_id})
        };
        let decision = |row: &JournalEvent| json!({"at": time_text(row.at_ms), "position": row.position, "kind": row.kind, "by": row.decided_by, "detail": parse_json(row.detail.as_deref())});
        let mut all = change_json(&self.change);
        all["what_to_do"] = self.what_to_do().into();
        all["moves"] = self.transitions.iter().map(transition).collect();
        all["decisions"] = self.decisions.iter().map(decision).collect();
        all["exchanges"] = self.exchanges.iter().map(exchange_json).collect();
        all["evidence"] = self.sent.as_ref().map_or(Value::Null, |sent| {
            json!({
                "sent_at": time_text(sent.sent_ms), "before": sent.before, "target": sent.written,
                "claimed": self.evidence["claimed"], "made_id": self.evidence["made_id"],
                "looks": self.evidence["looks"],
                "waits_for": self.waits_for.as_ref().map(|(what, _)| what),
                "next_look_at": self.waits_for.as_ref().and_then(|(_, at)| at.map(Timestamp::to_rfc3339)),
            })
        });
        let candidate = |row: &CandidateShipment| {
            let comparison = self.compare_candidate(row);
            json!({"shipment_id": row.shipment_id, "items": row.items, "fits": comparison.is_ok(),
                    "why_not": comparison.err()})
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
                Value::String(field) => {
                    let field = match name.as_str() {
                        "created_at" | "settled_at" => local_text(field),
                        "detail" => local_sentence(field),
                        _ => field.clone(),
                    };
                    text.push_str(&format!("{name:<14} {}\n", plain_line(&field)));
                }
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
        let decision = |row: &JournalEvent| {
            let detail = parse_json(row.detail.as_deref()).to_string();
            (row.position, cells![Timestamp(row.at_ms), row.kind, row.decided_by, "-", detail])
        };
        let transition = |row: &TransitionRow| {
            let why =
                [&row.reason, &row.detail].into_iter().flatten().cloned().collect::<Vec<_>>().join(": ");
            (row.position, cells![Timestamp(row.at_ms), row.state, "-", row.exchange_id, local_sentence(why)])
        };
        // The sort is stable, so that a decision precedes the move it made.
        let mut steps: Vec<_> =
            self.decisions.iter().map(decision).chain(self.transitions.iter().map(transition)).collect();
        steps.sort_by_key(|(position, _)| *position);
        let insertion =
            cells![local_text(&self.change.created_at), "inserted", self.change.inserted_by, "-", ""];
        let rows = std::iter::once(insertion).chain(steps.into_iter().map(|(_, columns)| columns));
        let table = TextTable::new(["time", "state or decision", "by", "exchange", "reason"], rows);
        format!("\nhistory\n{}", table.to_text(""))
    }

    fn exchanges_text(&self) -> String {
        let columns = |row: &ExchangeRow| {
            let (sent, answered) = (Timestamp(row.sent_ms), row.answered_ms.map(Timestamp));
            cells![row.id, row.operation, sent, answered, row.verdict, row.status]
        };
        let headings = ["exchange", "operation", "sent", "answered", "verdict", "status"];
        let table = TextTable::new(headings, self.exchanges.iter().map(columns));
        format!("\ncalls\n{}", table.to_text("no call yet"))
    }

    /// Returns what was sent, the checks since, and the condition that settle waits for.
    fn evidence_text(&self) -> String {
        let Some(sent) = &self.sent else { return String::new() };
        let mut text = "\nevidence\n".to_owned();
        if let Some(target) = sent.written.filter(|_| sent.product.is_some()) {
            text.push_str(&format!("the stock level was {}; {target} was sent\n", sent.before.cell_text()));
        } else if let claimed @ (Value::Object(_) | Value::Array(_)) = &self.evidence["claimed"] {
            text.push_str(&format!("sent with {}\n", json_line(claimed)));
        }
        for check in self.evidence["looks"].as_array().into_iter().flatten() {
            let at = local_text(check["at"].as_str().unwrap_or_default());
            let shown = json_line(&check["shown"]);
            text.push_str(&format!("{at}, exchange {}, showed {shown}\n", check["exchange_id"]));
        }
        if let Some((what, next_check)) = &self.waits_for {
            let at = next_check.map_or_else(String::new, |at| format!(", at {}", local_time(at)));
            text.push_str(&format!("settle waits for {}{at}\n", plain_line(what)));
        }
        for row in &self.candidates {
            let comparison = match self.compare_candidate(row) {
                Ok(()) => "matches".into(),
                Err(why) => format!("does not match: {why}"),
            };
            text.push_str(&format!("shipment {} {}\n", row.shipment_id, plain_line(&comparison)));
        }
        let is_shipment = matches!(self.change.content.body, Ok(ChangeBody::ShipmentCreate(_)));
        if self.change.state == ChangeState::InDoubt && is_shipment && self.candidates.is_empty() {
            text.push_str("the mirror has no shipment of this order; see the order's page at the platform\n");
        }
        text
    }

    fn what_to_do(&self) -> Option<String> {
        let reason = Reason::from_code(self.change.reason.as_deref()?)?;
        Some(reason.advice_for(&self.change.key))
    }

    /// Checks that a shipment has the lines and quantities that were sent.
    fn compare_candidate(&self, row: &CandidateShipment) -> Result<(), String> {
        let claimed: Option<Vec<ClaimedLine>> = serde_json::from_value(self.evidence["claimed"].clone()).ok();
        let claimed = claimed.ok_or("the stored request cannot be parsed")?;
        check_adoption(&claimed, &row.items, None)
    }
}
