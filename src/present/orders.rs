//! Tracked orders, and an order with its lines, allocations and shipments.

use super::listing::{ListColumns, ListedSubject, columns, time_cell};
use super::time_text;
use crate::model::{OrderId, Timestamp};
use crate::store::{OrderRow, OrderState, Store, StoreError};
use serde_json::{Value, json};

pub(crate) struct OrderDetail {
    pub(crate) row: Option<OrderRow>,
    pub(crate) lines: Vec<Value>,
    pub(crate) allocations: Vec<Value>,
    pub(crate) items: Vec<Value>,
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
            let is_of_line = |row: &&Value| row["line_item_id"] == line["line_item_id"];
            let mut of_line = line.clone();
            of_line["allocations"] = self.allocations.iter().filter(is_of_line).cloned().collect();
            of_line["shipments"] = self.items.iter().filter(is_of_line).cloned().collect();
            of_line
        };
        self.lines.iter().map(line).collect()
    }
}

pub(crate) fn order_columns(row: &OrderRow, now: Timestamp) -> ListColumns {
    columns! {
        "order": ListedSubject::Order.cell(row.order_id), "state": row.state(now).as_str(),
        "lines": row.lines, "sold": row.sold, "left": row.left, "closed": row.closed_ms.map(Timestamp),
        "observed": row.observed_ms.map(Timestamp),
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

pub(crate) fn order_line_columns(line: &Value) -> ListColumns {
    columns! {
        "line": line["line_item_id"],
        "sku": line["sku"].as_str().map(|sku| ListedSubject::Sku.cell(sku)),
        "sold": line["quantity_sold"], "left": line["quantity_left"], "price": line["unit_price"],
        "supplier": line["supplier_id"], "warehouse": line["warehouse_id"],
        "observed": time_cell(line["observed_at"].as_str()),
    }
}

pub(crate) fn allocation_columns(row: &Value) -> ListColumns {
    columns! {
        "line": row["line_item_id"], "sku": row["sku"], "quantity": row["quantity"],
        "warehouse": row["warehouse_id"], "name": row["warehouse_name"],
        "observed": time_cell(row["observed_at"].as_str()),
    }
}

pub(crate) fn shipment_item_columns(row: &Value) -> ListColumns {
    columns! {
        "line": row["line_item_id"], "shipment": row["shipment_id"], "item": row["item_id"],
        "quantity": row["quantity"], "shipped": row["is_shipped"], "confirmed": row["is_confirmed"],
        "tracking": row["tracking_number"], "observed": time_cell(row["observed_at"].as_str()),
    }
}
