//! Case in doubt: a sent request of unknown outcome, with the checks made since.
//!
//! For a quantity a case is a stock level with all changes of its entry. The other entries of the call are
//! its witnesses.

use crate::exec::preflight::Create;
use crate::model::{
    Clock, ExchangeId, OrderId, Quantity, ShipmentId, ShipmentItemId, Sku, Timestamp, WishId, integral,
};
use crate::outbox::{self, Body, Reason, State};
use crate::reconcile::doubt::{Look, Settlement, Shown, Witness, WriteInDoubt, quiet_quantity, settle_write};
use crate::reconcile::shipment::ClaimedLine;
use crate::reconcile::update::{Shown as ShownOfProduct, UpdateInDoubt};
use crate::reconcile::{create, shipment, tracking, update};
use crate::store::{CellWrite, DoubtRow, Store, StoreError};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Stored result of a check whose answer lacked the SKU.
pub(super) const NOT_RETURNED: &str = "not returned";

/// Case in doubt.
#[derive(Debug)]
pub(super) struct Case {
    /// Changes of the case: several for a stock level, else a single one.
    pub(super) wishes: Vec<WishId>,
    /// Key of the first change, for the journal.
    pub(super) key: String,
    /// Exchange of the request.
    pub(super) exchange: ExchangeId,
    /// Time at which the request was sent, by the calendar of that time.
    pub(super) sent_at: Timestamp,
    /// The time of the request by the present calendar; the quiet time starts there.
    since: Timestamp,
    /// Content of the request.
    pub(super) what: What,
    /// Reason why it is in doubt, if known.
    pub(super) reason: Option<String>,
    /// Detail of the change, with the platform's message if there was any.
    pub(super) said: Option<String>,
    looks: Vec<(Timestamp, Value)>,
}

/// Content of a request, from its claim.
#[derive(Debug)]
pub(super) enum What {
    /// Quantity.
    Cell { sku: Sku, write: CellWrite, witnesses: Vec<Witness> },
    /// Shipment.
    Shipment { order: OrderId, claimed: Vec<ClaimedLine> },
    /// Tracking.
    Tracking(TrackingClaim),
    /// Update of a product.
    Update(UpdateClaim),
    /// Product, warehouse or template.
    Create { body: Body, seen: BTreeSet<i64> },
    /// Content whose claim is unreadable.
    Lost,
}

/// Stored evidence of a tracking.
#[derive(Debug, Deserialize)]
pub(super) struct TrackingClaim {
    pub(super) shipment_id: ShipmentId,
    items: Vec<(ShipmentItemId, String)>,
}

/// Stored evidence of an update, as far as a check can show it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct UpdateClaim {
    /// SKU of the product at the platform before the update.
    pub(super) sku: String,
    pub(super) product_id: i64,
    before: ShownOfProduct,
    ours: BTreeMap<String, Option<String>>,
}

impl UpdateClaim {
    fn in_doubt(&self, sent_at: Timestamp, quiet: Duration) -> UpdateInDoubt {
        let (sku, before, ours) = (self.sku.clone(), self.before.clone(), self.ours.clone());
        UpdateInDoubt { sku, before, ours, sent_at, quiet }
    }

    /// Returns the SKUs that the product may have by now. Empty if no check can decide.
    pub(super) fn skus(&self) -> BTreeSet<&str> {
        if !self.in_doubt(Timestamp(0), Duration::ZERO).shows() {
            return BTreeSet::new();
        }
        let new = self.ours.get(update::SKU).and_then(Option::as_deref);
        new.into_iter().chain([self.sku.as_str()]).collect()
    }
}

#[derive(Deserialize)]
struct CreateClaim {
    seen: BTreeSet<i64>,
}

/// Stock level of a call: exchange, product row and warehouse.
type CellName = (i64, i64, i64);

/// Conversion of times since boot to the present calendar. A calendar that was set since the request would
/// shorten the quiet time. A request sent again too early could take effect twice.
#[derive(Clone, Copy)]
pub(super) struct Calendar(Option<i64>);

impl Calendar {
    /// Returns the conversion by the present clocks.
    pub(super) fn of(clock: &dyn Clock) -> Self {
        Self(Some(clock.now().0.saturating_sub(clock.moment().0)))
    }

    /// Returns stored times unchanged: for display, and for times of another boot.
    pub(super) fn as_written() -> Self {
        Self(None)
    }

    fn at(self, written_ms: i64, moment: Option<i64>) -> Timestamp {
        let shifted = self.0.zip(moment).map(|(ahead, moment)| moment.saturating_add(ahead));
        Timestamp(shifted.unwrap_or(written_ms))
    }
}

/// Loads all cases in doubt.
pub(super) async fn gather(store: &Store, calendar: Calendar) -> Result<Vec<Case>, StoreError> {
    let rows = store.doubt_list().await?;
    let entries = entries(&rows, calendar)?;
    let (mut cases, mut cells) = (Vec::<Case>::new(), BTreeMap::<CellName, usize>::new());
    for row in rows.iter().filter(|row| row.state == State::InDoubt.as_str()) {
        if let Some(name) = cell_name(row) {
            if let Some(case) = cells.get(&name).and_then(|at| cases.get_mut(*at)) {
                case.wishes.push(WishId(row.id));
                continue;
            }
            cells.insert(name, cases.len());
        }
        cases.push(Case::of(row, &entries, calendar)?);
    }
    Ok(cases)
}

fn cell_name(row: &DoubtRow) -> Option<CellName> {
    Some((row.exchange_id, row.product?, row.warehouse_id?))
}

/// Returns every entry of the calls in doubt, as last seen.
fn entries(rows: &[DoubtRow], calendar: Calendar) -> Result<BTreeMap<CellName, Witness>, StoreError> {
    let mut entries = BTreeMap::new();
    for row in rows {
        let (Some(name), Some(written)) = (cell_name(row), row.written) else { continue };
        let looks = cell_looks(&looks(row, calendar)?);
        let now = match looks.and_then(|looks| looks.last().map(|look| look.shown)) {
            Some(Shown::Cell(quantity)) => quantity,
            Some(Shown::NotReturned) | None => None,
        };
        entries.insert(name, Witness { before: row.before.map(Quantity), target: Quantity(written), now });
    }
    Ok(entries)
}

impl Case {
    fn of(
        row: &DoubtRow,
        entries: &BTreeMap<CellName, Witness>,
        calendar: Calendar,
    ) -> Result<Self, StoreError> {
        Ok(Self {
            wishes: vec![WishId(row.id)],
            key: row.key.clone(),
            exchange: ExchangeId(row.exchange_id),
            sent_at: Timestamp(row.sent_ms),
            since: calendar.at(row.sent_ms, row.sent_moment),
            what: what(row, entries).unwrap_or(What::Lost),
            reason: row.reason.clone(),
            said: row.detail.clone(),
            looks: looks(row, calendar)?,
        })
    }

    /// Judges the case by its checks so far. `timeout` is the longest time of a call. `Landed` has the id of
    /// the created thing if known.
    pub(super) fn judge(&self, timeout: Duration, now: Timestamp) -> Settlement<Option<i64>> {
        let quiet = if self.was_answered() { Duration::ZERO } else { quiet_quantity(timeout) };
        let sent_at = self.since;
        match &self.what {
            What::Cell { write, witnesses, .. } => {
                let write = WriteInDoubt { before: write.before, target: write.written, sent_at, quiet };
                match cell_looks(&self.looks) {
                    Some(looks) => settle_write(&write, &looks, witnesses).map(|_| None),
                    None => unreadable(),
                }
            }
            What::Shipment { claimed, .. } => {
                match self.shown(|sent_at, left| shipment::Look { sent_at, left }) {
                    Some(looks) => shipment::settle(claimed, sent_at, &looks).map(|()| None),
                    None => unreadable(),
                }
            }
            What::Tracking(claim) => {
                match self.shown(|sent_at, numbers| tracking::Look { sent_at, numbers }) {
                    Some(looks) => tracking::settle(&claim.items, sent_at, quiet, &looks).map(|()| None),
                    None => unreadable(),
                }
            }
            What::Update(claim) => match self.shown(|sent_at, shown| update::Look { sent_at, shown }) {
                Some(looks) => update::settle(&claim.in_doubt(sent_at, quiet), &looks, now).map(|()| None),
                None => unreadable(),
            },
            What::Create { body, seen } => match Create::of(body) {
                // The first check has no quiet time, because an effect may be visible already.
                Some(_) if self.looks.is_empty() => Settlement::LookAgain { not_before: sent_at },
                Some(create) => match self.shown(|sent_at, found| create::Look { sent_at, found }) {
                    Some(looks) => create::settle(create.name(), seen, sent_at, &looks).map(Some),
                    None => unreadable(),
                },
                None => lost(),
            },
            What::Lost => lost(),
        }
    }

    /// Returns true if the call was answered without naming the outcome of the stock level. The request is
    /// then no longer in flight.
    pub(super) fn was_answered(&self) -> bool {
        let is_cell = matches!(self.what, What::Cell { .. });
        is_cell && self.reason.as_deref() == Some(Reason::Unmatched.as_str())
    }

    /// Returns the checks parsed by the kind. `None` if a check is unreadable.
    fn shown<T: DeserializeOwned, L>(&self, look: impl Fn(Timestamp, T) -> L) -> Option<Vec<L>> {
        let read =
            |(at, shown): &(Timestamp, Value)| Some(look(*at, serde_json::from_value(shown.clone()).ok()?));
        self.looks.iter().map(read).collect()
    }
}

fn lost() -> Settlement<Option<i64>> {
    let detail = "what it was sent with cannot be read any more; look at the service".into();
    Settlement::Undecided { reason: Reason::Undecided, detail }
}

fn unreadable() -> Settlement<Option<i64>> {
    let detail = "what was seen of it since cannot be read any more; look at the service".into();
    Settlement::Undecided { reason: Reason::Undecided, detail }
}

fn what(row: &DoubtRow, entries: &BTreeMap<CellName, Witness>) -> Option<What> {
    let claimed = row.claimed.as_deref().unwrap_or("null");
    Some(match outbox::read(&row.kind, &row.body).ok()? {
        Body::QuantitySet(_) | Body::QuantityAdjust(_) => cell(row, entries)?,
        Body::ShipmentCreate(wish) => {
            What::Shipment { order: wish.order_id, claimed: serde_json::from_str(claimed).ok()? }
        }
        Body::TrackingSubmit(_) => What::Tracking(serde_json::from_str(claimed).ok()?),
        // The claim of an earlier version has nothing that a check could show.
        Body::ProductUpdate(_) => What::Update(serde_json::from_str(claimed).unwrap_or_default()),
        body @ (Body::ProductCreate(_) | Body::WarehouseCreate(_) | Body::ListingTemplateCreate(_)) => {
            let CreateClaim { seen } = serde_json::from_str(claimed).ok()?;
            What::Create { body, seen }
        }
    })
}

fn cell(row: &DoubtRow, entries: &BTreeMap<CellName, Witness>) -> Option<What> {
    let name = cell_name(row)?;
    let write = CellWrite {
        product: name.1,
        warehouse_id: name.2,
        before: row.before.map(Quantity),
        written: Quantity(row.written?),
    };
    let others = entries.iter().filter(|(other, _)| other.0 == name.0 && **other != name);
    let witnesses = others.map(|(_, witness)| *witness).collect();
    Some(What::Cell { sku: Sku::new(row.cell_sku.as_deref()?).ok()?, write, witnesses })
}

/// Returns the checks of a row, oldest first.
fn looks(row: &DoubtRow, calendar: Calendar) -> Result<Vec<(Timestamp, Value)>, StoreError> {
    let looks: Vec<(i64, Option<i64>, Value)> = serde_json::from_str(&row.looks)
        .map_err(|_| StoreError::Foreign { what: "a list of looks", value: row.looks.clone() })?;
    Ok(looks.into_iter().map(|(sent_ms, moment, shown)| (calendar.at(sent_ms, moment), shown)).collect())
}

/// Returns the checks of a stock level. `None` if a check has neither a quantity nor an absence.
fn cell_looks(looks: &[(Timestamp, Value)]) -> Option<Vec<Look>> {
    let shown = |value: &Value| match value {
        Value::Null => Some(Shown::Cell(None)),
        Value::Number(number) => integral(number).map(|units| Shown::Cell(Some(Quantity(units)))),
        value => (value == NOT_RETURNED).then_some(Shown::NotReturned),
    };
    looks.iter().map(|(sent_at, value)| Some(Look { sent_at: *sent_at, shown: shown(value)? })).collect()
}
