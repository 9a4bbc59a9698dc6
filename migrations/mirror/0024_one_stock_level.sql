-- Two spellings of one SKU are one stock level. Each SKU that the service was asked for, or that it named, has a row in
-- `product` with the fold of its spelling, which the daemon computes. Whatever compares spellings goes by that row: SQLite's
-- own lower() folds ASCII alone.

-- What each known spelling means. Where the service has exactly one product of a fold, every spelling of that fold means
-- it, as soon as the service was asked for the spelling: it may have a product of that very spelling. Two answers must have
-- lacked it, or one must have brought it under another spelling. Where the service has several products of a fold, each
-- spelling means itself. A product that was renamed has two rows and one id: the row that was read last is meant.
CREATE VIEW sku_meant (asked, fold, product, sku) AS
SELECT q.sku, q.sku_fold, p.id, p.sku
FROM product q JOIN product p ON p.id = CASE
    WHEN (q.product_id IS NOT NULL OR q.alias_of IS NOT NULL OR q.missing_since_ms IS NOT NULL OR q.absent > 1)
         AND (SELECT count(DISTINCT t.product_id) FROM product t
              WHERE t.sku_fold = q.sku_fold AND t.product_id IS NOT NULL AND t.alias_of IS NULL) = 1
    THEN (SELECT t.id FROM product t LEFT JOIN reading r ON r.id = t.reading_id
          WHERE t.sku_fold = q.sku_fold AND t.product_id IS NOT NULL AND t.alias_of IS NULL
          ORDER BY t.missing_since_ms IS NOT NULL, r.exchange_id DESC, t.id DESC LIMIT 1)
    ELSE q.id END;

-- The stock level of each wish for one. A spelling the service was never asked for means itself, and no product yet.
CREATE VIEW wish_cell (wish_id, product, sku, warehouse_id) AS
SELECT o.id, (SELECT m.product FROM sku_meant m WHERE m.asked = o.sku),
       coalesce((SELECT m.sku FROM sku_meant m WHERE m.asked = o.sku), o.sku), o.warehouse_id
FROM outbox o WHERE o.sku IS NOT NULL AND o.warehouse_id IS NOT NULL;

-- The fact a count stands on, as it is now: the fact alone, never with pending wishes in it. An explicit `seen` is matched,
-- newest first, against the facts the cell had, for the sum of ours at that time; no match means the sum now.
DROP VIEW count_base;
CREATE VIEW count_base (id, quantity, ours, observed_ms) AS
SELECT wish.id, coalesce(wish.seen, b.quantity),
       iif(wish.seen IS NULL OR wish.seen = b.quantity, b.ours,
           coalesce((SELECT past.ours FROM balance_past past
                     WHERE past.product = b.product AND past.warehouse_id = b.warehouse_id
                       AND past.quantity = wish.seen ORDER BY past.position DESC LIMIT 1), b.ours)),
       coalesce(b.fact_ms, r.observed_ms)
FROM (SELECT o.id, o.warehouse_id,
             CASE WHEN json_type(o.body, '$.seen') IN ('integer', 'real')
                       AND json_extract(o.body, '$.seen') BETWEEN -9e15 AND 9e15
                  THEN CAST(json_extract(o.body, '$.seen') AS INTEGER) END AS seen,
             (SELECT m.product FROM sku_meant m WHERE m.asked = o.sku) AS product
      FROM outbox o) wish
JOIN balance b ON b.product = wish.product AND b.warehouse_id = wish.warehouse_id
JOIN product p ON p.id = b.product
LEFT JOIN reading r ON r.id = p.reading_id;

-- Stock levels with wishes on their way, and the newest count among them.
DROP VIEW stock;
DROP VIEW pending_cell;
CREATE VIEW pending_cell (sku, warehouse_id, set_id) AS
SELECT sku, warehouse_id, max(set_id)
FROM (SELECT coalesce((SELECT m.sku FROM sku_meant m WHERE m.asked = o.sku), o.sku) AS sku, o.warehouse_id,
             CASE o.kind WHEN 'quantity.set' THEN o.id END AS set_id
      FROM outbox o
      WHERE o.state IN ('pending', 'sending', 'held', 'in_doubt') AND o.sku IS NOT NULL
        AND o.state IN ('pending', 'sending') AND o.warehouse_id IS NOT NULL)
GROUP BY sku, warehouse_id;

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
                       WHERE a.sku IN (SELECT m.asked FROM sku_meant m WHERE m.fold = p.sku_fold AND m.product = p.id)
                         AND a.warehouse_id = b.warehouse_id
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

-- The wish that speaks for a conflict may spell the SKU otherwise.
DROP VIEW open_conflict;
CREATE VIEW open_conflict (key, kind, sku, warehouse_id, mine, theirs, since, what_to_do) AS
SELECT key, kind, sku, warehouse_id, mine, theirs,
       strftime('%Y-%m-%dT%H:%M:%fZ', moved_ms / 1000.0, 'unixepoch'),
       'tallyd outbox resolve '
       || iif(key GLOB '*[^-A-Za-z0-9._:/@+]*', '''' || replace(key, '''', '''\''''') || '''', key)
       || ' --use mine|theirs|N' || coalesce(' (mine is ' || mine || ', theirs ' || theirs || ')', '')
FROM outbox
WHERE state IN ('sending', 'held', 'in_doubt') AND state = 'held' AND reason = 'conflict'
UNION ALL
-- The last wish of the entry speaks for it; a pruned one leaves the exchange.
SELECT coalesce(o.key, 'exchange ' || m.exchange_id), coalesce(o.kind, 'quantity.set'), p.sku, m.warehouse_id,
       CAST(m.written AS TEXT), CAST(m.shown AS TEXT),
       strftime('%Y-%m-%dT%H:%M:%fZ', m.since_ms / 1000.0, 'unixepoch'),
       'look at the product at the service (is it a kit?), then count it: tallyd quantity set '
       || iif(p.sku GLOB '*[^-A-Za-z0-9._:/@+]*', '''' || replace(p.sku, '''', '''\''''') || '''', p.sku)
       || ' ' || m.warehouse_id || ' N; it closes by itself once the service shows ' || m.written
FROM mismatch m
JOIN product p ON p.id = m.product
LEFT JOIN outbox o ON o.id = (
    SELECT max(w.id) FROM outbox w JOIN product q ON q.sku = w.sku
    WHERE w.exchange_id = m.exchange_id AND w.warehouse_id = m.warehouse_id AND q.sku_fold = p.sku_fold);

-- While a call writes a stock level, no other call takes it over: both would have decided on the same fact, and the write
-- that arrives last would undo the other.
CREATE TRIGGER cell_write_claimed BEFORE UPDATE ON cell_write
WHEN OLD.ended IS NULL
     AND (NEW.exchange_id IS NOT OLD.exchange_id OR NEW.before IS NOT OLD.before OR NEW.written IS NOT OLD.written)
BEGIN
    SELECT RAISE(ABORT, 'this stock level is being written by another call');
END;
