//! Case in doubt: a sent request of unknown outcome, with the checks made since.
//!
//! For a quantity a case is a stock level with all changes of its entry. The other entries of the call are
//! its witnesses.

use crate::model::{
    ChangeId, Clock, ExchangeId, OrderId, Quantity, ShipmentId, ShipmentItemId, Sku, Timestamp, json_integer,
};
use crate::outbox::{ChangeBody, ChangeState, CreateBody, Reason};
use crate::reconcile::in_doubt::{
    CheckResult, EffectCheck, Settlement, SiblingEntry, WriteInDoubt, quiet_quantity, settle_write,
};
use crate::reconcile::product_update::UpdateClaim;
use crate::reconcile::shipments::ClaimedLine;
use crate::reconcile::{creates, product_update, shipments, tracking};
use crate::store::{InDoubtRow, StockLevelWrite, Store, StoreError};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Stored result of a check whose answer lacked the SKU.
pub(super) const NOT_RETURNED: &str = "not returned";

#[derive(Debug)]
pub(super) struct InDoubtCase {
    /// Changes of the case: several for a stock level, else a single one.
    pub(super) changes: Vec<ChangeId>,
    /// Key of the first change, for the journal.
    pub(super) key: String,
    pub(super) exchange: ExchangeId,
    /// The time of the request by the present calendar; the quiet time starts there.
    quiet_from: Timestamp,
    pub(super) request: InDoubtRequest,
    pub(super) reason: Option<String>,
    /// Detail of the change, with the platform's message if there was any.
    pub(super) detail: Option<String>,
    checks: Vec<(Timestamp, Value)>,
}

#[derive(Debug)]
pub(super) enum InDoubtRequest {
    Quantity { sku: Sku, write: StockLevelWrite, witnesses: Vec<SiblingEntry> },
    Shipment { order: OrderId, claimed: Vec<ClaimedLine> },
    Tracking(TrackingClaim),
    Update(UpdateClaim),
    Create { create: CreateBody, seen: BTreeSet<i64> },
    Unreadable,
}

#[derive(Debug, Deserialize)]
pub(super) struct TrackingClaim {
    pub(super) shipment_id: ShipmentId,
    items: Vec<(ShipmentItemId, String)>,
}

#[derive(Deserialize)]
struct CreateClaim {
    seen: BTreeSet<i64>,
}

/// Stock level of a call: exchange, product row and warehouse.
type CallLevel = (i64, i64, i64);

/// Conversion of times since boot to the present calendar. A calendar that was set since the request would
/// shorten the quiet time. A request sent again too early could take effect twice.
#[derive(Clone, Copy)]
pub(super) struct BootCalendar(Option<i64>);

impl BootCalendar {
    /// Returns the conversion by the present clocks.
    pub(super) fn new(clock: &dyn Clock) -> Self {
        Self(Some(clock.now().0.saturating_sub(clock.moment().0)))
    }

    /// Returns stored times unchanged: for display, and for times of another boot.
    pub(super) fn without_shift() -> Self {
        Self(None)
    }

    fn to_calendar(self, written_ms: i64, moment: Option<i64>) -> Timestamp {
        let shifted = self.0.zip(moment).map(|(ahead, moment)| moment.saturating_add(ahead));
        Timestamp(shifted.unwrap_or(written_ms))
    }
}

pub(super) async fn load_cases(
    store: &Store,
    calendar: BootCalendar,
) -> Result<Vec<InDoubtCase>, StoreError> {
    let rows = store.in_doubt_list().await?;
    let entries = call_entries(&rows, calendar)?;
    let (mut cases, mut levels) = (Vec::<InDoubtCase>::new(), BTreeMap::<CallLevel, usize>::new());
    for row in rows.iter().filter(|row| row.state == ChangeState::InDoubt) {
        if let Some(name) = call_level(row) {
            if let Some(case) = levels.get(&name).and_then(|at| cases.get_mut(*at)) {
                case.changes.push(row.id);
                continue;
            }
            levels.insert(name, cases.len());
        }
        cases.push(InDoubtCase {
            changes: vec![row.id],
            key: row.key.to_string(),
            exchange: ExchangeId(row.exchange_id),
            quiet_from: calendar.to_calendar(row.sent_ms, row.sent_moment),
            request: parse_request(row, &entries).unwrap_or(InDoubtRequest::Unreadable),
            reason: row.reason.clone(),
            detail: row.detail.clone(),
            checks: stored_checks(row, calendar)?,
        });
    }
    Ok(cases)
}

fn call_level(row: &InDoubtRow) -> Option<CallLevel> {
    Some((row.exchange_id, row.product?, row.warehouse_id?))
}

fn call_entries(
    rows: &[InDoubtRow],
    calendar: BootCalendar,
) -> Result<BTreeMap<CallLevel, SiblingEntry>, StoreError> {
    let mut entries = BTreeMap::new();
    for row in rows {
        let (Some(name), Some(written)) = (call_level(row), row.written) else { continue };
        let checks = quantity_checks(&stored_checks(row, calendar)?);
        let now = match checks.and_then(|checks| checks.last().map(|check| check.shown)) {
            Some(CheckResult::Returned(quantity)) => quantity,
            Some(CheckResult::NotReturned) | None => None,
        };
        entries
            .insert(name, SiblingEntry { before: row.before.map(Quantity), target: Quantity(written), now });
    }
    Ok(entries)
}

impl InDoubtCase {
    /// Judges the case by its checks so far. `timeout` is the longest time of a call.
    pub(super) fn judge_checks(&self, timeout: Duration, now: Timestamp) -> Settlement {
        let quiet = if self.was_answered() { Duration::ZERO } else { quiet_quantity(timeout) };
        self.judge_request(quiet, now)
            .unwrap_or_else(|| undecided("its checks are unreadable; check at the platform"))
    }

    /// Returns `None` if a check is unreadable.
    fn judge_request(&self, quiet: Duration, now: Timestamp) -> Option<Settlement> {
        let sent_at = self.quiet_from;
        Some(match &self.request {
            InDoubtRequest::Quantity { write, witnesses, .. } => {
                let write = WriteInDoubt { before: write.before, target: write.written, sent_at, quiet };
                settle_write(&write, &quantity_checks(&self.checks)?, witnesses)
            }
            InDoubtRequest::Shipment { claimed, .. } => {
                shipments::settle_shipment(claimed, sent_at, &self.parse_checks()?)
            }
            InDoubtRequest::Tracking(claim) => {
                let checks = self.parse_checks()?;
                tracking::settle_tracking(&claim.items, sent_at, quiet, &checks)
            }
            InDoubtRequest::Update(claim) => {
                let checks = self.parse_checks()?;
                product_update::settle_update(claim, (sent_at, quiet), &checks, now)
            }
            // The first check has no quiet time, because an effect may be visible already.
            InDoubtRequest::Create { .. } if self.checks.is_empty() => {
                Settlement::CheckAgain { not_before: sent_at }
            }
            InDoubtRequest::Create { create, seen } => {
                creates::settle_create(create.name(), seen, sent_at, &self.parse_checks()?)
            }
            InDoubtRequest::Unreadable => undecided("its claim is unreadable; check at the platform"),
        })
    }

    /// Returns true if the call was answered without naming the outcome of the stock level. The request is
    /// then no longer in flight.
    pub(super) fn was_answered(&self) -> bool {
        let is_quantity = matches!(self.request, InDoubtRequest::Quantity { .. });
        is_quantity && self.reason.as_deref() == Some(Reason::Unmatched.as_str())
    }

    /// Returns the checks parsed by the kind. `None` if a check is unreadable.
    fn parse_checks<S: DeserializeOwned>(&self) -> Option<Vec<EffectCheck<S>>> {
        let parse = |(sent_at, shown): &(Timestamp, Value)| {
            Some(EffectCheck { sent_at: *sent_at, shown: serde_json::from_value(shown.clone()).ok()? })
        };
        self.checks.iter().map(parse).collect()
    }
}

fn undecided(detail: &str) -> Settlement {
    Settlement::Undecided { reason: Reason::Undecided, detail: detail.into() }
}

fn parse_request(row: &InDoubtRow, entries: &BTreeMap<CallLevel, SiblingEntry>) -> Option<InDoubtRequest> {
    let claimed = row.evidence.as_deref().unwrap_or("null");
    Some(match row.content.body.clone().ok()? {
        ChangeBody::QuantitySet(_) | ChangeBody::QuantityAdjust(_) => parse_quantity(row, entries)?,
        ChangeBody::ShipmentCreate(change) => {
            InDoubtRequest::Shipment { order: change.order_id, claimed: serde_json::from_str(claimed).ok()? }
        }
        ChangeBody::TrackingSubmit(_) => InDoubtRequest::Tracking(serde_json::from_str(claimed).ok()?),
        // The claim of an earlier version has nothing that a check could show.
        ChangeBody::ProductUpdate(_) => {
            InDoubtRequest::Update(serde_json::from_str(claimed).unwrap_or_default())
        }
        ChangeBody::Create(create) => {
            let CreateClaim { seen } = serde_json::from_str(claimed).ok()?;
            InDoubtRequest::Create { create, seen }
        }
    })
}

fn parse_quantity(row: &InDoubtRow, entries: &BTreeMap<CallLevel, SiblingEntry>) -> Option<InDoubtRequest> {
    let name = call_level(row)?;
    let write = StockLevelWrite {
        product: name.1,
        warehouse_id: name.2,
        before: row.before.map(Quantity),
        written: Quantity(row.written?),
    };
    let others = entries.iter().filter(|(other, _)| other.0 == name.0 && **other != name);
    let witnesses = others.map(|(_, witness)| *witness).collect();
    Some(InDoubtRequest::Quantity { sku: Sku::new(row.stock_level_sku.as_deref()?).ok()?, write, witnesses })
}

fn stored_checks(row: &InDoubtRow, calendar: BootCalendar) -> Result<Vec<(Timestamp, Value)>, StoreError> {
    let checks: Vec<(i64, Option<i64>, Value)> = serde_json::from_str(&row.checks)
        .map_err(|_| StoreError::UnknownValue("a list of checks", row.checks.to_string()))?;
    Ok(checks
        .into_iter()
        .map(|(sent_ms, moment, shown)| (calendar.to_calendar(sent_ms, moment), shown))
        .collect())
}

/// Returns the checks of a stock level. `None` if a check has neither a quantity nor an absence.
fn quantity_checks(checks: &[(Timestamp, Value)]) -> Option<Vec<EffectCheck<CheckResult>>> {
    let shown = |value: &Value| match value {
        Value::Null => Some(CheckResult::Returned(None)),
        Value::Number(number) => {
            json_integer(number).map(|units| CheckResult::Returned(Some(Quantity(units))))
        }
        value => (value == NOT_RETURNED).then_some(CheckResult::NotReturned),
    };
    checks
        .iter()
        .map(|(sent_at, value)| Some(EffectCheck { sent_at: *sent_at, shown: shown(value)? }))
        .collect()
}
