//! `outbox show`: a change with its history and evidence, for decisions that no check of the platform can
//! make.

use super::select::require_key;
use crate::cli::context::CliContext;
use crate::cli::local_time::{local_sentence, local_text, local_time};
use crate::cli::output::{TableCell, TextTable, cells, json_line, parse_json, plain_line};
use crate::cli::{CommandFailure, CommandResult, OutputArgs};
use crate::model::Timestamp;
use crate::outbox::{ChangeBody, ChangeState};
use crate::present::change::{ChangeDetail, change_json};
use crate::store::{ExchangeRow, JournalEvent, TransitionRow};
use serde_json::Value;

pub(super) async fn show_change(context: &CliContext, key: &str, output: OutputArgs) -> CommandResult {
    let store = context.open_store().await?;
    let key = require_key(&store, key).await?;
    let detail = ChangeDetail::load(&store, &key, context.readable_config()?, &context.clock()).await?;
    let detail = detail.ok_or_else(|| CommandFailure::failed(format!("no change has the key `{key}`")))?;
    Ok(output.render(|| detail.to_json(), || detail_text(&detail)).into())
}

fn detail_text(detail: &ChangeDetail) -> String {
    let mut text = String::new();
    let head = change_json(&detail.change);
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
    for obstacle in &detail.obstacles {
        text.push_str(&format!("{:<14} {}\n", "not sent", plain_line(&local_sentence(obstacle.full_text()))));
    }
    if let Some(what) = detail.what_to_do() {
        text.push_str(&format!("{:<14} {}\n", "what to do", plain_line(&what)));
    }
    text.push_str(&transitions_text(detail));
    text.push_str(&exchanges_text(detail));
    text.push_str(&evidence_text(detail));
    text
}

fn transitions_text(detail: &ChangeDetail) -> String {
    let decision = |row: &JournalEvent| {
        let detail = parse_json(row.detail.as_deref()).to_string();
        (row.position, cells![Timestamp(row.at_ms), row.kind, row.decided_by, "-", detail])
    };
    let transition = |row: &TransitionRow| {
        let why = [&row.reason, &row.detail].into_iter().flatten().cloned().collect::<Vec<_>>().join(": ");
        (row.position, cells![Timestamp(row.at_ms), row.state, "-", row.exchange_id, local_sentence(why)])
    };
    // The sort is stable, so that a decision precedes the move it made.
    let mut steps: Vec<_> =
        detail.decisions.iter().map(decision).chain(detail.transitions.iter().map(transition)).collect();
    steps.sort_by_key(|(position, _)| *position);
    let insertion =
        cells![local_text(&detail.change.created_at), "inserted", detail.change.inserted_by, "-", ""];
    let rows = std::iter::once(insertion).chain(steps.into_iter().map(|(_, columns)| columns));
    let table = TextTable::new(["time", "state or decision", "by", "exchange", "reason"], rows);
    format!("\nhistory\n{}", table.to_text(""))
}

fn exchanges_text(detail: &ChangeDetail) -> String {
    let columns = |row: &ExchangeRow| {
        let (sent, answered) = (Timestamp(row.sent_ms), row.answered_ms.map(Timestamp));
        cells![row.id, row.operation, sent, answered, row.verdict, row.status]
    };
    let headings = ["exchange", "operation", "sent", "answered", "verdict", "status"];
    let table = TextTable::new(headings, detail.exchanges.iter().map(columns));
    format!("\ncalls\n{}", table.to_text("no call yet"))
}

/// Returns what was sent, the checks since, and the condition that settle waits for.
fn evidence_text(detail: &ChangeDetail) -> String {
    let Some(sent) = &detail.sent else { return String::new() };
    let mut text = "\nevidence\n".to_owned();
    if let Some(target) = sent.written.filter(|_| sent.product.is_some()) {
        text.push_str(&format!("the stock level was {}; {target} was sent\n", sent.before.cell_text()));
    } else if let claimed @ (Value::Object(_) | Value::Array(_)) = &detail.evidence["claimed"] {
        text.push_str(&format!("sent with {}\n", json_line(claimed)));
    }
    for check in detail.evidence["looks"].as_array().into_iter().flatten() {
        let at = local_text(check["at"].as_str().unwrap_or_default());
        let shown = json_line(&check["shown"]);
        text.push_str(&format!("{at}, exchange {}, showed {shown}\n", check["exchange_id"]));
    }
    if let Some((what, next_check)) = &detail.waits_for {
        let at = next_check.map_or_else(String::new, |at| format!(", at {}", local_time(at)));
        text.push_str(&format!("settle waits for {}{at}\n", plain_line(what)));
    }
    for row in &detail.candidates {
        let comparison = match detail.compare_candidate(row) {
            Ok(()) => "matches".into(),
            Err(why) => format!("does not match: {why}"),
        };
        text.push_str(&format!("shipment {} {}\n", row.shipment_id, plain_line(&comparison)));
    }
    let is_shipment = matches!(detail.change.content.body, Ok(ChangeBody::ShipmentCreate(_)));
    if detail.change.state == ChangeState::InDoubt && is_shipment && detail.candidates.is_empty() {
        text.push_str("the mirror has no shipment of this order; see the order's page at the platform\n");
    }
    text
}
