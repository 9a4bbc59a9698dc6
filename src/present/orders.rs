//! Tracked orders, and an order with its lines, allocations and shipments.

use super::time_text;
use crate::model::{OrderId, Timestamp};
use crate::store::{AllocationRow, OrderRow, OrderState, ShipmentItemRow, Store, StoreError};
use serde_json::{Value, json};

/// An order with everything that the mirror knows of it.
pub(crate) struct OrderDetail {
    pub(crate) row: Option<OrderRow>,
    pub(crate) lines: Vec<Value>,
    pub(crate) allocations: Vec<AllocationRow>,
    pub(crate) items: Vec<ShipmentItemRow>,
}

impl OrderDetail {
    pub(crate) async fn load(store: &Store, order: OrderId) -> Result<Self, StoreError> {
        Ok(Self {
            lines: store.order_lines(order).await?,
            allocations: store.allocation_list(order).await?,
            items: store.shipment_items(order).await?,
            row: store.order_row(order).await?,
        })
    }

    /// Returns the lines, each with its allocations and shipments.
    pub(crate) fn to_json(&self) -> Value {
        let line = |line: &Value| {
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

pub(crate) fn order_json(row: &OrderRow, now: Timestamp) -> Value {
    let time = |ms: Option<i64>| ms.map(time_text);
    json!({
        "order_id": row.order_id, "observed_at": time(row.observed_ms),
        "closed_at": time(row.closed_ms), "lines": row.lines, "quantity_sold": row.sold,
        "quantity_left": row.left, "changed_at": time(row.changed_ms),
        "state": row.state(now).as_str(), "stale": row.state(now) == OrderState::Stale,
    })
}
