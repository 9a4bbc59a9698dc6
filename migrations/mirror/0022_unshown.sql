-- A number is as old as the last answer that held it. An answer that was asked for a product and does not show it, or
-- not all of it, makes none of its cells younger; this says how the last one lacked it.

-- 'absent': the answer holds others that were asked for. 'silent': it holds nothing that was asked for. 'unreadable': the
-- record is there and makes no sense. 'partial': a part of it makes no sense. NULL: the answer showed all of it.
ALTER TABLE product ADD COLUMN lack TEXT
    CONSTRAINT product_lack CHECK (lack IN ('absent', 'silent', 'unreadable', 'partial'));
-- The first of the answers in a row that prove its absence: when its request was sent, and the same since boot.
ALTER TABLE product ADD COLUMN absent_ms INTEGER;
ALTER TABLE product ADD COLUMN absent_moment INTEGER;
CREATE INDEX product_lacking ON product (id) WHERE lack IS NOT NULL;

-- What is missing, or no longer linked, is no stock; nor is another spelling of a product.
DROP VIEW stock;
CREATE VIEW stock (
    sku, warehouse_id, warehouse_name, product_id, quantity, pending_quantity, is_active, include_in_sync, observed_at
) AS
SELECT p.sku, b.warehouse_id, w.name, p.product_id, b.quantity,
       CASE WHEN pc.sku IS NOT NULL THEN
           coalesce((SELECT CASE coalesce(said, own.policy, every.policy)
                            WHEN 'local' THEN counted
                            WHEN 'merge' THEN counted + drift
                            ELSE iif(drift = 0, counted, b.quantity) END
                     FROM (SELECT coalesce(c.quantity, CAST(json_extract(s.body, '$.quantity') AS INTEGER)) AS counted,
                                  (b.quantity - b.ours) - coalesce(c.base_quantity - c.base_ours,
                                                                   s.base_quantity - s.base_ours,
                                                                   b.quantity - b.ours) AS drift,
                                  CASE WHEN c.wish_id IS NOT NULL THEN iif(c.quantity IS NULL, 'local', 'merge') END
                                      AS said
                           FROM outbox s LEFT JOIN count_word c ON c.wish_id = s.id WHERE s.id = pc.set_id)
                     JOIN quantity_policy every ON every.warehouse_id = 0
                     LEFT JOIN quantity_policy own ON own.warehouse_id = b.warehouse_id),
                    b.quantity)
           + coalesce((SELECT sum(CAST(json_extract(a.body, '$.delta') AS INTEGER)) FROM outbox a
                       WHERE a.sku = p.sku AND a.warehouse_id = b.warehouse_id
                         AND a.state IN ('pending', 'sending', 'held', 'in_doubt') AND a.sku IS NOT NULL
                         AND a.state IN ('pending', 'sending')
                         AND a.kind = 'quantity.adjust' AND a.id > coalesce(pc.set_id, 0)), 0)
       END,
       b.is_active, b.include_in_sync,
       strftime('%Y-%m-%dT%H:%M:%fZ', coalesce(b.fact_ms, r.observed_ms) / 1000.0, 'unixepoch')
FROM balance b
JOIN product p ON p.id = b.product
LEFT JOIN reading r ON r.id = p.reading_id
LEFT JOIN warehouse w ON w.id = b.warehouse_id
LEFT JOIN pending_cell pc ON pc.sku = p.sku AND pc.warehouse_id = b.warehouse_id
WHERE b.vanished_ms IS NULL AND p.missing_since_ms IS NULL AND p.alias_of IS NULL;
