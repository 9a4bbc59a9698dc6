//! Preview of the changes other than quantities in the next push, by the known facts.
//!
//! It uses the order, decisions and requests of the push, without the preflights, claims and sends. A second
//! change of an order, shipment, SKU or name has no preview, because its plan depends on the result of the
//! first one.

use super::tracking::Shipment;
use super::{Wish, order_subject, product_update, shipment, shipment_subject};
use super::{tracking, turn, unlucky};
use crate::client::Request;
use crate::client::wire::{self, Invalid, Paging};
use crate::exec::JobError;
use crate::exec::preflight::Create;
use crate::exec::preflight::sku_subject;
use crate::model::{ShipmentId, WishId};
use crate::outbox::{Body, ProductUpdate, ShipmentCreate, TrackingSubmit};
use crate::push::{Planned, Preview};
use crate::reconcile::Plan;
use crate::reconcile::shipment::OrderFact;
use crate::reconcile::{self, create};
use crate::store::{ProductCells, Store};
use std::collections::{BTreeMap, BTreeSet};

/// Adds the changes other than quantities to a preview.
pub(in crate::push) async fn foresee(store: &Store, preview: &mut Preview) -> Result<(), JobError> {
    let pending = store.outbox_pending().await?;
    let under_way = store.delivery_under_way().await?;
    let unlucky = unlucky(&pending);
    let wishes: Vec<Wish> = pending.iter().filter_map(Wish::of).collect();
    let mut foresight =
        Foresight { store, preview, under_way, unlucky, went: BTreeMap::new(), done: BTreeSet::new() };
    for is_urgent in [true, false] {
        let lane: Vec<Wish> = wishes.iter().filter(|wish| wish.is_urgent == is_urgent).cloned().collect();
        while foresight.round(&lane).await? {}
    }
    Ok(())
}

struct Foresight<'a> {
    store: &'a Store,
    preview: &'a mut Preview,
    under_way: BTreeSet<String>,
    unlucky: BTreeSet<WishId>,
    /// First change of each ordering key in this preview.
    went: BTreeMap<String, WishId>,
    /// Changes that the preview covers already.
    done: BTreeSet<WishId>,
}

impl Foresight<'_> {
    /// Adds a call of each kind. Returns false if nothing is left.
    async fn round(&mut self, wishes: &[Wish]) -> Result<bool, JobError> {
        let before = self.done.len();
        self.shipments(wishes).await?;
        self.trackings(wishes).await?;
        self.creates(wishes).await?;
        self.updates(wishes).await?;
        Ok(self.done.len() > before)
    }

    /// Returns the changes of the next call, at most `limit`. Notes the changes that are behind another with
    /// the same ordering key.
    fn next<T>(&mut self, wishes: Vec<(WishId, String, T)>, limit: usize) -> Vec<(WishId, String, T)> {
        let mut open = Vec::new();
        for (id, subject, wish) in wishes {
            if self.done.contains(&id) {
                continue;
            }
            if let Some(first) = self.went.get(&subject) {
                let key = self.preview.keys.get(first).cloned().unwrap_or_default();
                self.note(
                    id,
                    format!("goes after the wish `{key}` for the same {subject}, planned anew then"),
                );
            } else {
                open.push((id, subject, wish));
            }
        }
        let mut next = turn(open, &self.under_way, &self.unlucky);
        next.truncate(limit);
        for (id, subject, _) in &next {
            self.went.insert(subject.clone(), *id);
            self.done.insert(*id);
        }
        next
    }

    async fn shipments(&mut self, wishes: &[Wish]) -> Result<(), JobError> {
        let ours = wishes.iter().filter_map(|wish| match &wish.body {
            Body::ShipmentCreate(create) => Some((wish.id, order_subject(create), create)),
            _ => None,
        });
        let mut loads = Vec::new();
        for (id, subject, wish) in self.next(ours.collect(), shipment::ORDERS_MAX) {
            self.look(Ok(wire::get_order_line_items(wish.order_id)), id)?;
            let plan = self.shipment(wish).await?;
            if let Some(lines) = self.planned(id, plan, "its order") {
                loads.push(shipment::load(id, subject, wish, lines));
            }
        }
        let ids = loads.iter().map(|load| load.kept.id).collect();
        self.call(|| shipment::request(&loads), ids)
    }

    async fn shipment(
        &self,
        wish: &ShipmentCreate,
    ) -> Result<Plan<Vec<reconcile::shipment::ClaimedLine>>, JobError> {
        let known = self.store.order_at_hand(wish.order_id).await?;
        let fact = match &known {
            None => OrderFact::Unread,
            Some((_, false)) => OrderFact::Incomplete,
            Some((lines, true)) if lines.is_empty() => OrderFact::Unknown,
            Some((lines, true)) => OrderFact::Known(lines),
        };
        Ok(reconcile::shipment::plan(wish, fact))
    }

    async fn trackings(&mut self, wishes: &[Wish]) -> Result<(), JobError> {
        let mut ours: Vec<(WishId, String, (ShipmentId, &TrackingSubmit))> = Vec::new();
        for wish in wishes {
            let Body::TrackingSubmit(submit) = &wish.body else { continue };
            if self.done.contains(&wish.id) {
                continue;
            }
            match tracking::shipment_of(self.store, &submit.shipment).await? {
                Shipment::There(shipment) => {
                    ours.push((wish.id, shipment_subject(shipment), (shipment, submit)));
                }
                Shipment::NotYet(why) => self.note(wish.id, format!("waits: {why}")),
                Shipment::Never(why) => self.note(wish.id, format!("rejected: {why}")),
            }
        }
        let mut loads = Vec::new();
        for (id, subject, (shipment, wish)) in self.next(ours, tracking::SHIPMENTS_MAX) {
            self.look(Ok(wire::shipment_line_items(shipment, Paging::FIRST)), id)?;
            let items = self.store.shipment_at_hand(shipment).await?;
            let plan = reconcile::tracking::plan(wish, items.as_deref());
            match self.planned(id, plan, "its shipment") {
                Some(entries) if entries.is_empty() => {
                    self.note(id, "applied without a call: the shipment carries this number already".into());
                }
                Some(entries) => loads.push(tracking::load(id, subject, shipment, wish, &entries)),
                None => {}
            }
        }
        let ids = loads.iter().map(|load| load.kept.id).collect();
        self.call(|| tracking::request(&loads), ids)
    }

    async fn creates(&mut self, wishes: &[Wish]) -> Result<(), JobError> {
        let ours = wishes.iter().filter_map(|wish| {
            let create = Create::of(&wish.body)?;
            Some((wish.id, create.subject(), create))
        });
        for (id, _, create) in self.next(ours.collect(), 1) {
            self.look(create.first_look(), id)?;
            let there = create.at_hand(self.store).await?;
            if self.planned(id, create::plan(create.name(), Some(&there)), "the service").is_some() {
                self.call(|| create.request(), vec![id])?;
            }
        }
        Ok(())
    }

    async fn updates(&mut self, wishes: &[Wish]) -> Result<(), JobError> {
        let ours = wishes.iter().filter_map(|wish| match &wish.body {
            Body::ProductUpdate(update) => Some((wish.id, sku_subject(&update.sku), update)),
            _ => None,
        });
        for (id, _, wish) in self.next(ours.collect(), 1) {
            let sku = product_update::known_sku(self.store, wish).await?;
            self.look(wire::get_product_balances(std::slice::from_ref(&sku)), id)?;
            let cells = self.store.product_cells(&sku).await?;
            let plan = self.update(wish, sku.fold(), cells);
            if let Some(fields) = self.planned(id, plan, "its product") {
                self.call(|| product_update::request(fields), vec![id])?;
            }
        }
        Ok(())
    }

    /// Plans an update with the quantities that the same push writes before it.
    fn update(
        &self,
        wish: &ProductUpdate,
        fold: String,
        mut cells: ProductCells,
    ) -> Plan<serde_json::Map<String, serde_json::Value>> {
        if cells.read_by.is_none() {
            return Plan::Read;
        }
        for cell in &mut cells.cells {
            let name = (fold.clone(), crate::model::WarehouseId(cell.warehouse_id));
            if let Some((from, to)) = self.preview.written.get(&name) {
                cell.quantity = to.0;
                cells.total = cells.total.map(|total| total + to.0 - from.0);
            }
        }
        product_update::plan(wish, &cells, None)
    }

    fn look(&mut self, request: Result<Request, Invalid>, id: WishId) -> Result<(), JobError> {
        self.call(|| request, vec![id])
    }

    /// Adds a request for these changes, if there are any.
    fn call(
        &mut self,
        request: impl FnOnce() -> Result<Request, Invalid>,
        wishes: Vec<WishId>,
    ) -> Result<(), JobError> {
        if !wishes.is_empty() {
            let request = request().map_err(|why| JobError::Implausible(why.to_string()))?;
            self.preview.requests.push(Planned { request, wishes });
        }
        Ok(())
    }

    /// Returns the content of a plan that sends. Otherwise notes the reason.
    fn planned<T>(&mut self, id: WishId, plan: Plan<T>, what: &str) -> Option<T> {
        match plan {
            Plan::Go(what) => return Some(what),
            Plan::Held { detail, .. } => self.note(id, format!("held: {detail}")),
            Plan::Lacking { detail, .. } => self.note(id, format!("waits for a second look: {detail}")),
            Plan::Rejected { detail, .. } => self.note(id, format!("rejected: {detail}")),
            Plan::Read => self.note(id, format!("decided once {what} was read")),
        }
        None
    }

    fn note(&mut self, id: WishId, what: String) {
        self.done.insert(id);
        self.preview.without_call.push((id, what));
    }
}
