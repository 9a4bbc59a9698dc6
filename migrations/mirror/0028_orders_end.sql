-- Orders are followed to their end: a line is as old as the last answer that held it, a closed order is looked at again,
-- and a newly tracked order is read at the next free call.

-- A line that the order's last answer held has none of these: its age is the order's.
ALTER TABLE order_line_item ADD COLUMN observed_ms INTEGER; -- when the last answer that held it was asked for
ALTER TABLE order_line_item ADD COLUMN absent_ms INTEGER;   -- and the first whole answer since, which lacked it
ALTER TABLE order_line_item ADD COLUMN absent_exchange_id INTEGER
    CONSTRAINT order_line_item_absent CHECK ((absent_exchange_id IS NULL) = (absent_ms IS NULL));

DROP VIEW order_line;
CREATE VIEW order_line (
    order_id, line_item_id, sku, product_id, quantity_sold, quantity_left, unit_price, warehouse_id, observed_at
) AS
SELECT l.order_id, l.line_item_id, l.sku, l.product_id, l.quantity_sold, l.quantity_left, l.unit_price,
       l.warehouse_id,
       strftime('%Y-%m-%dT%H:%M:%fZ', coalesce(l.observed_ms, o.observed_ms) / 1000.0, 'unixepoch')
FROM order_line_item l JOIN sales_order o ON o.id = l.order_id
WHERE l.missing_since_ms IS NULL;

-- An item of a shipment likewise.
ALTER TABLE shipment_line ADD COLUMN observed_ms INTEGER;

DROP VIEW shipment_item;
CREATE VIEW shipment_item (
    shipment_id, item_id, order_id, line_item_id, sku, quantity, is_shipped, is_confirmed, carrier_id,
    tracking_number, tracking_url, observed_at
) AS
SELECT i.shipment_id, i.item_id, s.order_id, i.line_item_id, i.sku, i.quantity, i.is_shipped, i.is_confirmed,
       i.carrier_id, i.tracking_number, i.tracking_url,
       strftime('%Y-%m-%dT%H:%M:%fZ', coalesce(i.observed_ms, s.observed_ms) / 1000.0, 'unixepoch')
FROM shipment_line i JOIN shipment s ON s.id = i.shipment_id
WHERE i.missing_since_ms IS NULL;

-- Orders that are to be read at the next free call: those tracked a moment ago, and those a person named again. The id
-- only grows, so that the daemon sees by it alone that one came.
CREATE TABLE order_ask (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    order_id INTEGER NOT NULL CONSTRAINT order_ask_order UNIQUE
) STRICT;

CREATE TRIGGER tracked_order_added AFTER INSERT ON tracked_order
BEGIN
    INSERT OR REPLACE INTO order_ask (order_id) VALUES (NEW.order_id);
END;
CREATE TRIGGER tracked_order_removed AFTER DELETE ON tracked_order
BEGIN
    DELETE FROM order_ask WHERE order_id = OLD.order_id;
END;
