//! Preview of the changes other than quantities in the next push, by the known facts.
//!
//! It uses the order, plans and requests of the push, without the preflights, claims and sends. A second
//! change of an order, shipment, SKU or name has no preview, because its plan depends on the result of the
//! first one.

use super::facts::{PlanRead, ProductFacts};
use super::tracking::MissingShipment;
use super::{CallEntry, DeliverableChange, KeyedChange, PlanSource, changes_with_reason, first_per_key};
use super::{creates, product_update, shipment, tracking};
use crate::client::PlatformRequest;
use crate::client::wire::{self, InvalidRequest, PageParams};
use crate::exec::JobError;
use crate::exec::preflight::{CreateBody, OrderSnapshot, TimedRead};
use crate::model::{ChangeId, ExchangeId, OrderId, ShipmentId, Sku, WarehouseId};
use crate::outbox::{ProductUpdate, Reason};
use crate::push::{PlannedRequest, PushPreview};
use crate::reconcile::ChangePlan;
use crate::reconcile::creates::FoundRecord;
use crate::reconcile::product_update::ShownFields;
use crate::reconcile::tracking::ItemFact;
use crate::store::Store;
use std::collections::{BTreeMap, BTreeSet};

pub(in crate::push) async fn preview_deliveries(
    store: &Store,
    preview: &mut PushPreview,
) -> Result<(), JobError> {
    let pending = store.outbox_deliveries(false).await?;
    let changes: Vec<DeliverableChange> = pending.iter().filter_map(DeliverableChange::of).collect();
    preview.change_keys.extend(pending.iter().map(|row| (row.id, row.key.clone().into())));
    let mut run_preview = DeliveryPreview {
        store,
        preview,
        busy_keys: store.delivery_keys_in_flight().await?,
        previously_failed: changes_with_reason(&pending, Reason::NotSent),
        first_by_key: BTreeMap::new(),
        covered: BTreeSet::new(),
    };
    for is_urgent in [true, false] {
        let mut lane: Vec<DeliverableChange> =
            changes.iter().filter(|change| change.is_urgent == is_urgent).cloned().collect();
        while run_preview.preview_round(&lane).await? {
            lane.retain(|change| !run_preview.covered.contains(&change.id));
        }
    }
    Ok(())
}

struct DeliveryPreview<'a> {
    store: &'a Store,
    preview: &'a mut PushPreview,
    busy_keys: BTreeSet<String>,
    previously_failed: BTreeSet<ChangeId>,
    first_by_key: BTreeMap<String, ChangeId>,
    covered: BTreeSet<ChangeId>,
}

impl DeliveryPreview<'_> {
    /// Adds a call of each kind. Returns false if nothing is left.
    async fn preview_round(&mut self, changes: &[DeliverableChange]) -> Result<bool, JobError> {
        let before = self.covered.len();
        let mut entries = Vec::new();
        for change in self.next_changes(shipment::of_kind(changes), shipment::ORDERS_MAX) {
            entries.extend(shipment::plan_entry(self, change).await?);
        }
        self.add_call(&entries, shipment::shipments_request)?;
        let mut entries = Vec::new();
        for change in self.next_trackings(changes).await? {
            entries.extend(tracking::plan_entry(self, change).await?);
        }
        self.add_call(&entries, tracking::trackings_request)?;
        for change in self.next_changes(creates::of_kind(changes), 1) {
            let entries: Vec<_> = creates::plan_entry(self, change).await?.into_iter().collect();
            self.add_call(&entries, |entries| entries[0].content.create_request())?;
        }
        for (id, key, (change, _)) in self.next_changes(product_update::of_kind(changes), 1) {
            let sku = product_update::current_sku(self.store, change).await?;
            let entry = product_update::plan_entry(self, (id, key, change), &sku).await?;
            let entries: Vec<_> = entry.into_iter().collect();
            self.add_call(&entries, |entries| wire::update_product(&entries[0].content.0))?;
        }
        Ok(self.covered.len() > before)
    }

    /// Returns the changes of the next call, at most `limit`. Notes the changes that are behind another with
    /// the same ordering key.
    fn next_changes<T>(&mut self, changes: Vec<KeyedChange<T>>, limit: usize) -> Vec<KeyedChange<T>> {
        let mut open = Vec::new();
        for (id, subject, change) in changes {
            if let Some(first) = self.first_by_key.get(&subject) {
                let key = self.preview.change_keys.get(first).cloned().unwrap_or_default();
                self.note_without_call(
                    id,
                    format!("sent after the change `{key}` for the same {subject}; it is planned again then"),
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

    async fn next_trackings<'w>(
        &mut self,
        changes: &'w [DeliverableChange],
    ) -> Result<Vec<KeyedChange<tracking::NamedTracking<'w>>>, JobError> {
        let (of_kind, missing) = tracking::find_shipments(self.store, changes).await?;
        for (id, shipment) in missing {
            self.note_without_call(
                id,
                match shipment {
                    MissingShipment::Pending(why) => format!("waits: {why}"),
                    MissingShipment::Impossible(why) => format!("rejected: {why}"),
                },
            );
        }
        Ok(self.next_changes(of_kind, tracking::SHIPMENTS_MAX))
    }

    fn add_call<T>(
        &mut self,
        entries: &[CallEntry<T>],
        request: impl FnOnce(&[CallEntry<T>]) -> Result<PlatformRequest, InvalidRequest>,
    ) -> Result<(), JobError> {
        if !entries.is_empty() {
            let changes = entries.iter().map(|entry| entry.evidence.id).collect();
            self.preview.requests.push(PlannedRequest { request: request(entries)?, changes });
        }
        Ok(())
    }

    fn add_preflight(&mut self, request: PlatformRequest, id: ChangeId) {
        self.preview.requests.push(PlannedRequest { request, changes: vec![id] });
    }

    fn note_without_call(&mut self, id: ChangeId, what: String) {
        self.covered.insert(id);
        self.preview.changes_without_call.push((id, what));
    }
}

impl PlanSource for DeliveryPreview<'_> {
    fn store(&self) -> &Store {
        self.store
    }

    async fn order(&mut self, id: ChangeId, order: OrderId) -> PlanRead<Option<OrderSnapshot>> {
        self.add_preflight(wire::get_order_line_items(order), id);
        let known = self.store.order_cached_lines(order).await?;
        let known =
            known.map(|(lines, is_complete)| OrderSnapshot { lines, has_unreadable: false, is_complete });
        Ok(Some(TimedRead::of_stored(known)))
    }

    async fn items(&mut self, id: ChangeId, shipment: ShipmentId) -> PlanRead<Option<Vec<ItemFact>>> {
        self.add_preflight(wire::shipment_line_items(shipment, PageParams::FIRST), id);
        Ok(Some(TimedRead::of_stored(self.store.shipment_cached_items(shipment).await?)))
    }

    async fn namesakes(&mut self, id: ChangeId, create: CreateBody<'_>) -> PlanRead<Vec<FoundRecord>> {
        self.add_preflight(create.first_preflight()?, id);
        Ok(Some(TimedRead::of_stored(create.known_records(self.store).await?)))
    }

    /// Returns the facts with the quantities that the same push writes before the update.
    async fn product(&mut self, id: ChangeId, _: &ProductUpdate, sku: &Sku) -> PlanRead<ProductFacts> {
        self.add_preflight(wire::get_product_balances(std::slice::from_ref(sku))?, id);
        let mut levels = self.store.product_stock(sku).await?;
        for level in &mut levels.stock_levels {
            let name = (sku.case_key(), WarehouseId(level.warehouse_id));
            if let Some((from, to)) = self.preview.written_levels.get(&name) {
                level.quantity = to.0;
                levels.total = levels.total.map(|total| total + to.0 - from.0);
            }
        }
        Ok(Some(TimedRead::of_stored(ProductFacts { levels, read: None, shown: ShownFields::default() })))
    }

    async fn plan_content<T>(
        &mut self,
        id: ChangeId,
        plan: ChangePlan<T>,
        subject: &str,
    ) -> Result<Option<T>, JobError> {
        self.note_without_call(
            id,
            match plan {
                ChangePlan::Send(content) => return Ok(Some(content)),
                ChangePlan::Held { detail, .. } => format!("held: {detail}"),
                ChangePlan::PartMissing { detail, .. } => format!("waits for a second check: {detail}"),
                ChangePlan::Rejected { detail, .. } => format!("rejected: {detail}"),
                ChangePlan::ReadFirst => format!("decided once {subject} was read"),
            },
        );
        Ok(None)
    }

    async fn apply_agreed(&mut self, id: ChangeId, _: ExchangeId) -> Result<(), JobError> {
        let note = "applied without a call: the shipment has this number already";
        self.note_without_call(id, note.into());
        Ok(())
    }
}
