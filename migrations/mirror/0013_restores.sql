-- What was seen before a restore is neither fresh nor a base, and what programs insert after it waits for a person
-- (docs/rules.md 20).

-- The position of the journal at which a restore was noticed; NULL: the trip of a brake. Until the trip is released,
-- inserted changes whose second effect would do harm join it.
ALTER TABLE brake_trip ADD COLUMN restored_position INTEGER;

CREATE INDEX brake_trip_restored ON brake_trip (id, restored_position, at_ms, released_ms)
    WHERE restored_position IS NOT NULL;

-- The last restore, or position 0. Later exchanges have a larger id.
CREATE VIEW last_restore (position, at_ms) AS
SELECT coalesce(max(restored_position), 0), coalesce(max(at_ms), 0)
FROM brake_trip WHERE restored_position IS NOT NULL;

-- A program that inserts its keys again does not know that the lost change with this key was sent.
CREATE TRIGGER outbox_restored_hold AFTER INSERT ON outbox
WHEN EXISTS (SELECT 1 FROM brake_trip WHERE restored_position IS NOT NULL AND released_ms IS NULL)
     AND NEW.kind <> 'product.update'
     AND (NEW.kind <> 'quantity.set' OR json_type(NEW.body, '$.seen') IS NOT NULL
          OR json_type(NEW.body, '$.counted_at') IS NOT NULL)
BEGIN
    INSERT INTO brake_trip_change (trip_id, change_id)
    SELECT max(id), NEW.id FROM brake_trip WHERE restored_position IS NOT NULL AND released_ms IS NULL;
    UPDATE outbox
    SET revision = revision + 1, state = 'held', reason = 'restored',
        detail = 'inserted after the database was restored, so it may have been sent before and be lost from the '
                 || 'database: look at the platform, then `tallyd outbox release` or `tallyd outbox cancel` it',
        state_changed_ms = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
    WHERE id = NEW.id AND state = 'pending';
END;

-- As in 0003_outbox.sql, but without the facts from before the restore, whose own deltas lack the lost writes.
DROP VIEW count_base;
CREATE VIEW count_base (id, quantity, own_delta, observed_ms) AS
SELECT change.id, coalesce(change.seen, b.quantity),
       iif(change.seen IS NULL OR change.seen = b.quantity, b.own_delta,
           coalesce((SELECT past.own_delta FROM balance_history past
                     WHERE past.product = b.product AND past.warehouse_id = b.warehouse_id
                       AND past.quantity = change.seen
                       AND past.observed_ms >= (SELECT at_ms FROM last_restore)
                     ORDER BY past.position DESC LIMIT 1), b.own_delta)),
       coalesce(b.fact_ms, r.observed_ms)
FROM (SELECT o.id, o.warehouse_id,
             CASE WHEN json_type(o.body, '$.seen') IN ('integer', 'real')
                       AND json_extract(o.body, '$.seen') BETWEEN -9e15 AND 9e15
                  THEN CAST(json_extract(o.body, '$.seen') AS INTEGER) END AS seen,
             (SELECT m.product FROM sku_spelling m WHERE m.spelling = o.sku) AS product
      FROM outbox o) change
JOIN balance b ON b.product = change.product AND b.warehouse_id = change.warehouse_id
JOIN product p ON p.id = b.product
LEFT JOIN read_batch r ON r.id = p.read_batch_id
WHERE coalesce(b.fact_exchange_id, r.exchange_id, 1) > (SELECT position FROM last_restore);

-- Of a pair that was known before the restore, only the last observation counts.
DROP VIEW count_base_at_insert;
CREATE VIEW count_base_at_insert (id, quantity, own_delta, known_ms) AS
SELECT change.id, coalesce(change.seen, change.quantity),
       iif(change.seen IS NULL OR change.seen = change.quantity, change.own_delta,
           coalesce((SELECT past.own_delta FROM balance_history past
                     WHERE past.product = change.product AND past.warehouse_id = change.warehouse_id
                       AND past.position <= change.position AND past.quantity = change.seen
                       AND past.observed_ms >= (SELECT at_ms FROM last_restore)
                     ORDER BY past.position DESC LIMIT 1), change.own_delta)),
       max(min(change.observed_ms, change.inserted_ms),
           iif(change.since_ms < (SELECT at_ms FROM last_restore), change.observed_ms,
               coalesce(change.since_ms, 0)))
FROM (SELECT o.id, o.position, b.product, b.warehouse_id,
             CAST((julianday(coalesce(o.dated_at, o.created_at)) - 2440587.5) * 86400000 AS INTEGER)
                 AS inserted_ms,
             CASE WHEN json_type(o.body, '$.seen') IN ('integer', 'real')
                       AND json_extract(o.body, '$.seen') BETWEEN -9e15 AND 9e15
                  THEN CAST(json_extract(o.body, '$.seen') AS INTEGER) END AS seen,
             iif(h.position IS NULL, b.quantity, h.quantity) AS quantity,
             iif(h.position IS NULL, b.own_delta, h.own_delta) AS own_delta,
             iif(h.position IS NULL, b.since_ms, h.since_ms) AS since_ms,
             iif(h.position IS NULL, coalesce(b.fact_ms, r.observed_ms), h.observed_ms) AS observed_ms
      FROM outbox o
      JOIN balance b ON b.product = (SELECT m.product FROM sku_spelling m WHERE m.spelling = o.sku)
                    AND b.warehouse_id = o.warehouse_id
      JOIN product p ON p.id = b.product
      LEFT JOIN read_batch r ON r.id = p.read_batch_id
      LEFT JOIN balance_history h ON h.product = b.product AND h.warehouse_id = b.warehouse_id
           AND h.position = (SELECT min(n.position) FROM balance_history n
                             WHERE n.product = b.product AND n.warehouse_id = b.warehouse_id
                               AND n.position > o.position)) change
WHERE change.observed_ms >= (SELECT at_ms FROM last_restore);
