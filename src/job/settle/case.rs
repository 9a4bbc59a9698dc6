//! A case: one thing that was sent and whose outcome is unknown, with what was seen of it since.
//!
//! For a quantity that is a cell with all the wishes its entry carried; the call's other entries are its witnesses.

use crate::job::deliver::Create;
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

/// What is kept of a look at a cell whose product the service did not return.
pub(super) const NOT_RETURNED: &str = "not returned";

/// One thing in doubt.
#[derive(Debug)]
pub(super) struct Case {
    /// The wishes it stands for: several for a cell, else one.
    pub(super) wishes: Vec<WishId>,
    /// The first one's key, for the journal.
    pub(super) key: String,
    /// The exchange that carried it.
    pub(super) exchange: ExchangeId,
    /// When that was sent, as the calendar was then.
    pub(super) sent_at: Timestamp,
    /// The same on the calendar as it is now: what the quiet time is measured from.
    since: Timestamp,
    /// What was sent.
    pub(super) what: What,
    /// Why it is in doubt, as far as that is known.
    pub(super) reason: Option<String>,
    /// The same as a sentence, with the service's words where it said any.
    pub(super) said: Option<String>,
    looks: Vec<(Timestamp, Value)>,
}

/// What was sent, as its claim has it.
#[derive(Debug)]
pub(super) enum What {
    /// A quantity.
    Cell { sku: Sku, write: CellWrite, witnesses: Vec<Witness> },
    /// A shipment.
    Shipment { order: OrderId, claimed: Vec<ClaimedLine> },
    /// A tracking.
    Tracking(TrackingClaim),
    /// A product's update.
    Update(UpdateClaim),
    /// A product, a warehouse or a template.
    Create { body: Body, seen: BTreeSet<i64> },
    /// Something of which the claim cannot be read.
    Lost,
}

/// What a tracking was sent with.
#[derive(Debug, Deserialize)]
pub(super) struct TrackingClaim {
    pub(super) shipment_id: ShipmentId,
    items: Vec<(ShipmentItemId, String)>,
}

/// Content that an update was sent with, as far as a look can show it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct UpdateClaim {
    /// The SKU by which the platform knew the product.
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

    /// The SKUs that the product may have by now; none where no look can tell.
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

/// A cell of a call: its exchange, product row and warehouse.
type CellName = (i64, i64, i64);

/// From moments of this boot to the calendar as it is now. A calendar that was set since would make the quiet time too
/// short, and what is resent before the first request is carried out is done twice.
#[derive(Clone, Copy)]
pub(super) struct Calendar(Option<i64>);

impl Calendar {
    /// As the clocks are now.
    pub(super) fn of(clock: &dyn Clock) -> Self {
        Self(Some(clock.now().0.saturating_sub(clock.moment().0)))
    }

    /// As it was written down: for people, and for what is of another boot.
    pub(super) fn as_written() -> Self {
        Self(None)
    }

    fn at(self, written_ms: i64, moment: Option<i64>) -> Timestamp {
        let shifted = self.0.zip(moment).map(|(ahead, moment)| moment.saturating_add(ahead));
        Timestamp(shifted.unwrap_or(written_ms))
    }
}

/// Everything in doubt.
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

/// Every entry of the calls in doubt, as it was last seen.
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

    /// What the looks so far say, where calls may take `timeout`. *Landed* carries the id of what was made, if that is
    /// known.
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
                // The first look goes at once: what landed may show already.
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

    /// Whether an answer came that does not say what became of a cell: then nothing is on its way any more.
    pub(super) fn was_answered(&self) -> bool {
        let is_cell = matches!(self.what, What::Cell { .. });
        is_cell && self.reason.as_deref() == Some(Reason::Unmatched.as_str())
    }

    /// The looks as the kind reads them; none where one of them cannot be read.
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
        // One that an earlier version sent says nothing that a look could show.
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

/// The looks of a row, oldest first.
fn looks(row: &DoubtRow, calendar: Calendar) -> Result<Vec<(Timestamp, Value)>, StoreError> {
    let looks: Vec<(i64, Option<i64>, Value)> = serde_json::from_str(&row.looks)
        .map_err(|_| StoreError::Foreign { what: "a list of looks", value: row.looks.clone() })?;
    Ok(looks.into_iter().map(|(sent_ms, moment, shown)| (calendar.at(sent_ms, moment), shown)).collect())
}

/// The looks at a cell; none where one of them shows neither a quantity nor that there is none.
fn cell_looks(looks: &[(Timestamp, Value)]) -> Option<Vec<Look>> {
    let shown = |value: &Value| match value {
        Value::Null => Some(Shown::Cell(None)),
        Value::Number(number) => integral(number).map(|units| Shown::Cell(Some(Quantity(units)))),
        value => (value == NOT_RETURNED).then_some(Shown::NotReturned),
    };
    looks.iter().map(|(sent_at, value)| Some(Look { sent_at: *sent_at, shown: shown(value)? })).collect()
}
