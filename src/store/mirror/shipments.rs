//! Shipments and their items: their progress and the choice of those to read next.
//!
//! The platform lists no shipments; the known ones were created by tallyd or adopted by a person. A
//! cancelled shipment, or one that is shipped and confirmed in full, is not read again. A shipment without
//! news for [`QUIET_AFTER`] is read daily.

use super::platform_lists::PlatformList;
use super::stock_levels::json_rows;
use super::tracked_orders::QUIET_AFTER;
use crate::client::wire::Shipment;
use crate::model::{ExchangeId, OrderId, ShipmentId, ShipmentItemId, Timestamp, time};
use crate::reconcile::tracking::ItemFact;
use crate::store::{Result, Store, WriteTransaction};
use serde_json::Value;

impl Store {
    /// Returns an item of the shipment that is not among `shown`; a single list does not prove it absent.
    pub(crate) async fn shipment_item_unshown(
        &self,
        shipment: ShipmentId,
        shown: &[ShipmentItemId],
    ) -> Result<Option<i64>> {
        let sql = "SELECT min(item_id) FROM shipment_line WHERE shipment_id = $1 \
                   AND item_id NOT IN (SELECT CAST(atom AS BIGINT) FROM json_each($2))";
        self.fetch_value(sql, (shipment, json_rows(shown)), "find an item that an answer lacks").await
    }

    /// Returns the shipments to be read at `now`, least recently read first.
    pub(crate) async fn shipment_due(&self, now: Timestamp) -> Result<Vec<ShipmentId>> {
        let sql = "SELECT s.id FROM shipment s JOIN shipment_progress p ON p.shipment_id = s.id \
                   WHERE NOT (p.is_cancelled OR (p.is_shipped AND p.is_confirmed)) \
                     AND ($1 - coalesce(s.changed_ms, s.observed_ms) < $2 OR $1 - s.observed_ms >= $3) \
                   ORDER BY s.exchange_id, s.id";
        let values = (now.0, time::whole_millis(QUIET_AFTER), time::whole_millis(time::DAY));
        self.fetch_column(sql, values, "find the open shipments").await
    }

    /// Returns a shipment's stored items for a preview; `None`: they were never read. A push reads the
    /// shipment again just before it sends.
    pub(crate) async fn shipment_cached_items(&self, shipment: ShipmentId) -> Result<Option<Vec<ItemFact>>> {
        let sql = "SELECT i.item_id, i.line_item_id, coalesce(i.is_shipped, FALSE), i.tracking_number \
                   FROM shipment_line i \
                   WHERE i.shipment_id = $1 AND i.missing_since_ms IS NULL ORDER BY i.item_id";
        let rows = self.fetch_all(sql, (shipment,), "read the items of a shipment").await?;
        let item = |(item_id, line_item_id, is_shipped, tracking_number)| ItemFact {
            item_id,
            line_item_id,
            is_shipped,
            tracking_number,
        };
        let items: Vec<ItemFact> = rows.into_iter().map(item).collect();
        Ok((!items.is_empty()).then_some(items))
    }

    /// Returns the shipment items of an order, as `order show` prints them.
    pub(crate) async fn shipment_items(&self, order: OrderId) -> Result<Vec<Value>> {
        let sql = "SELECT line_item_id, shipment_id, item_id, quantity, is_shipped, is_confirmed, carrier_id, \
                          tracking_number, tracking_url, observed_at \
                   FROM shipment_item WHERE order_id = $1 ORDER BY shipment_id, item_id";
        self.fetch_objects(sql, (order.0,), "read the shipments of an order").await
    }
}

impl WriteTransaction {
    /// Records a page of a shipment's items and returns the number of new or changed ones.
    ///
    /// A page without items creates no shipment, because the platform may answer so for an unknown id. The
    /// shipment's order is taken from its lines where no other answer named it.
    pub(crate) async fn mirror_shipment_items(
        &mut self,
        (exchange, observed_at): (ExchangeId, Timestamp),
        shipment: ShipmentId,
        items: &[Value],
    ) -> Result<u64> {
        let rows = json_rows(items);
        self.shipment_items_age(shipment, &rows).await?;
        let changed = self.mirror_list(PlatformList::ShipmentItems(shipment), exchange, items).await?;
        let sql = "INSERT INTO shipment (id, order_id, exchange_id, observed_ms, changed_ms) \
                   SELECT $2, (SELECT order_id FROM order_line_item \
                               WHERE line_item_id IN ( \
                                   SELECT CAST(value->>'line_item_id' AS BIGINT) FROM json_each($1)) LIMIT 1), \
                          $3, $4, $4 \
                   WHERE json_array_length($1) > 0 OR EXISTS (SELECT 1 FROM shipment WHERE id = $2) \
                   ON CONFLICT (id) DO UPDATE SET order_id = coalesce(shipment.order_id, excluded.order_id), \
                       exchange_id = excluded.exchange_id, observed_ms = excluded.observed_ms, \
                       changed_ms = CASE WHEN $5 THEN excluded.changed_ms \
                                         ELSE coalesce(shipment.changed_ms, shipment.observed_ms) END";
        let values = (&rows, shipment, exchange, observed_at, changed > 0);
        self.execute(sql, values, "record a shipment").await?;
        Ok(changed)
    }

    /// Records a shipment of an order with its items, JSON objects with the columns of their table as keys. Absent fields
    /// leave the stored values unchanged.
    pub(crate) async fn mirror_shipment(
        &mut self,
        (exchange, observed_at): (ExchangeId, Timestamp),
        order: OrderId,
        made: &Shipment,
        items: &[Value],
    ) -> Result<()> {
        self.shipment_items_age(made.id, &json_rows(items)).await?;
        let sql = "INSERT INTO shipment (id, order_id, number, status, warehouse_id, exchange_id, observed_ms) \
                   VALUES ($1, $2, $3, $4, $5, $6, $7) \
                   ON CONFLICT (id) DO UPDATE SET order_id = excluded.order_id, \
                       number = coalesce(excluded.number, shipment.number), \
                       status = coalesce(excluded.status, shipment.status), \
                       warehouse_id = coalesce(excluded.warehouse_id, shipment.warehouse_id), \
                       exchange_id = excluded.exchange_id, observed_ms = excluded.observed_ms";
        let (number, warehouse) = (made.number.as_deref(), made.fulfillment_warehouse_id);
        let values = (made.id, order, number, made.status(), warehouse, exchange, observed_at);
        self.execute(sql, values, "record a shipment").await?;
        self.mirror_list(PlatformList::ShipmentItems(made.id), exchange, items).await.map(drop)
    }

    /// Fixes the age of a shipment's items, before the shipment's row is updated. Items of this answer take
    /// the age of the shipment's answer; the others keep their age.
    async fn shipment_items_age(&mut self, shipment: ShipmentId, rows: &str) -> Result<()> {
        let sql = "UPDATE shipment_line SET observed_ms = CASE WHEN item_id NOT IN ( \
                           SELECT CAST(value->>'item_id' AS BIGINT) FROM json_each($1)) \
                       THEN coalesce(observed_ms, (SELECT s.observed_ms FROM shipment s WHERE s.id = $2)) END \
                   WHERE shipment_id = $2 AND (observed_ms IS NOT NULL \
                       OR item_id NOT IN (SELECT CAST(value->>'item_id' AS BIGINT) FROM json_each($1)))";
        self.execute(sql, (rows, shipment.0), "keep the age of shipment items").await
    }
}
