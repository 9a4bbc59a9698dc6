//! Tracked orders, and an order with its lines, allocations and shipments.

use super::listing::{JsonRow, ListCell, ListedRow, ListedSubject, list_row, time_cell};
use super::time_text;
use crate::model::{OrderId, Timestamp};
use crate::store::{AllocationRow, OrderRow, OrderState, ShipmentItemRow, Store, StoreError};
use serde_json::{Value, json};

/// An order with everything that the mirror knows of it.
pub(crate) struct OrderDetail {
    pub(crate) row: Option<OrderRow>,
    pub(crate) lines: Vec<ListedOrderLine>,
    pub(crate) allocations: Vec<AllocationRow>,
    pub(crate) items: Vec<ShipmentItemRow>,
}

impl OrderDetail {
    pub(crate) async fn load(store: &Store, order: OrderId) -> Result<Self, StoreError> {
        Ok(Self {
            lines: store.order_lines(order).await?.into_iter().map(ListedOrderLine).collect(),
            allocations: store.allocation_list(order).await?,
            items: store.shipment_items(order).await?,
            row: store.order_row(order).await?,
        })
    }

    /// Returns the lines, each with its allocations and shipments.
    pub(crate) fn to_json(&self) -> Value {
        let line = |ListedOrderLine(line): &ListedOrderLine| {
            let id = line["line_item_id"].as_i64();
            let allocations = self.allocations.iter().filter(|row| Some(row.line_item_id) == id);
            let shipped = self.items.iter().filter(|item| item.line_item_id == id);
            let mut line = line.clone();
            line["allocations"] = json!(allocations.collect::<Vec<_>>());
            line["shipments"] = json!(shipped.collect::<Vec<_>>());
            line
        };
        self.lines.iter().map(line).collect()
    }
}

/// A tracked order at a time, on which its state depends.
pub(crate) struct OrderNow<'a>(pub(crate) &'a OrderRow, pub(crate) Timestamp);

impl ListedRow for OrderNow<'_> {
    const HEADINGS: &'static [&'static str] =
        &["order", "state", "lines", "sold", "left", "closed", "observed"];

    fn cells(&self) -> Vec<ListCell> {
        let Self(row, now) = self;
        let (order, state) = (ListedSubject::Order.cell(row.order_id), row.state(*now).as_str());
        let (closed, observed) = (row.closed_ms.map(Timestamp), row.observed_ms.map(Timestamp));
        list_row![order, state, row.lines, row.sold, row.left, closed, observed]
    }
}

impl JsonRow for OrderNow<'_> {
    fn to_json(&self) -> Value {
        let Self(row, now) = self;
        let time = |ms: Option<i64>| ms.map(time_text);
        json!({
            "order_id": row.order_id, "observed_at": time(row.observed_ms),
            "closed_at": time(row.closed_ms), "lines": row.lines, "quantity_sold": row.sold,
            "quantity_left": row.left, "changed_at": time(row.changed_ms),
            "state": row.state(*now).as_str(), "stale": row.state(*now) == OrderState::Stale,
        })
    }
}

/// A line of an order, as the store gives it.
pub(crate) struct ListedOrderLine(pub(crate) Value);

impl ListedRow for ListedOrderLine {
    const HEADINGS: &'static [&'static str] =
        &["line", "sku", "sold", "left", "price", "supplier", "warehouse", "observed"];

    fn cells(&self) -> Vec<ListCell> {
        let Self(line) = self;
        let sku = line["sku"].as_str().map(|sku| ListedSubject::Sku.cell(sku));
        let (sold, left, price) = (&line["quantity_sold"], &line["quantity_left"], &line["unit_price"]);
        let (supplier, warehouse) = (&line["supplier_id"], &line["warehouse_id"]);
        let observed = time_cell(line["observed_at"].as_str());
        list_row![line["line_item_id"], sku, sold, left, price, supplier, warehouse, observed]
    }
}

impl ListedRow for AllocationRow {
    const HEADINGS: &'static [&'static str] = &["line", "sku", "quantity", "warehouse", "name", "observed"];

    fn cells(&self) -> Vec<ListCell> {
        let observed = time_cell(Some(&self.observed_at));
        let Self { line_item_id, sku, quantity, warehouse_id, warehouse_name, .. } = self;
        list_row![line_item_id, sku, quantity, warehouse_id, warehouse_name, observed]
    }
}

impl ListedRow for ShipmentItemRow {
    const HEADINGS: &'static [&'static str] =
        &["line", "shipment", "item", "quantity", "shipped", "confirmed", "tracking", "observed"];

    fn cells(&self) -> Vec<ListCell> {
        let observed = time_cell(Some(&self.observed_at));
        let Self { line_item_id, shipment_id, item_id, quantity, tracking_number, .. } = self;
        let (shipped, confirmed) = (self.is_shipped, self.is_confirmed);
        list_row![line_item_id, shipment_id, item_id, quantity, shipped, confirmed, tracking_number, observed]
    }
}
