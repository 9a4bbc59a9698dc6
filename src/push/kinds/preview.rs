//! Preview of the changes other than quantities in the next push, by the known facts.
//!
//! It uses the order, decisions and requests of the push, without the preflights, claims and sends. A second
//! change of an order, shipment, SKU or name has no preview, because its plan depends on the result of the
//! first one.

use super::tracking::NamedShipment;
use super::{DeliverableChange, order_key, product_update, shipment, shipment_key};
use super::{first_per_key, previously_failed, tracking};
use crate::client::PlatformRequest;
use crate::client::wire::{self, InvalidRequest, PageParams};
use crate::exec::JobError;
use crate::exec::preflight::CreateBody;
use crate::exec::preflight::product_key;
use crate::model::{ChangeId, ShipmentId};
use crate::outbox::{ChangeBody, ProductUpdate, ShipmentCreate, TrackingSubmit};
use crate::push::{PlannedRequest, PushPreview};
use crate::reconcile::ChangePlan;
use crate::reconcile::shipments::OrderFact;
use crate::reconcile::{self, creates};
use crate::store::{ProductStock, Store};
use std::collections::{BTreeMap, BTreeSet};

/// Adds the changes other than quantities to a preview.
pub(in crate::push) async fn preview_deliveries(
    store: &Store,
    preview: &mut PushPreview,
) -> Result<(), JobError> {
    let pending = store.outbox_pending().await?;
    let under_way = store.delivery_keys_in_flight().await?;
    let previously_failed = previously_failed(&pending);
    let changes: Vec<DeliverableChange> = pending.iter().filter_map(DeliverableChange::of).collect();
    let mut run_preview = DeliveryPreview {
        store,
        preview,
        busy_keys: under_way,
        previously_failed,
        first_by_key: BTreeMap::new(),
        covered: BTreeSet::new(),
    };
    for is_urgent in [true, false] {
        let lane: Vec<DeliverableChange> =
            changes.iter().filter(|change| change.is_urgent == is_urgent).cloned().collect();
        while run_preview.preview_round(&lane).await? {}
    }
    Ok(())
}

struct DeliveryPreview<'a> {
    store: &'a Store,
    preview: &'a mut PushPreview,
    busy_keys: BTreeSet<String>,
    previously_failed: BTreeSet<ChangeId>,
    /// First change of each ordering key in this preview.
    first_by_key: BTreeMap<String, ChangeId>,
    /// Changes that the preview covers already.
    covered: BTreeSet<ChangeId>,
}

impl DeliveryPreview<'_> {
    /// Adds a call of each kind. Returns false if nothing is left.
    async fn preview_round(&mut self, changes: &[DeliverableChange]) -> Result<bool, JobError> {
        let before = self.covered.len();
        self.preview_shipments(changes).await?;
        self.preview_trackings(changes).await?;
        self.preview_creates(changes).await?;
        self.preview_updates(changes).await?;
        Ok(self.covered.len() > before)
    }

    /// Returns the changes of the next call, at most `limit`. Notes the changes that are behind another with
    /// the same ordering key.
    fn next_changes<T>(
        &mut self,
        changes: Vec<(ChangeId, String, T)>,
        limit: usize,
    ) -> Vec<(ChangeId, String, T)> {
        let mut open = Vec::new();
        for (id, subject, change) in changes {
            if self.covered.contains(&id) {
                continue;
            }
            if let Some(first) = self.first_by_key.get(&subject) {
                let key = self.preview.change_keys.get(first).cloned().unwrap_or_default();
                self.note_without_call(
                    id,
                    format!("goes after the change `{key}` for the same {subject}, planned anew then"),
                );
            } else {
                open.push((id, subject, change));
            }
        }
        let mut next = first_per_key(open, &self.busy_keys, &self.previously_failed);
        next.truncate(limit);
        for (id, subject, _) in &next {
            self.first_by_key.insert(subject.clone(), *id);
            self.covered.insert(*id);
        }
        next
    }

    async fn preview_shipments(&mut self, changes: &[DeliverableChange]) -> Result<(), JobError> {
        let of_kind = changes.iter().filter_map(|change| match &change.body {
            ChangeBody::ShipmentCreate(create) => Some((change.id, order_key(create), create)),
            _ => None,
        });
        let mut entries_to_send = Vec::new();
        for (id, subject, change) in self.next_changes(of_kind.collect(), shipment::ORDERS_MAX) {
            self.add_preflight(Ok(wire::get_order_line_items(change.order_id)), id)?;
            let plan = self.plan_shipment(change).await?;
            if let Some(lines) = self.planned_content(id, plan, "its order") {
                entries_to_send.push(shipment::shipment_entry(id, subject, change, lines));
            }
        }
        let ids = entries_to_send.iter().map(|entry| entry.evidence.id).collect();
        self.add_request(|| shipment::shipments_request(&entries_to_send), ids)
    }

    async fn plan_shipment(
        &self,
        change: &ShipmentCreate,
    ) -> Result<ChangePlan<Vec<reconcile::shipments::ClaimedLine>>, JobError> {
        let known = self.store.order_cached_lines(change.order_id).await?;
        let fact = match &known {
            None => OrderFact::Unread,
            Some((_, false)) => OrderFact::Incomplete,
            Some((lines, true)) if lines.is_empty() => OrderFact::Unknown,
            Some((lines, true)) => OrderFact::Known(lines),
        };
        Ok(reconcile::shipments::plan_shipment(change, fact))
    }

    async fn preview_trackings(&mut self, changes: &[DeliverableChange]) -> Result<(), JobError> {
        let mut of_kind: Vec<(ChangeId, String, (ShipmentId, &TrackingSubmit))> = Vec::new();
        for change in changes {
            let ChangeBody::TrackingSubmit(submit) = &change.body else { continue };
            if self.covered.contains(&change.id) {
                continue;
            }
            match tracking::find_shipment(self.store, &submit.shipment).await? {
                NamedShipment::Exists(shipment) => {
                    of_kind.push((change.id, shipment_key(shipment), (shipment, submit)));
                }
                NamedShipment::Pending(why) => self.note_without_call(change.id, format!("waits: {why}")),
                NamedShipment::Impossible(why) => {
                    self.note_without_call(change.id, format!("rejected: {why}"))
                }
            }
        }
        let mut entries_to_send = Vec::new();
        for (id, subject, (shipment, change)) in self.next_changes(of_kind, tracking::SHIPMENTS_MAX) {
            self.add_preflight(Ok(wire::shipment_line_items(shipment, PageParams::FIRST)), id)?;
            let items = self.store.shipment_cached_items(shipment).await?;
            let plan = reconcile::tracking::plan_tracking(change, items.as_deref());
            match self.planned_content(id, plan, "its shipment") {
                Some(entries) if entries.is_empty() => {
                    self.note_without_call(
                        id,
                        "applied without a call: the shipment carries this number already".into(),
                    );
                }
                Some(entries) => {
                    entries_to_send.push(tracking::tracking_entry(id, subject, shipment, change, &entries))
                }
                None => {}
            }
        }
        let ids = entries_to_send.iter().map(|entry| entry.evidence.id).collect();
        self.add_request(|| tracking::trackings_request(&entries_to_send), ids)
    }

    async fn preview_creates(&mut self, changes: &[DeliverableChange]) -> Result<(), JobError> {
        let of_kind = changes.iter().filter_map(|change| {
            let create = CreateBody::from_body(&change.body)?;
            Some((change.id, create.ordering_key(), create))
        });
        for (id, _, create) in self.next_changes(of_kind.collect(), 1) {
            self.add_preflight(create.first_preflight(), id)?;
            let there = create.known_records(self.store).await?;
            if self
                .planned_content(id, creates::plan_create(create.name(), Some(&there)), "the platform")
                .is_some()
            {
                self.add_request(|| create.create_request(), vec![id])?;
            }
        }
        Ok(())
    }

    async fn preview_updates(&mut self, changes: &[DeliverableChange]) -> Result<(), JobError> {
        let of_kind = changes.iter().filter_map(|change| match &change.body {
            ChangeBody::ProductUpdate(update) => Some((change.id, product_key(&update.sku), update)),
            _ => None,
        });
        for (id, _, change) in self.next_changes(of_kind.collect(), 1) {
            let sku = product_update::current_sku(self.store, change).await?;
            self.add_preflight(wire::get_product_balances(std::slice::from_ref(&sku)), id)?;
            let levels = self.store.product_stock(&sku).await?;
            let plan = self.plan_update(change, sku.case_key(), levels);
            if let Some(fields) = self.planned_content(id, plan, "its product") {
                self.add_request(|| product_update::update_request(fields), vec![id])?;
            }
        }
        Ok(())
    }

    /// Plans an update with the quantities that the same push writes before it.
    fn plan_update(
        &self,
        change: &ProductUpdate,
        case_key: String,
        mut levels: ProductStock,
    ) -> ChangePlan<serde_json::Map<String, serde_json::Value>> {
        if levels.read_exchange_id.is_none() {
            return ChangePlan::ReadFirst;
        }
        for level in &mut levels.stock_levels {
            let name = (case_key.clone(), crate::model::WarehouseId(level.warehouse_id));
            if let Some((from, to)) = self.preview.written_levels.get(&name) {
                level.quantity = to.0;
                levels.total = levels.total.map(|total| total + to.0 - from.0);
            }
        }
        product_update::plan_update(change, &levels, None)
    }

    fn add_preflight(
        &mut self,
        request: Result<PlatformRequest, InvalidRequest>,
        id: ChangeId,
    ) -> Result<(), JobError> {
        self.add_request(|| request, vec![id])
    }

    /// Adds a request for these changes, if there are any.
    fn add_request(
        &mut self,
        request: impl FnOnce() -> Result<PlatformRequest, InvalidRequest>,
        changes: Vec<ChangeId>,
    ) -> Result<(), JobError> {
        if !changes.is_empty() {
            let request = request().map_err(|why| JobError::Implausible(why.to_string()))?;
            self.preview.requests.push(PlannedRequest { request, changes });
        }
        Ok(())
    }

    /// Returns the content of a plan that sends. Otherwise notes the reason.
    fn planned_content<T>(&mut self, id: ChangeId, plan: ChangePlan<T>, what: &str) -> Option<T> {
        match plan {
            ChangePlan::Send(what) => return Some(what),
            ChangePlan::Held { detail, .. } => self.note_without_call(id, format!("held: {detail}")),
            ChangePlan::PartMissing { detail, .. } => {
                self.note_without_call(id, format!("waits for a second look: {detail}"))
            }
            ChangePlan::Rejected { detail, .. } => self.note_without_call(id, format!("rejected: {detail}")),
            ChangePlan::ReadFirst => self.note_without_call(id, format!("decided once {what} was read")),
        }
        None
    }

    fn note_without_call(&mut self, id: ChangeId, what: String) {
        self.covered.insert(id);
        self.preview.changes_without_call.push((id, what));
    }
}
