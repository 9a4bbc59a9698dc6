//! A change with its history and evidence, for decisions that no check of the platform can make.

use super::listing::{ListColumns, ListedSubject, columns, sentence_cell};
use super::status::find_obstacles;
use super::{ViewError, parse_json, time_text};
use crate::config::Config;
use crate::health::Finding;
use crate::model::{Clock, Timestamp};
use crate::outbox::{ChangeBody, ChangeState, Reason};
use crate::reconcile::shipments::{ClaimedLine, check_adoption};
use crate::settle;
use crate::store::{
    CandidateShipment, ChangeRow, ExchangeRow, InDoubtRow, JournalEvent, Store, TransitionRow,
};
use serde_json::{Value, json};

/// A change, its transitions and decisions, its exchanges and its evidence.
pub(crate) struct ChangeDetail {
    pub(crate) change: ChangeRow,
    pub(crate) transitions: Vec<TransitionRow>,
    pub(crate) decisions: Vec<JournalEvent>,
    pub(crate) exchanges: Vec<ExchangeRow>,
    pub(crate) sent: Option<InDoubtRow>,
    /// The evidence stored with its claim, and the checks since.
    pub(crate) evidence: Value,
    /// The condition that settle waits for, and the time of its next check.
    pub(crate) waits_for: Option<(String, Option<Timestamp>)>,
    pub(crate) candidates: Vec<CandidateShipment>,
    pub(crate) obstacles: Vec<Finding>,
}

impl ChangeDetail {
    pub(crate) async fn load(
        store: &Store,
        key: &str,
        config: &Config,
        clock: &dyn Clock,
    ) -> Result<Option<Self>, ViewError> {
        let Some(change) = store.outbox_show(key).await? else { return Ok(None) };
        let id = change.id;
        let candidates = match &change.content.body {
            Ok(ChangeBody::ShipmentCreate(ship)) if change.state == ChangeState::InDoubt => {
                store.change_candidate_shipments(ship.order_id).await?
            }
            _ => Vec::new(),
        };
        Ok(Some(Self {
            transitions: store.change_transitions(id).await?,
            decisions: store.change_decisions(&change.key).await?,
            exchanges: store.change_exchanges(id).await?,
            sent: store.change_last_request(id).await?,
            evidence: store.change_evidence(id).await?,
            waits_for: settle::describe_wait(store, config.service.timeout, clock.now(), id).await?,
            candidates,
            obstacles: match change.state {
                ChangeState::Pending => find_obstacles(config, clock, store).await?,
                _ => Vec::new(),
            },
            change,
        }))
    }

    pub(crate) fn to_json(&self) -> Value {
        let mut all = change_json(&self.change);
        all["what_to_do"] = self.what_to_do().into();
        all["obstacles"] = json!(self.obstacles);
        all["moves"] = json!(self.transitions);
        all["decisions"] = json!(self.decisions);
        all["exchanges"] = json!(self.exchanges);
        all["evidence"] = self.sent.as_ref().map_or(Value::Null, |sent| {
            json!({
                "sent_at": time_text(sent.sent_ms), "before": sent.before, "target": sent.written,
                "claimed": self.evidence["claimed"], "made_id": self.evidence["made_id"],
                "answers": self.evidence["answers"],
                "waits_for": self.waits_for.as_ref().map(|(what, _)| what),
                "next_check_at": self.waits_for.as_ref().and_then(|(_, at)| at.map(Timestamp::to_rfc3339)),
            })
        });
        let candidate = |row: &CandidateShipment| {
            let comparison = self.compare_candidate(row);
            json!({"shipment_id": row.shipment_id, "items": row.items, "matches": comparison.is_ok(),
                    "why_not": comparison.err()})
        };
        all["candidates"] = self.candidates.iter().map(candidate).collect();
        all
    }

    /// Returns the insertion, the decisions and the moves in the order of the journal.
    pub(crate) fn steps(&self) -> Vec<ListColumns> {
        let step = |at, what: &str, by: Option<&str>, exchange: Option<i64>, why: &str| {
            let exchange = exchange.map(|exchange| ListedSubject::Entry.cell(exchange));
            columns! {
                "time": at, "state or decision": what, "by": by, "exchange": exchange,
                "reason": sentence_cell(Some(why)),
            }
        };
        let decision = |row: &JournalEvent| {
            let why = parse_json(row.detail.as_deref()).to_string();
            let at = Some(Timestamp(row.at_ms));
            (row.position, step(at, &row.kind, row.decided_by.as_deref(), None, &why))
        };
        let transition = |row: &TransitionRow| {
            let why: Vec<&str> = [&row.reason, &row.detail].into_iter().flatten().map(|why| &**why).collect();
            let at = Some(Timestamp(row.at_ms));
            (row.position, step(at, &row.state, None, row.exchange_id, &why.join(": ")))
        };
        // The sort is stable, so that a decision precedes the move it made.
        let mut steps: Vec<_> =
            self.decisions.iter().map(decision).chain(self.transitions.iter().map(transition)).collect();
        steps.sort_by_key(|(position, _)| *position);
        let at = Timestamp::parse(&self.change.created_at);
        let inserted = step(at, "inserted", self.change.inserted_by.as_deref(), None, "");
        std::iter::once(inserted).chain(steps.into_iter().map(|(_, step)| step)).collect()
    }

    /// Returns what was sent, the checks since, and the condition that settle waits for, in sentences.
    pub(crate) fn evidence_sentences(&self) -> Vec<String> {
        let Some(sent) = &self.sent else { return Vec::new() };
        let mut first = format!("sent at {}", time_text(sent.sent_ms));
        if let Some(target) = sent.written.filter(|_| sent.product.is_some()) {
            let before = sent.before.map_or_else(|| "not known".to_owned(), |before| before.to_string());
            first.push_str(&format!("; the stock level was {before}, and {target} was sent"));
        } else if let claimed @ (Value::Object(_) | Value::Array(_)) = &self.evidence["claimed"] {
            first.push_str(&format!(" with {claimed}"));
        }
        let check = |check: &Value| {
            let at = check["at"].as_str().unwrap_or_default();
            format!("at {at}, exchange {} showed {}", check["exchange_id"], check["shown"])
        };
        let checks = self.evidence["answers"].as_array().into_iter().flatten().map(check);
        let wait = self.waits_for.iter().map(|(what, next)| {
            let at = next.map_or_else(String::new, |at| format!(", at {}", at.to_rfc3339()));
            format!("settle waits for {what}{at}")
        });
        let candidate = |row: &CandidateShipment| match self.compare_candidate(row) {
            Ok(()) => format!("shipment {} matches", row.shipment_id),
            Err(why) => format!("shipment {} does not match: {why}", row.shipment_id),
        };
        let is_shipment = matches!(self.change.content.body, Ok(ChangeBody::ShipmentCreate(_)));
        let is_alone = self.change.state == ChangeState::InDoubt && is_shipment && self.candidates.is_empty();
        let none = "the mirror has no shipment of this order; see the order's page at the platform";
        let all = std::iter::once(first).chain(checks).chain(wait);
        all.chain(self.candidates.iter().map(candidate)).chain(is_alone.then(|| none.to_owned())).collect()
    }

    pub(crate) fn what_to_do(&self) -> Option<String> {
        let reason = Reason::from_code(self.change.reason.as_deref()?)?;
        Some(reason.advice_for(&self.change.key))
    }

    /// Checks that a shipment has the lines and quantities that were sent.
    pub(crate) fn compare_candidate(&self, row: &CandidateShipment) -> Result<(), String> {
        let claimed: Option<Vec<ClaimedLine>> = serde_json::from_value(self.evidence["claimed"].clone()).ok();
        let claimed = claimed.ok_or("the stored request cannot be parsed")?;
        check_adoption(&claimed, &row.items, None)
    }
}

/// The order of states in lists: those that may need a person come first, and the final ones last.
pub(crate) const STATE_ORDER: [ChangeState; 7] = [
    ChangeState::Held,
    ChangeState::InDoubt,
    ChangeState::Rejected,
    ChangeState::Pending,
    ChangeState::Sending,
    ChangeState::Applied,
    ChangeState::Cancelled,
];

pub(crate) fn state_rank(state: ChangeState) -> Option<usize> {
    STATE_ORDER.iter().position(|other| *other == state)
}

pub(crate) fn change_json(row: &ChangeRow) -> Value {
    json!({
        "id": row.id, "key": row.key, "kind": row.content.kind, "priority": row.priority, "state": row.state,
        "reason": row.reason, "detail": row.detail,
        "body": parse_json(row.content.stored_body.as_deref()),
        "created_at": row.created_at, "inserted_by": row.inserted_by, "settled_at": row.settled_at,
        "base_quantity": row.base_quantity, "written": row.written, "exchange_id": row.exchange_id,
        "mine": row.mine, "theirs": row.theirs,
    })
}
