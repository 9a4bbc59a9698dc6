//! Preview of the changes other than quantities in the next push, by the known facts.
//!
//! It uses the order, plans and requests of the push, without the preflights, claims and sends. A second
//! change of an order, shipment, SKU or name has no preview, because its plan depends on the result of the
//! first one.

use super::entry::{CallChange, CallEntry, CallKind, first_per_ordering_key};
use super::facts::{PlanRead, PlanSource, ProductFacts};
use super::tracking::MissingShipment;
use super::{call_changes, call_request, plan_entry};
use crate::client::PlatformRequest;
use crate::client::wire::{self, PageParams};
use crate::exec::JobError;
use crate::exec::reads::TimedRead;
use crate::model::{ChangeId, ExchangeId, OrderId, ShipmentId, Sku, WarehouseId};
use crate::outbox::CreateBody;
use crate::push::preview::{PlannedRequest, PushPreview};
use crate::reconcile::ChangePlan;
use crate::reconcile::creates::FoundRecord;
use crate::reconcile::product_update::ShownFields;
use crate::reconcile::shipments::OrderSnapshot;
use crate::reconcile::tracking::ItemFact;
use crate::store::Store;
use std::collections::{BTreeMap, BTreeSet};

pub(crate) async fn preview_deliveries(store: &Store, preview: &mut PushPreview) -> Result<(), JobError> {
    let pending = store.outbox_deliveries(false).await?;
    let (changes, missing) = call_changes(store, &pending).await?;
    preview.change_keys.extend(pending.iter().map(|row| (row.id, row.key.clone().into())));
    let mut run_preview = DeliveryPreview {
        store,
        preview,
        busy_keys: store.delivery_keys_in_flight().await?,
        first_by_key: BTreeMap::new(),
        covered: BTreeSet::new(),
    };
    for (id, shipment) in missing {
        let what = match shipment {
            MissingShipment::Pending(why) => format!("waits: {why}"),
            MissingShipment::Impossible(why) => format!("rejected: {why}"),
        };
        run_preview.note_without_call(id, what);
    }
    for is_urgent in [true, false] {
        let mut lane: Vec<CallChange<'_>> =
            changes.iter().filter(|change| change.is_urgent == is_urgent).copied().collect();
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
    first_by_key: BTreeMap<String, ChangeId>,
    covered: BTreeSet<ChangeId>,
}

impl DeliveryPreview<'_> {
    /// Adds a call of each kind. Returns false if nothing is left.
    async fn preview_round(&mut self, changes: &[CallChange<'_>]) -> Result<bool, JobError> {
        let before = self.covered.len();
        for kind in CallKind::ALL {
            let of_kind = changes.iter().filter(|change| change.work.kind().0 == kind).copied().collect();
            let mut entries = Vec::new();
            for change in self.next_changes(of_kind, kind.entries_max()) {
                entries.extend(plan_entry(self, &change).await?);
            }
            if !entries.is_empty() {
                let changes = entries.iter().map(CallEntry::id).collect();
                self.preview.requests.push(PlannedRequest { request: call_request(&entries), changes });
            }
        }
        Ok(self.covered.len() > before)
    }

    /// Returns the changes of the next call, at most `limit`. Notes the changes that are behind another with
    /// the same ordering key.
    fn next_changes<'w>(&mut self, changes: Vec<CallChange<'w>>, limit: usize) -> Vec<CallChange<'w>> {
        let mut open = Vec::new();
        for change in changes {
            let subject = change.work.ordering_key();
            let Some(first) = self.first_by_key.get(&subject) else {
                open.push(change);
                continue;
            };
            let key = self.preview.change_keys.get(first).cloned().unwrap_or_default();
            self.note_without_call(
                change.id,
                format!("sent after the change `{key}` for the same {subject}; it is planned again then"),
            );
        }
        let mut next = first_per_ordering_key(open, self.busy_keys.clone());
        next.truncate(limit);
        for change in &next {
            self.first_by_key.insert(change.work.ordering_key(), change.id);
            self.covered.insert(change.id);
        }
        next
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

    async fn namesakes(&mut self, id: ChangeId, create: &CreateBody) -> PlanRead<Vec<FoundRecord>> {
        self.add_preflight(create.first_preflight(), id);
        Ok(Some(TimedRead::of_stored(create.known_records(self.store).await?)))
    }

    /// Returns the facts with the quantities that the same push writes before the update.
    async fn product(&mut self, id: ChangeId, sku: &Sku) -> PlanRead<ProductFacts> {
        self.add_preflight(wire::get_product_balances(std::slice::from_ref(sku)), id);
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
