//! `outbox show`: a change with its history and evidence, for decisions that no check of the platform can
//! make.

use crate::cli::commands::journal::job::exchange;
use crate::cli::context::Place;
use crate::cli::output::{Table, dash, json, line, plain};
use crate::cli::{Answer, Failure, Reading};
use crate::model::{Clock, Timestamp, WishId};
use crate::outbox::{self, Body, Reason, State};
use crate::reconcile::shipment::{ClaimedLine, adopt};
use crate::settle;
use crate::store::{CandidateRow, DecisionRow, DoubtRow, ExchangeRow, MoveRow, Store, WishRow};
use serde_json::{Value, json as value};

/// The stored data of a change.
struct Story {
    wish: WishRow,
    moves: Vec<MoveRow>,
    decisions: Vec<DecisionRow>,
    exchanges: Vec<ExchangeRow>,
    /// The data it was last sent with.
    sent: Option<DoubtRow>,
    /// The evidence stored with its claim, and the checks since.
    evidence: Value,
    /// The condition that settle waits for, and the time of its next check.
    waits: Option<(String, Option<Timestamp>)>,
    candidates: Vec<CandidateRow>,
}

pub(super) async fn show(place: &Place, key: &str, reading: Reading) -> Result<Answer, Failure> {
    let store = place.store().await?;
    let wish = store.outbox_show(key).await?;
    let wish = wish.ok_or_else(|| Failure::failed(format!("there is no wish with the key `{key}`")))?;
    let story = Story::read(place, &store, wish).await?;
    Ok(if reading.json { json(&story.value()) } else { story.text() }.into())
}

/// Returns a change for `--json`.
pub(super) fn wish(row: &WishRow) -> Value {
    value!({
        "id": row.id, "key": row.key, "kind": row.kind, "priority": row.priority, "state": row.state,
        "reason": row.reason, "detail": row.detail,
        "body": row.body.text().and_then(|body| serde_json::from_str(body).ok()).unwrap_or(Value::Null),
        "created_at": row.created_at, "settled_at": row.settled_at,
        "base_quantity": row.base_quantity, "written": row.written, "exchange_id": row.exchange_id,
        "mine": row.mine, "theirs": row.theirs,
    })
}

impl Story {
    async fn read(place: &Place, store: &Store, wish: WishRow) -> Result<Self, Failure> {
        let id = WishId(wish.id);
        let timeout = place.config()?.service.timeout;
        let candidates = match outbox::read(&wish.kind, &wish.body) {
            Ok(Body::ShipmentCreate(ship)) if wish.state == State::InDoubt.as_str() => {
                store.story_candidates(ship.order_id).await?
            }
            _ => Vec::new(),
        };
        Ok(Self {
            moves: store.story_moves(id).await?,
            decisions: store.story_decisions(&wish.key).await?,
            exchanges: store.story_exchanges(id).await?,
            sent: store.story_sent(id).await?,
            evidence: store.evidence(id).await?,
            waits: settle::wait(store, timeout, place.clock().now(), id).await?,
            candidates,
            wish,
        })
    }

    fn value(&self) -> Value {
        let moved = |row: &MoveRow| {
            value!({"at": time(row.at_ms), "position": row.position, "state": row.state, "reason": row.reason, "detail": row.detail,
                    "exchange_id": row.exchange_id})
        };
        let decided = |row: &DecisionRow| value!({"at": time(row.at_ms), "position": row.position, "kind": row.kind, "detail": told(row)});
        let mut all = wish(&self.wish);
        all["what_to_do"] = self.what_to_do().into();
        all["moves"] = self.moves.iter().map(moved).collect();
        all["decisions"] = self.decisions.iter().map(decided).collect();
        all["exchanges"] = self.exchanges.iter().map(exchange).collect();
        all["evidence"] = self.sent.as_ref().map_or(Value::Null, |sent| {
            value!({
                "sent_at": time(sent.sent_ms), "before": sent.before, "target": sent.written,
                "claimed": self.evidence["claimed"], "made_id": self.evidence["made_id"],
                "looks": self.evidence["looks"],
                "waits_for": self.waits.as_ref().map(|(what, _)| what),
                "next_look_at": self.next_look().map(Timestamp::rfc3339),
            })
        });
        let candidate = |row: &CandidateRow| {
            let fit = self.fit(row);
            value!({"shipment_id": row.shipment_id, "items": row.items, "fits": fit.is_ok(), "why_not": fit.err()})
        };
        all["candidates"] = self.candidates.iter().map(candidate).collect();
        all
    }

    fn text(&self) -> String {
        let mut text = String::new();
        let head = wish(&self.wish);
        for (name, field) in head.as_object().into_iter().flatten() {
            match field {
                Value::Null => {}
                Value::String(field) => text.push_str(&format!("{name:<14} {}\n", plain(field))),
                other => text.push_str(&format!("{name:<14} {}\n", line(other))),
            }
        }
        if let Some(what) = self.what_to_do() {
            text.push_str(&format!("{:<14} {}\n", "what to do", plain(&what)));
        }
        text.push_str(&self.moves_text());
        text.push_str(&self.exchanges_text());
        text.push_str(&self.evidence_text());
        text
    }

    fn moves_text(&self) -> String {
        let decided = |row: &DecisionRow| {
            let cells = [time(row.at_ms), row.kind.clone(), dash::<i64>(None), told(row).to_string()];
            (row.position, cells)
        };
        let moved = |row: &MoveRow| {
            let why =
                [&row.reason, &row.detail].into_iter().flatten().cloned().collect::<Vec<_>>().join(": ");
            (row.position, [time(row.at_ms), row.state.clone(), dash(row.exchange_id), why])
        };
        // The sort is stable, so that a decision precedes the move it made.
        let mut steps: Vec<_> =
            self.decisions.iter().map(decided).chain(self.moves.iter().map(moved)).collect();
        steps.sort_by_key(|(position, _)| *position);
        let mut table = Table::new(&["when", "what", "exchange", "why"]);
        table.row([self.wish.created_at.clone(), "inserted".into(), dash::<i64>(None), String::new()]);
        for (_, cells) in steps {
            table.row(cells);
        }
        format!("\nthe story\n{}", table.render(""))
    }

    fn exchanges_text(&self) -> String {
        let mut table = Table::new(&["exchange", "operation", "sent", "answered", "verdict", "status"]);
        for row in &self.exchanges {
            let cells = [
                row.id.to_string(),
                row.operation.clone(),
                time(row.sent_ms),
                dash(row.answered_ms.map(time)),
                dash(row.verdict.as_ref()),
                dash(row.status),
            ];
            table.row(cells);
        }
        format!("\nsent by\n{}", table.render("no call yet"))
    }

    /// Returns what was sent, the checks since, and the condition that settle waits for.
    fn evidence_text(&self) -> String {
        let Some(sent) = &self.sent else { return String::new() };
        let mut text = "\nthe evidence\n".to_owned();
        if let Some(target) = sent.written.filter(|_| sent.product.is_some()) {
            text.push_str(&format!("the cell held {}, and {target} was sent\n", dash(sent.before)));
        } else if let claimed @ (Value::Object(_) | Value::Array(_)) = &self.evidence["claimed"] {
            text.push_str(&format!("sent with {}\n", line(claimed)));
        }
        for look in self.evidence["looks"].as_array().into_iter().flatten() {
            let at = look["at"].as_str().unwrap_or_default();
            let shown = line(&look["shown"]);
            text.push_str(&format!("{at}, exchange {}, showed {shown}\n", look["exchange_id"]));
        }
        if let Some((what, _)) = &self.waits {
            let at = self.next_look().map_or_else(String::new, |at| format!(", at {at}"));
            text.push_str(&format!("settle waits for {}{at}\n", plain(what)));
        }
        for row in &self.candidates {
            let fits = self.fit(row).map_or_else(|why| format!("is not it: {why}"), |()| "fits".into());
            text.push_str(&format!("shipment {} {}\n", row.shipment_id, plain(&fits)));
        }
        if self.wish.state == State::InDoubt.as_str() && self.is_shipment() && self.candidates.is_empty() {
            text.push_str("no shipment of the order is known here; its page at the service lists them\n");
        }
        text
    }

    fn what_to_do(&self) -> Option<String> {
        let reason: Reason = self.wish.reason.as_deref()?.parse().ok()?;
        Some(reason.advice(&self.wish.key))
    }

    fn next_look(&self) -> Option<Timestamp> {
        self.waits.as_ref().and_then(|(_, at)| *at)
    }

    fn is_shipment(&self) -> bool {
        self.wish.kind == outbox::Kind::ShipmentCreate.as_str()
    }

    /// Checks that a shipment has the lines and quantities that were sent.
    fn fit(&self, row: &CandidateRow) -> Result<(), String> {
        let claimed: Option<Vec<ClaimedLine>> = serde_json::from_value(self.evidence["claimed"].clone()).ok();
        let claimed = claimed.ok_or("what was sent cannot be read any more")?;
        adopt(&claimed, &row.items, None)
    }
}

fn told(row: &DecisionRow) -> Value {
    row.detail.as_deref().and_then(|detail| serde_json::from_str(detail).ok()).unwrap_or_default()
}

fn time(ms: i64) -> String {
    Timestamp(ms).rfc3339()
}
