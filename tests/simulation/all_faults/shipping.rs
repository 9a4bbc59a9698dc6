//! The dock: orders that ship in whole, in part or in several shipments, each with a tracking number.
//!
//! Colleagues ship too, or submit a tracking, at the platform.

use super::super::audit::whole;
use super::super::auditor::Content;
use super::super::books::Level;
use super::trial::Trial;
use serde_json::{Value, json};

#[derive(Clone, Debug)]
pub struct Order {
    pub id: i64,
    /// Lines with the units that no change ships yet.
    pub left: Vec<(i64, i64)>,
    pub parcels: Vec<Parcel>,
}

/// A shipment for which changes were inserted.
#[derive(Clone, Debug)]
pub struct Parcel {
    pub shipment_key: String,
    /// `None` until a form submits the number.
    pub tracking_key: Option<String>,
    pub content: Content,
    pub number: String,
    /// True if a colleague submitted another tracking number at the platform.
    pub is_told_by_hand: bool,
}

impl Trial {
    /// Orders one SKU or two from any warehouses; the dock ships a part of it.
    pub async fn order(&mut self) {
        let mut wanted: Vec<(String, i64)> = Vec::new();
        for _ in 0..self.random.between(1, 2) {
            let (sku, units) = (self.any_sku(), self.random.between(1, 6));
            if wanted.iter().all(|(other, _)| *other != sku) {
                wanted.push((sku, units));
            }
        }
        let taken: Option<Vec<_>> = wanted.iter().map(|(sku, units)| self.take(sku, *units)).collect();
        let lines: Vec<(&str, i64)> = wanted.iter().map(|(sku, units)| (sku.as_str(), *units)).collect();
        let placed = self.world.core.place_order(&lines).await;
        if placed.is_ok() != taken.is_some() {
            self.broken(format!("an order of {wanted:?}: {placed:?}, the auditor thinks {taken:?}"));
        }
        let (Ok(id), Some(taken)) = (placed, taken) else { return };
        for (level, units) in taken.into_iter().flatten() {
            self.taken(&level, units);
        }
        self.track_order(id).await;
        self.substitute(id).await;
        let Some(lines) = self.lines_of(id).await else { return };
        self.orders.push(Order { id, left: lines, parcels: Vec::new() });
        let last = self.orders.len() - 1;
        match self.random.between(1, 4) {
            1 => self.parcel(last, Share::All).await,
            2 => self.parcel(last, Share::Some).await,
            3 => {
                self.parcel(last, Share::Some).await;
                self.parcel(last, Share::All).await;
            }
            _ => {}
        }
    }

    pub async fn track_order(&mut self, order: i64) {
        self.world.outsider.track_orders(&[order]).await;
    }

    fn any_sku(&mut self) -> String {
        let skus: Vec<String> = self.truth.keys().map(|(sku, _)| sku.clone()).collect();
        self.random.pick(&skus).clone()
    }

    /// Orders one SKU or two from any warehouses, and ships the order in whole, in part, or not yet.
    pub fn take(&self, sku: &str, units: i64) -> Option<Vec<(Level, i64)>> {
        let (mut missing, mut taken) = (units, Vec::new());
        for level in self.truth.keys().filter(|(of, _)| of == sku) {
            let part = missing.min(self.auditor(|auditor| auditor.levels.listed(level)).max(0));
            missing -= part;
            if part > 0 {
                taken.push((level.clone(), part));
            }
        }
        (missing == 0).then_some(taken)
    }

    /// Returns the lines of an order with their units.
    async fn lines_of(&self, order: i64) -> Option<Vec<(i64, i64)>> {
        let said = self.by_hand("POST", "/api/orders/getOrderLineItems", &json!({"OrderId": order})).await?;
        let line =
            |line: &Value| (whole(&line["OrderLineItemId"]), whole(&line["QuantityNotTiedToShipment"]));
        Some(said["data"].as_array()?.iter().map(line).collect())
    }

    pub async fn later_parcel(&mut self) {
        let open: Vec<usize> = (0..self.orders.len())
            .filter(|at| self.orders[*at].left.iter().any(|(_, units)| *units > 0))
            .collect();
        if !open.is_empty() {
            let at = *self.random.pick(&open);
            self.parcel(at, Share::Some).await;
        }
    }

    /// Inserts the changes for a shipment and its tracking number.
    async fn parcel(&mut self, at: usize, share: Share) {
        let random = &mut self.random;
        let mut content: Content = Vec::new();
        for (line, left) in self.orders[at].left.iter_mut().filter(|(_, left)| *left > 0) {
            let units = if share == Share::All { *left } else { random.between(1, *left) };
            *left -= units;
            content.push((*line, units));
        }
        content.sort_unstable();
        if content.is_empty() {
            return;
        }
        let (order, number) = (self.orders[at].id, format!("1Z{}", self.world.changes()));
        let lines: Vec<Value> =
            content.iter().map(|(line, units)| json!({"line_item_id": line, "quantity": units})).collect();
        self.auditor(|auditor| auditor.parcels.queued(order, content.clone()));
        let shipment_key = self.change("shipment.create", &json!({"order_id": order, "lines": lines})).await;
        self.second_thoughts(&shipment_key);
        let tracking = json!({"shipment_key": shipment_key, "tracking_number": number});
        let tracking_key = Some(self.change("tracking.submit", &tracking).await);
        let parcel = Parcel { shipment_key, tracking_key, content, number, is_told_by_hand: false };
        self.orders[at].parcels.push(parcel);
    }

    /// Ships one unit of an order at the platform as a colleague.
    ///
    /// A change for the same unit may find too few left.
    pub async fn ship_by_hand(&mut self) {
        if self.orders.is_empty() {
            return;
        }
        let order = self.random.pick(&self.orders).id;
        let Some(lines) = self.lines_of(order).await else { return };
        let Some((line, _)) = lines.into_iter().find(|(_, left)| *left > 0) else { return };
        let body = json!([{"OrderId": order, "LineItems": [{"LineItemId": line, "Quantity": 1}]}]);
        let said = self.by_hand("POST", "/api/Shipments/Create", &body).await;
        if let Some(shipment) =
            said.map(|said| said["data"][0]["Shipment"].clone()).filter(|made| made.is_object())
        {
            let now = self.world.clock.now_ms();
            self.auditor(|auditor| {
                auditor.parcels.listed(&shipment);
                auditor.parcels.has_news(order, now);
            });
            self.count("parcels by hand");
        }
    }

    /// Submits, as a colleague, another tracking number than an unsent change has. The change must not
    /// overwrite it.
    pub async fn track_by_hand(&mut self) {
        let open: Vec<(usize, usize, i64)> = self.untold_parcels().await;
        if open.is_empty() {
            return;
        }
        let (order, parcel, shipment) = *self.random.pick(&open);
        let number = format!("HAND-{shipment}");
        let body = json!([{"ShipmentId": shipment, "TrackingNumber": number}]);
        if self.by_hand("POST", "/api/Shipments/submitTrackingInfo", &body).await.is_some() {
            let now = self.world.clock.now_ms();
            self.auditor(|auditor| auditor.parcels.tracked_by_hand(shipment, &number, now));
            self.orders[order].parcels[parcel].is_told_by_hand = true;
            self.count("trackings by hand");
        }
    }

    /// Returns the shipments that were made and whose tracking change is not on its way.
    async fn untold_parcels(&mut self) -> Vec<(usize, usize, i64)> {
        let fates = self.world.fates().await;
        let mut open = Vec::new();
        for (at, order) in self.orders.iter().enumerate() {
            for (number, parcel) in order.parcels.iter().enumerate() {
                let made = self.auditor(|auditor| auditor.parcels.shipment(order.id, &parcel.content));
                let is_waiting = parcel.tracking_key.as_ref().is_some_and(|key| fates[key].0 == "pending");
                open.extend(made.filter(|_| is_waiting).map(|shipment| (at, number, shipment)));
            }
        }
        open
    }
}

/// The share of an order that a shipment takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Share {
    All,
    Some,
}
