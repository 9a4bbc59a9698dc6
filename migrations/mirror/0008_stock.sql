-- The stock, with the quantity of each stock level after its pending changes. `pending_quantity` of the engine's
-- own file has the changes with the numbers of their bodies.
--
-- Missing products, stock levels without a link to their warehouse, and other spellings of a product are no
-- stock. The decision of an operator on a count overrides the policy.
--
-- `set_id` is the newest pending or sent count of the stock level, 0 if it has only adjusts, and NULL if it has no such
-- change. The changes are looked up by stock level: grouped first, they would be grouped for each part that is read.
-- The sum of adjusts finds the count once for itself, because `set_id` would be looked up again for each adjust.
CREATE VIEW stock (
    sku, warehouse_id, warehouse_name, product_id, quantity, pending_quantity, is_active, include_in_sync,
    observed_at
) AS
SELECT b.sku, b.warehouse_id, w.name, b.product_id, b.quantity,
       CASE WHEN b.set_id IS NOT NULL THEN
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
                           WHERE s.id = b.set_id) base
                     JOIN quantity_policy every ON every.warehouse_id = 0
                     LEFT JOIN quantity_policy own ON own.warehouse_id = b.warehouse_id),
                    b.quantity)
           + coalesce((SELECT CAST(sum(delta) AS INTEGER) FROM (
                           SELECT a.id, a.kind, a.delta,
                                  max(CASE a.kind WHEN 'quantity.set' THEN a.id ELSE 0 END) OVER () AS set_id
                           FROM pending_quantity a
                           WHERE a.warehouse_id = b.warehouse_id
                             AND a.sku IN (SELECT m.spelling FROM sku_spelling m
                                           WHERE m.case_key = b.case_key AND m.product = b.product)) change
                       WHERE kind = 'quantity.adjust' AND id > set_id), 0)
       END,
       b.is_active, b.include_in_sync,
       strftime('%Y-%m-%dT%H:%M:%fZ', coalesce(b.fact_ms, r.observed_ms) / 1000.0, 'unixepoch')
FROM (SELECT l.*, p.sku, p.case_key, p.product_id, p.read_batch_id,
             (SELECT max(CASE a.kind WHEN 'quantity.set' THEN a.id ELSE 0 END) FROM pending_quantity a
              WHERE a.warehouse_id = l.warehouse_id
                AND a.sku IN (SELECT m.spelling FROM sku_spelling m
                              WHERE m.case_key = p.case_key AND m.product = p.id)) AS set_id
      FROM linked_balance l JOIN product p ON p.id = l.product
      WHERE p.missing_since_ms IS NULL AND p.alias_of IS NULL) b
LEFT JOIN read_batch r ON r.id = b.read_batch_id
LEFT JOIN warehouse w ON w.id = b.warehouse_id;
