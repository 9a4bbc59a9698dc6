-- The same key again with the same wish is no other wish, however its JSON is written: 5, 5.0 and 5e0 are one number, and
-- neither the order of an object's fields nor blanks matter.

-- What each body says, piece by piece. A list's places and an object's fields are in the path of each piece.
CREATE VIEW wish_piece (key, path, type, atom) AS
SELECT o.key, t.fullkey, CASE WHEN t.type IN ('integer', 'real') THEN 'number' ELSE t.type END, t.atom
FROM outbox o, json_tree(o.body) t;

DROP TRIGGER outbox_door;
CREATE TRIGGER outbox_door BEFORE INSERT ON outbox
BEGIN
    SELECT CASE
        WHEN EXISTS (SELECT 1 FROM outbox WHERE key = NEW.key AND (kind IS NOT NEW.kind OR NOT json_valid(NEW.body)))
            THEN RAISE(ABORT, 'this key already names another wish: choose a new key')
        WHEN EXISTS (SELECT 1 FROM wish_key WHERE key = NEW.key) AND EXISTS (
                SELECT fullkey, CASE WHEN type IN ('integer', 'real') THEN 'number' ELSE type END, atom
                FROM json_tree(iif(json_valid(NEW.body), NEW.body, 'null'))
                WHERE EXISTS (SELECT 1 FROM outbox WHERE key = NEW.key)
                EXCEPT SELECT path, type, atom FROM wish_piece WHERE key = NEW.key)
            THEN RAISE(ABORT, 'this key already names another wish: choose a new key')
        WHEN EXISTS (SELECT 1 FROM wish_key WHERE key = NEW.key) AND EXISTS (
                SELECT path, type, atom FROM wish_piece WHERE key = NEW.key
                EXCEPT SELECT fullkey, CASE WHEN type IN ('integer', 'real') THEN 'number' ELSE type END, atom
                FROM json_tree(iif(json_valid(NEW.body), NEW.body, 'null')))
            THEN RAISE(ABORT, 'this key already names another wish: choose a new key')
        WHEN EXISTS (SELECT 1 FROM wish_key WHERE key = NEW.key)
            THEN RAISE(IGNORE)
        WHEN NEW.id <> -1
            THEN RAISE(ABORT, 'the id of a wish is ours to give: insert key, kind, body and priority only')
        WHEN NEW.state <> 'pending' OR NEW.reason IS NOT NULL OR NEW.detail IS NOT NULL
             OR NEW.settled_at IS NOT NULL OR NEW.sku IS NOT NULL OR NEW.warehouse_id IS NOT NULL
             OR NEW.base_quantity IS NOT NULL OR NEW.base_ms IS NOT NULL OR NEW.exchange_id IS NOT NULL
             OR NEW.created_at IS NOT strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
             OR NEW.written IS NOT NULL OR NEW.position IS NOT NULL OR NEW.mine IS NOT NULL OR NEW.theirs IS NOT NULL OR NEW.moved_ms IS NOT NULL
            THEN RAISE(ABORT, 'a wish begins pending: insert key, kind, body and priority only')
    END;
END;

-- When the daemon first saw a wish whose `created_at` lay in the future: the clock of the program that inserted it was
-- ahead. That moment then stands for its insertion.
ALTER TABLE outbox ADD COLUMN dated_at TEXT
    CONSTRAINT outbox_dated_at CHECK (dated_at GLOB '????-??-??T??:??:??.???Z');
CREATE TRIGGER outbox_door_dated BEFORE INSERT ON outbox WHEN NEW.dated_at IS NOT NULL
BEGIN
    SELECT RAISE(ABORT, 'a wish begins pending: insert key, kind, body and priority only');
END;

-- The same as it was when the count was inserted, for one whose spelling was understood only later. `known_ms` is when
-- that fact was last seen before the insertion, or first seen after it.
CREATE VIEW count_base_then (id, quantity, ours, known_ms) AS
SELECT wish.id, coalesce(wish.seen, wish.quantity),
       iif(wish.seen IS NULL OR wish.seen = wish.quantity, wish.ours,
           coalesce((SELECT past.ours FROM balance_past past
                     WHERE past.product = wish.product AND past.warehouse_id = wish.warehouse_id
                       AND past.position <= wish.position AND past.quantity = wish.seen
                     ORDER BY past.position DESC LIMIT 1), wish.ours)),
       max(min(wish.observed_ms, wish.inserted_ms), coalesce(wish.since_ms, 0))
FROM (SELECT o.id, o.position, b.product, b.warehouse_id,
             CAST((julianday(coalesce(o.dated_at, o.created_at)) - 2440587.5) * 86400000 AS INTEGER) AS inserted_ms,
             CASE WHEN json_type(o.body, '$.seen') IN ('integer', 'real')
                       AND json_extract(o.body, '$.seen') BETWEEN -9e15 AND 9e15
                  THEN CAST(json_extract(o.body, '$.seen') AS INTEGER) END AS seen,
             iif(h.position IS NULL, b.quantity, h.quantity) AS quantity,
             iif(h.position IS NULL, b.ours, h.ours) AS ours,
             iif(h.position IS NULL, b.since_ms, h.since_ms) AS since_ms,
             iif(h.position IS NULL, coalesce(b.fact_ms, r.observed_ms), h.observed_ms) AS observed_ms
      FROM outbox o
      JOIN balance b ON b.product = (SELECT m.product FROM sku_meant m WHERE m.asked = o.sku)
                    AND b.warehouse_id = o.warehouse_id
      JOIN product p ON p.id = b.product
      LEFT JOIN reading r ON r.id = p.reading_id
      LEFT JOIN balance_past h ON h.product = b.product AND h.warehouse_id = b.warehouse_id
           AND h.position = (SELECT min(n.position) FROM balance_past n
                             WHERE n.product = b.product AND n.warehouse_id = b.warehouse_id
                               AND n.position > o.position)) wish
WHERE wish.observed_ms IS NOT NULL;
