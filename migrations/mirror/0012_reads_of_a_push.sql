-- A SKU that alone has its case key names itself. The products of a case key are counted and sorted only where there
-- are several: a push looks up the spellings of each stock level.
DROP VIEW sku_spelling;
CREATE VIEW sku_spelling (spelling, case_key, product, sku) AS
SELECT q.sku, q.case_key, p.id, p.sku
FROM product q JOIN product p ON p.id = CASE
    WHEN NOT EXISTS (SELECT 1 FROM product t WHERE t.case_key = q.case_key AND t.id <> q.id) THEN q.id
    WHEN (q.product_id IS NOT NULL OR q.alias_of IS NOT NULL OR q.missing_since_ms IS NOT NULL
          OR q.absent > 1)
         AND (SELECT count(DISTINCT t.product_id) FROM product t
              WHERE t.case_key = q.case_key AND t.product_id IS NOT NULL AND t.alias_of IS NULL) = 1
    THEN (SELECT t.id FROM product t LEFT JOIN read_batch r ON r.id = t.read_batch_id
          WHERE t.case_key = q.case_key AND t.product_id IS NOT NULL AND t.alias_of IS NULL
          ORDER BY t.missing_since_ms IS NOT NULL, r.exchange_id DESC, t.id DESC LIMIT 1)
    ELSE q.id END;

-- The newest count of a stock level is found without a walk over its movements, which may be thousands.
DROP INDEX outbox_applied_stock_level;
CREATE INDEX outbox_applied_stock_level ON outbox (sku, warehouse_id, kind, id)
    WHERE (state = 'applied' OR reason = 'landed') AND sku IS NOT NULL;
