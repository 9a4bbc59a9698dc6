-- The views of the outbox that read bodies, and the triggers, in SQLite's words.

INSERT INTO account_binding (id, salt) VALUES (1, randomblob(16));

-- The pending quantity changes, with the number of each body.
CREATE VIEW pending_quantity (id, kind, sku, warehouse_id, counted, delta, base_quantity, base_own_delta) AS
SELECT id, kind, sku, warehouse_id, CAST(json_extract(body, '$.quantity') AS INTEGER),
       CAST(json_extract(body, '$.delta') AS INTEGER), base_quantity, base_own_delta
FROM outbox
WHERE state IN ('pending', 'sending', 'held', 'in_doubt') AND sku IS NOT NULL
  AND state IN ('pending', 'sending') AND warehouse_id IS NOT NULL;

-- The leaves of each body, for comparison as JSON. The index in a list and the name of a field are part of
-- the path.
CREATE VIEW change_body_leaf (key, path, type, atom) AS
SELECT o.key, t.fullkey, CASE WHEN t.type IN ('integer', 'real') THEN 'number' ELSE t.type END, t.atom
FROM outbox o, json_tree(o.body) t;

-- The base of each count as of now: the fact alone, without pending changes. An explicit `seen` is matched
-- with the facts that the stock level had, newest first, for the sum `own_delta` of that time. Without a
-- match the sum of now is taken. A fact from before a restore is no base: its own delta lacks the lost writes.
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

-- The base of each count as of its insertion, for a count whose spelling got its meaning later. `known_ms` is
-- the time of the last observation of that fact before the insertion, else of the first one after it. Of a pair
-- that was known before a restore, only the last observation counts.
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

-- A change of a product or of its stock levels by any other way clears the digest, and thereby `verified_by`.
CREATE TRIGGER product_after_update AFTER UPDATE OF digest, read_batch_id ON product
WHEN NEW.digest IS NOT OLD.digest OR NEW.read_batch_id IS NOT OLD.read_batch_id
BEGIN
    UPDATE read_batch SET verified_by = NULL
    WHERE id IN (OLD.read_batch_id, NEW.read_batch_id) AND verified_by IS NOT NULL;
END;

CREATE TRIGGER balance_after_update AFTER UPDATE OF quantity, own_delta ON balance
WHEN OLD.quantity IS NOT NEW.quantity OR OLD.own_delta IS NOT NEW.own_delta
BEGIN
    INSERT OR REPLACE INTO balance_history
        (product, warehouse_id, position, quantity, own_delta, observed_ms, since_ms)
    SELECT OLD.product, OLD.warehouse_id, (SELECT position FROM journal_sequence), OLD.quantity,
           OLD.own_delta,
           coalesce(OLD.fact_ms, (SELECT r.observed_ms
                                  FROM product p JOIN read_batch r ON r.id = p.read_batch_id
                                  WHERE p.id = OLD.product)), OLD.since_ms;
END;

-- While a call writes a stock level, no other call claims it. Both would decide on the same fact, and the
-- write that arrives last would undo the other one.
CREATE TRIGGER stock_level_write_update_guard BEFORE UPDATE ON stock_level_write
WHEN OLD.ended IS NULL
     AND (NEW.exchange_id IS NOT OLD.exchange_id OR NEW.before IS NOT OLD.before
          OR NEW.written IS NOT OLD.written)
BEGIN
    SELECT RAISE(ABORT, 'this stock level is being written by another call');
END;

CREATE TRIGGER tracked_sku_after_insert AFTER INSERT ON tracked_sku WHEN NEW.origin = 'added'
BEGIN
    DELETE FROM untracked_sku WHERE sku = NEW.sku;
END;

CREATE TRIGGER tracked_sku_after_delete AFTER DELETE ON tracked_sku
BEGIN
    INSERT OR IGNORE INTO untracked_sku (sku) VALUES (OLD.sku);
END;

CREATE TRIGGER discovered_sku_after_insert AFTER INSERT ON discovered_sku
WHEN NOT EXISTS (SELECT 1 FROM untracked_sku WHERE sku = NEW.sku)
BEGIN
    INSERT INTO tracked_sku (sku, origin) VALUES (NEW.sku, 'learnt');
END;

CREATE TRIGGER tracked_order_after_insert AFTER INSERT ON tracked_order
BEGIN
    INSERT OR REPLACE INTO order_read_request (order_id) VALUES (NEW.order_id);
END;

CREATE TRIGGER tracked_order_after_delete AFTER DELETE ON tracked_order
BEGIN
    DELETE FROM order_read_request WHERE order_id = OLD.order_id;
END;

CREATE TRIGGER outbox_update_guard BEFORE UPDATE OF id, key, kind, body, priority, created_at ON outbox
WHEN NEW.id IS NOT OLD.id OR NEW.key IS NOT OLD.key OR NEW.kind IS NOT OLD.kind OR NEW.body IS NOT OLD.body
     OR NEW.priority IS NOT OLD.priority OR NEW.created_at IS NOT OLD.created_at
BEGIN
    SELECT RAISE(ABORT, 'a change is never edited: cancel it and insert another');
END;

CREATE TRIGGER outbox_transition_guard BEFORE UPDATE OF state ON outbox
WHEN NEW.state IS NOT OLD.state AND NOT (
    (OLD.state = 'pending' AND NEW.state IN ('sending', 'held', 'rejected', 'cancelled'))
    OR (OLD.state = 'sending' AND NEW.state IN ('applied', 'rejected', 'in_doubt', 'pending'))
    OR (OLD.state = 'held' AND NEW.state IN ('pending', 'rejected', 'cancelled'))
    OR (OLD.state = 'in_doubt' AND NEW.state IN ('applied', 'pending', 'rejected', 'held')))
BEGIN
    SELECT RAISE(ABORT, 'a change cannot make this transition of states');
END;

CREATE TRIGGER outbox_revision_guard BEFORE UPDATE ON outbox WHEN NEW.revision IS NOT OLD.revision + 1
BEGIN
    SELECT RAISE(ABORT, 'a change is updated by tallyd only: see tallyd outbox --help');
END;

CREATE TRIGGER outbox_after_transition AFTER UPDATE OF state ON outbox WHEN NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO change_transition (change_id, revision, position, at_ms, state, reason, detail, exchange_id)
    SELECT NEW.id, NEW.revision, position, NEW.state_changed_ms, NEW.state, NEW.reason, NEW.detail,
           NEW.exchange_id
    FROM journal_sequence;
END;

CREATE TRIGGER outbox_delete_guard BEFORE DELETE ON outbox
BEGIN
    SELECT RAISE(ABORT, 'a change is never deleted: cancel it');
END;

CREATE TRIGGER outbox_after_insert AFTER INSERT ON outbox
BEGIN
    -- Numbers beyond 2^53 are no ids. They stay out of the column, and the daemon rejects the change with a
    -- reason.
    UPDATE outbox
    SET revision = revision + 1, position = (SELECT position FROM journal_sequence),
        sku = CASE WHEN NEW.kind IN ('quantity.set', 'quantity.adjust')
                        AND json_type(NEW.body, '$.sku') = 'text'
                   THEN json_extract(NEW.body, '$.sku') END,
        warehouse_id = CASE WHEN NEW.kind IN ('quantity.set', 'quantity.adjust')
                                 AND json_type(NEW.body, '$.warehouse_id') IN ('integer', 'real')
                                 AND json_extract(NEW.body, '$.warehouse_id') BETWEEN -9e15 AND 9e15
                            THEN CAST(json_extract(NEW.body, '$.warehouse_id') AS INTEGER) END
    WHERE id = NEW.id;
    UPDATE outbox
    SET revision = revision + 1,
        (base_quantity, base_own_delta, base_ms) =
            (SELECT quantity, own_delta, observed_ms FROM count_base WHERE id = NEW.id)
    WHERE id = NEW.id AND NEW.kind = 'quantity.set';
END;

-- A body over the limit is rejected with its size in `detail` and never waits, because every pass over
-- pending changes may read bodies, and a few dozen of 10 MB would take the memory of the host. The insert
-- itself succeeds.
CREATE TRIGGER outbox_body_limit AFTER INSERT ON outbox
WHEN length(CAST(NEW.body AS BLOB)) > 262144
BEGIN
    UPDATE outbox
    SET revision = revision + 1, state = 'rejected', reason = 'bad_body',
        detail = 'the body is ' || length(CAST(NEW.body AS BLOB))
                 || ' bytes long; at most 262144 are taken, make it shorter',
        settled_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now'),
        state_changed_ms = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
    WHERE id = NEW.id;
END;

-- A known key with an equal body is ignored, also with INSERT OR REPLACE; with another body it aborts while
-- the first body is kept. Bodies are compared as JSON: 5, 5.0 and 5e0 are one number, and neither the order
-- of fields nor blanks matter.
CREATE TRIGGER outbox_insert_guard BEFORE INSERT ON outbox
BEGIN
    SELECT CASE
        WHEN EXISTS (SELECT 1 FROM outbox
                     WHERE key = NEW.key AND (kind IS NOT NEW.kind OR NOT json_valid(NEW.body)))
            THEN RAISE(ABORT, 'this key already names another change: choose a new key')
        WHEN EXISTS (SELECT 1 FROM outbox WHERE key = NEW.key) AND EXISTS (
                SELECT fullkey, CASE WHEN type IN ('integer', 'real') THEN 'number' ELSE type END, atom
                FROM json_tree(iif(json_valid(NEW.body), NEW.body, 'null'))
                EXCEPT SELECT path, type, atom FROM change_body_leaf WHERE key = NEW.key)
            THEN RAISE(ABORT, 'this key already names another change: choose a new key')
        WHEN EXISTS (SELECT 1 FROM outbox WHERE key = NEW.key) AND EXISTS (
                SELECT path, type, atom FROM change_body_leaf WHERE key = NEW.key
                EXCEPT SELECT fullkey, CASE WHEN type IN ('integer', 'real') THEN 'number' ELSE type END, atom
                FROM json_tree(iif(json_valid(NEW.body), NEW.body, 'null')))
            THEN RAISE(ABORT, 'this key already names another change: choose a new key')
        WHEN EXISTS (SELECT 1 FROM outbox WHERE key = NEW.key)
            THEN RAISE(IGNORE)
        WHEN NEW.id <> -1
            THEN RAISE(ABORT, 'tallyd assigns the id of a change: insert key, kind, body and priority only')
        WHEN NEW.state <> 'pending' OR NEW.reason IS NOT NULL OR NEW.detail IS NOT NULL
             OR NEW.settled_at IS NOT NULL OR NEW.sku IS NOT NULL OR NEW.warehouse_id IS NOT NULL
             OR NEW.base_quantity IS NOT NULL OR NEW.base_ms IS NOT NULL OR NEW.exchange_id IS NOT NULL
             OR NEW.created_at IS NOT strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
             OR NEW.written IS NOT NULL OR NEW.position IS NOT NULL OR NEW.mine IS NOT NULL
             OR NEW.theirs IS NOT NULL OR NEW.state_changed_ms IS NOT NULL OR NEW.revision <> 0
             OR NEW.released_ms IS NOT NULL OR NEW.dated_at IS NOT NULL OR NEW.acknowledged_ms IS NOT NULL
            THEN RAISE(ABORT, 'a change begins pending: insert key, kind, body and priority only')
    END;
END;

-- Keys and kinds are read with every pass over pending changes, so their size is bounded.
CREATE TRIGGER outbox_key_limit BEFORE INSERT ON outbox
WHEN length(CAST(NEW.key AS BLOB)) > 1000 OR length(CAST(NEW.kind AS BLOB)) > 1000
BEGIN
    SELECT RAISE(ABORT, 'a key and a kind have at most 1000 bytes: choose a shorter key');
END;

-- With a known key, `outbox_insert_guard` has the sentence. An escaped backslash before `u0000` is no U+0000.
CREATE TRIGGER outbox_text_guard BEFORE INSERT ON outbox
BEGIN
    SELECT CASE
        WHEN NEW.key = ''
            THEN RAISE(ABORT, 'a key must not be empty: choose a key (outbox_key_text)')
        WHEN instr(NEW.key, char(0)) > 0 OR instr(NEW.kind, char(0)) > 0 OR instr(NEW.body, char(0)) > 0
            THEN RAISE(ABORT, 'key, kind and body have no character U+0000: remove it')
        WHEN EXISTS (SELECT 1 FROM outbox WHERE key = NEW.key)
            THEN NULL
        WHEN instr(replace(NEW.body, '\\', ''), '\u0000') > 0
            THEN RAISE(ABORT, 'the body has a character \u0000, which tallyd does not store: remove it (outbox_body_json)')
        WHEN NOT json_valid(NEW.body)
            THEN RAISE(ABORT, 'the body is no JSON text: correct it (outbox_body_json)')
    END;
END;

CREATE TRIGGER tracked_sku_limit BEFORE INSERT ON tracked_sku
BEGIN
    SELECT CASE
        WHEN instr(NEW.sku, char(0)) > 0
            THEN RAISE(ABORT, 'a SKU has no character U+0000: remove it')
        WHEN length(CAST(NEW.sku AS BLOB)) > 1000
            THEN RAISE(ABORT, 'a SKU has at most 1000 bytes: no product of the platform has this one')
    END;
END;

CREATE TRIGGER outbox_inserted_by BEFORE INSERT ON outbox WHEN NEW.inserted_by IS NOT NULL
BEGIN
    SELECT RAISE(ABORT, 'a change begins pending: insert key, kind, body and priority only');
END;

-- With a known key, `outbox_insert_guard` ignores or refuses the row.
CREATE TRIGGER outbox_priority_guard BEFORE INSERT ON outbox
WHEN NEW.priority NOT IN (0, 1) AND NOT EXISTS (SELECT 1 FROM outbox WHERE key = NEW.key)
BEGIN
    SELECT RAISE(ABORT, 'the priority is 0, or 1 to go first: insert one of them (outbox_priority)');
END;

CREATE TRIGGER tracked_sku_text_guard BEFORE INSERT ON tracked_sku WHEN length(trim(NEW.sku)) = 0
BEGIN
    SELECT RAISE(ABORT, 'a SKU must not be blank: insert the SKU of a product (tracked_sku_text)');
END;

CREATE TRIGGER tracked_order_positive_guard BEFORE INSERT ON tracked_order WHEN NEW.order_id <= 0
BEGIN
    SELECT RAISE(ABORT, 'the id of an order is above 0: insert the id of an order at the platform (tracked_order_positive)');
END;

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

-- With a known key, `outbox_insert_guard` ignores or refuses the row.
CREATE TRIGGER outbox_moment_ahead BEFORE INSERT ON outbox
WHEN NEW.kind = 'quantity.set' AND json_valid(NEW.body)
     AND NOT EXISTS (SELECT 1 FROM outbox WHERE key = NEW.key)
BEGIN
    SELECT RAISE(ABORT, '`counted_at` is more than a minute in the future: insert the moment of the count in UTC, or with its offset (outbox_moment_ahead)')
    WHERE json_type(NEW.body, '$.counted_at') = 'text'
      AND julianday(upper(trim(json_extract(NEW.body, '$.counted_at')))) > julianday('now') + 60.0 / 86400;
END;

CREATE TRIGGER outbox_moment_year BEFORE INSERT ON outbox
WHEN NEW.kind = 'quantity.set' AND json_valid(NEW.body)
     AND NOT EXISTS (SELECT 1 FROM outbox WHERE key = NEW.key)
BEGIN
    SELECT RAISE(ABORT, '`counted_at` lies before the year 2000: insert the moment of the count (outbox_moment_year)')
    WHERE json_type(NEW.body, '$.counted_at') = 'text'
      AND julianday(upper(trim(json_extract(NEW.body, '$.counted_at')))) < julianday('2000-01-01');
END;

CREATE TRIGGER product_id_replaced AFTER UPDATE OF product_id, alias_of ON product
WHEN OLD.product_id <> NEW.product_id OR (OLD.alias_of IS NOT NULL AND NEW.alias_of IS NULL)
BEGIN
    UPDATE product SET product_id_position = (SELECT position FROM journal_sequence) WHERE id = NEW.id;
END;
