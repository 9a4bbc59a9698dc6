-- What was seen before a restore is neither fresh nor a base, and what programs insert after it waits for a person;
-- migrations/mirror/0013_restores.sql describes the column, the views and the trigger.

-- The search_path of the function below, as in 0002_journal.sql.
SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', FALSE);

ALTER TABLE brake_trip ADD COLUMN restored_position BIGINT;

CREATE INDEX brake_trip_restored ON brake_trip (id, restored_position, at_ms, released_ms)
    WHERE restored_position IS NOT NULL;

CREATE VIEW last_restore (position, at_ms) AS
SELECT coalesce(max(restored_position), 0), coalesce(max(at_ms), 0)
FROM brake_trip WHERE restored_position IS NOT NULL;

-- By its name it fires after `outbox_insert_guard`, which sets id, position and base and refuses what is no change.
-- That trigger also locks `change_sequence`, as `rollback_hold` does: no insertion misses a hold.
CREATE FUNCTION outbox_restored_hold() RETURNS TRIGGER
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    trip BIGINT;
BEGIN
    IF NEW.state <> 'pending' OR NEW.kind = 'product.update'
       OR (NEW.kind = 'quantity.set' AND NOT coalesce(
               jsonb_typeof(NEW.body::JSONB) = 'object' AND NEW.body::JSONB ?| ARRAY['seen', 'counted_at'], FALSE)) THEN
        RETURN NEW;
    END IF;
    SELECT max(t.id) INTO trip FROM brake_trip t
    WHERE t.restored_position IS NOT NULL AND t.released_ms IS NULL;
    IF trip IS NOT NULL THEN
        INSERT INTO brake_trip_change (trip_id, change_id) VALUES (trip, NEW.id);
        NEW.revision := NEW.revision + 1;
        NEW.state := 'held';
        NEW.reason := 'restored';
        NEW.detail := 'inserted after the database was restored, so it may have been sent before and be lost from the '
            || 'database: look at the platform, then `tallyd outbox release` or `tallyd outbox cancel` it';
        NEW.state_changed_ms := now_ms();
    END IF;
    RETURN NEW;
END
$$;

CREATE TRIGGER outbox_restored_hold BEFORE INSERT ON outbox FOR EACH ROW
EXECUTE FUNCTION outbox_restored_hold();

REVOKE ALL ON FUNCTION outbox_restored_hold() FROM PUBLIC;

CREATE OR REPLACE FUNCTION count_base_now(sku TEXT, warehouse_id BIGINT, seen BIGINT)
RETURNS TABLE (quantity BIGINT, own_delta BIGINT, observed_ms BIGINT) LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT coalesce(count_base_now.seen, b.quantity),
           CASE WHEN count_base_now.seen IS NULL OR count_base_now.seen = b.quantity THEN b.own_delta
                ELSE coalesce((SELECT past.own_delta FROM balance_history past
                               WHERE past.product = b.product AND past.warehouse_id = b.warehouse_id
                                 AND past.quantity = count_base_now.seen
                                 AND past.observed_ms >= (SELECT l.at_ms FROM last_restore l)
                               ORDER BY past.position DESC LIMIT 1), b.own_delta) END,
           coalesce(b.fact_ms, r.observed_ms)
    FROM sku_spelling m
    JOIN balance b ON b.product = m.product AND b.warehouse_id = count_base_now.warehouse_id
    JOIN product p ON p.id = b.product
    LEFT JOIN read_batch r ON r.id = p.read_batch_id
    WHERE m.spelling = count_base_now.sku
      AND coalesce(b.fact_exchange_id, r.exchange_id, 1) > (SELECT l.position FROM last_restore l);
END;

CREATE OR REPLACE VIEW count_base_at_insert (id, quantity, own_delta, known_ms) AS
SELECT change.id, coalesce(change.seen, change.quantity),
       CASE WHEN change.seen IS NULL OR change.seen = change.quantity THEN change.own_delta
            ELSE coalesce((SELECT past.own_delta FROM balance_history past
                           WHERE past.product = change.product AND past.warehouse_id = change.warehouse_id
                             AND past.position <= change.position AND past.quantity = change.seen
                             AND past.observed_ms >= (SELECT l.at_ms FROM last_restore l)
                           ORDER BY past.position DESC LIMIT 1), change.own_delta) END,
       greatest(least(change.observed_ms, change.inserted_ms),
                CASE WHEN change.since_ms < (SELECT l.at_ms FROM last_restore l) THEN change.observed_ms
                     ELSE coalesce(change.since_ms, 0) END)
FROM (SELECT o.id, o.position, b.product, b.warehouse_id,
             CAST(trunc((julianday(coalesce(o.dated_at, o.created_at)) - 2440587.5) * 86400000) AS BIGINT)
                 AS inserted_ms,
             json_integer(o.body::JSONB -> 'seen') AS seen,
             CASE WHEN h.position IS NULL THEN b.quantity ELSE h.quantity END AS quantity,
             CASE WHEN h.position IS NULL THEN b.own_delta ELSE h.own_delta END AS own_delta,
             CASE WHEN h.position IS NULL THEN b.since_ms ELSE h.since_ms END AS since_ms,
             CASE WHEN h.position IS NULL THEN coalesce(b.fact_ms, r.observed_ms) ELSE h.observed_ms END
                 AS observed_ms
      FROM outbox o
      JOIN balance b ON b.product = (SELECT m.product FROM sku_spelling m WHERE m.spelling = o.sku)
                    AND b.warehouse_id = o.warehouse_id
      JOIN product p ON p.id = b.product
      LEFT JOIN read_batch r ON r.id = p.read_batch_id
      LEFT JOIN balance_history h ON h.product = b.product AND h.warehouse_id = b.warehouse_id
           AND h.position = (SELECT min(n.position) FROM balance_history n
                             WHERE n.product = b.product AND n.warehouse_id = b.warehouse_id
                               AND n.position > o.position)) change
WHERE change.observed_ms >= (SELECT l.at_ms FROM last_restore l);
