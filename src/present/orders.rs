//! Tracked orders, and an order with its lines, allocations and shipments.

use super::listing::{ListColumns, ListedRow, ListedSubject, columns, time_cell};
use super::time_text;
use crate::model::{OrderId, Timestamp};
use crate::store::{AllocationRow, OrderRow, OrderState, ShipmentItemRow, Store, StoreError};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

pub(crate) struct OrderDetail {
    pub(crate) row: Option<OrderRow>,
    /// Each line as the store gives it.
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

    pub(crate) fn line_list(&self) -> Vec<ListColumns> {
        let columns = |line: &Value| {
            columns! {
                "line": line["line_item_id"],
                "sku": line["sku"].as_str().map(|sku| ListedSubject::Sku.cell(sku)),
                "sold": line["quantity_sold"], "left": line["quantity_left"], "price": line["unit_price"],
                "supplier": line["supplier_id"], "warehouse": line["warehouse_id"],
                "observed": time_cell(line["observed_at"].as_str()),
            }
        };
        self.lines.iter().map(columns).collect()
    }
}

/// A tracked order at a time, on which its state depends.
pub(crate) struct OrderNow<'a>(pub(crate) &'a OrderRow, pub(crate) Timestamp);

impl ListedRow for OrderNow<'_> {
    fn columns(&self) -> ListColumns {
        let Self(row, now) = self;
        columns! {
            "order": ListedSubject::Order.cell(row.order_id), "state": row.state(*now).as_str(),
            "lines": row.lines, "sold": row.sold, "left": row.left, "closed": row.closed_ms.map(Timestamp),
            "observed": row.observed_ms.map(Timestamp),
        }
    }
}

impl Serialize for OrderNow<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Self(row, now) = self;
        let time = |ms: Option<i64>| ms.map(time_text);
        json!({
            "order_id": row.order_id, "observed_at": time(row.observed_ms),
            "closed_at": time(row.closed_ms), "lines": row.lines, "quantity_sold": row.sold,
            "quantity_left": row.left, "changed_at": time(row.changed_ms),
            "state": row.state(*now).as_str(), "stale": row.state(*now) == OrderState::Stale,
        })
        .serialize(to)
    }
}

impl ListedRow for AllocationRow {
    fn columns(&self) -> ListColumns {
        columns! {
            "line": self.line_item_id, "sku": self.sku, "quantity": self.quantity,
            "warehouse": self.warehouse_id, "name": self.warehouse_name,
            "observed": time_cell(Some(&self.observed_at)),
        }
    }
}

impl ListedRow for ShipmentItemRow {
    fn columns(&self) -> ListColumns {
        columns! {
            "line": self.line_item_id, "shipment": self.shipment_id, "item": self.item_id,
            "quantity": self.quantity, "shipped": self.is_shipped, "confirmed": self.is_confirmed,
            "tracking": self.tracking_number, "observed": time_cell(Some(&self.observed_at)),
        }
    }
}
