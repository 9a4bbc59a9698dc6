-- What an answer lacks stays until it is proved gone, and a base is of one product.

-- The stock levels whose link to the warehouse is not proved gone. A link is gone by two answers without it that were
-- sent at least 2 minutes apart (`ABSENCE_CHECKS_APART`). The calendar measures only answers of two boots.
CREATE VIEW linked_balance AS
SELECT b.* FROM balance b
WHERE b.unlinked_ms IS NULL OR EXISTS (
    SELECT 1 FROM product p JOIN read_batch r ON r.id = p.read_batch_id
    JOIN exchange l ON l.id = r.exchange_id JOIN session ls ON ls.id = l.session_id
    JOIN exchange f ON f.id = b.unlinked_exchange_id JOIN session fs ON fs.id = f.session_id
    WHERE p.id = b.product
      AND CASE WHEN fs.boot_id = ls.boot_id THEN l.sent_moment - f.sent_moment
               ELSE l.sent_ms - f.sent_ms END < 120000);

DROP VIEW stock;
CREATE VIEW stock (
    sku, warehouse_id, warehouse_name, product_id, quantity, pending_quantity, is_active, include_in_sync,
    observed_at
) AS
SELECT p.sku, b.warehouse_id, w.name, p.product_id, b.quantity,
       CASE WHEN pc.sku IS NOT NULL THEN
           coalesce((SELECT CASE coalesce(resolution, own.policy, every.policy)
                            WHEN 'local' THEN counted
                            WHEN 'merge' THEN counted + drift
                            ELSE iif(drift = 0, counted, b.quantity) END
                     FROM (SELECT coalesce(c.quantity,
                                           CAST(json_extract(s.body, '$.quantity') AS INTEGER)) AS counted,
                                  (b.quantity - b.own_delta)
                                      - coalesce(c.base_quantity - c.base_own_delta,
                                                 s.base_quantity - s.base_own_delta,
                                                 b.quantity - b.own_delta) AS drift,
                                  CASE WHEN c.change_id IS NOT NULL
                                       THEN iif(c.quantity IS NULL, 'local', 'merge') END AS resolution
                           FROM outbox s LEFT JOIN count_resolution c ON c.change_id = s.id
                           WHERE s.id = pc.set_id)
                     JOIN quantity_policy every ON every.warehouse_id = 0
                     LEFT JOIN quantity_policy own ON own.warehouse_id = b.warehouse_id),
                    b.quantity)
           + coalesce((SELECT sum(CAST(json_extract(a.body, '$.delta') AS INTEGER)) FROM outbox a
                       WHERE a.sku IN (SELECT m.spelling FROM sku_spelling m
                                       WHERE m.case_key = p.case_key AND m.product = p.id)
                         AND a.warehouse_id = b.warehouse_id
                         AND a.state IN ('pending', 'sending', 'held', 'in_doubt') AND a.sku IS NOT NULL
                         AND a.state IN ('pending', 'sending')
                         AND a.kind = 'quantity.adjust' AND a.id > coalesce(pc.set_id, 0)), 0)
       END,
       b.is_active, b.include_in_sync,
       strftime('%Y-%m-%dT%H:%M:%fZ', coalesce(b.fact_ms, r.observed_ms) / 1000.0, 'unixepoch')
FROM linked_balance b
JOIN product p ON p.id = b.product
LEFT JOIN read_batch r ON r.id = p.read_batch_id
LEFT JOIN warehouse w ON w.id = b.warehouse_id
LEFT JOIN pending_stock_level pc ON pc.sku = p.sku AND pc.warehouse_id = b.warehouse_id
WHERE p.missing_since_ms IS NULL AND p.alias_of IS NULL;

-- `supplier_id`: the supplier ships the line, so it is not to be picked.
DROP VIEW order_line;
CREATE VIEW order_line (
    order_id, line_item_id, sku, product_id, quantity_sold, quantity_left, unit_price, warehouse_id,
    observed_at, supplier_id
) AS
SELECT l.order_id, l.line_item_id, l.sku, l.product_id, l.quantity_sold, l.quantity_left, l.unit_price,
       l.warehouse_id,
       strftime('%Y-%m-%dT%H:%M:%fZ', coalesce(l.observed_ms, o.observed_ms) / 1000.0, 'unixepoch'),
       l.supplier_id
FROM order_line_item l JOIN sales_order o ON o.id = l.order_id
WHERE l.missing_since_ms IS NULL;

-- The position at which another product took the SKU over. Earlier facts are those of the product before.
ALTER TABLE product ADD COLUMN product_id_position INTEGER;

CREATE TRIGGER product_id_replaced AFTER UPDATE OF product_id, alias_of ON product
WHEN OLD.product_id <> NEW.product_id OR (OLD.alias_of IS NOT NULL AND NEW.alias_of IS NULL)
BEGIN
    UPDATE product SET product_id_position = (SELECT position FROM journal_sequence) WHERE id = NEW.id;
END;
