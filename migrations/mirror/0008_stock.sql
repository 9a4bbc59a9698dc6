-- The stock, with the quantity of each stock level after its pending changes. `pending_quantity` of the engine's
-- own file has the changes with the numbers of their bodies.

-- Stock levels with pending or sent changes, and the newest count among these.
CREATE VIEW pending_stock_level (sku, warehouse_id, set_id) AS
SELECT sku, warehouse_id, max(set_id)
FROM (SELECT coalesce((SELECT m.sku FROM sku_spelling m WHERE m.spelling = o.sku), o.sku) AS sku,
             o.warehouse_id, CASE o.kind WHEN 'quantity.set' THEN o.id END AS set_id
      FROM pending_quantity o) o
GROUP BY sku, warehouse_id;

-- Missing products, stock levels without a link to their warehouse, and other spellings of a product are no
-- stock. The decision of an operator on a count overrides the policy.
CREATE VIEW stock (
    sku, warehouse_id, warehouse_name, product_id, quantity, pending_quantity, is_active, include_in_sync,
    observed_at
) AS
SELECT p.sku, b.warehouse_id, w.name, p.product_id, b.quantity,
       CASE WHEN pc.sku IS NOT NULL THEN
           coalesce((SELECT CASE coalesce(resolution, own.policy, every.policy)
                            WHEN 'local' THEN counted
                            WHEN 'merge' THEN counted + drift
                            ELSE CASE drift WHEN 0 THEN counted ELSE b.quantity END END
                     FROM (SELECT coalesce(c.quantity, s.counted) AS counted,
                                  (b.quantity - b.own_delta)
                                      - coalesce(c.base_quantity - c.base_own_delta,
                                                 s.base_quantity - s.base_own_delta,
                                                 b.quantity - b.own_delta) AS drift,
                                  CASE WHEN c.quantity IS NOT NULL THEN 'merge'
                                       WHEN c.change_id IS NOT NULL THEN 'local' END AS resolution
                           FROM pending_quantity s LEFT JOIN count_resolution c ON c.change_id = s.id
                           WHERE s.id = pc.set_id) base
                     JOIN quantity_policy every ON every.warehouse_id = 0
                     LEFT JOIN quantity_policy own ON own.warehouse_id = b.warehouse_id),
                    b.quantity)
           + coalesce((SELECT CAST(sum(a.delta) AS INTEGER) FROM pending_quantity a
                       WHERE a.sku IN (SELECT m.spelling FROM sku_spelling m
                                       WHERE m.case_key = p.case_key AND m.product = p.id)
                         AND a.warehouse_id = b.warehouse_id AND a.kind = 'quantity.adjust'
                         AND a.id > coalesce(pc.set_id, 0)), 0)
       END,
       b.is_active, b.include_in_sync,
       strftime('%Y-%m-%dT%H:%M:%fZ', coalesce(b.fact_ms, r.observed_ms) / 1000.0, 'unixepoch')
FROM linked_balance b
JOIN product p ON p.id = b.product
LEFT JOIN read_batch r ON r.id = p.read_batch_id
LEFT JOIN warehouse w ON w.id = b.warehouse_id
LEFT JOIN pending_stock_level pc ON pc.sku = p.sku AND pc.warehouse_id = b.warehouse_id
WHERE p.missing_since_ms IS NULL AND p.alias_of IS NULL;
