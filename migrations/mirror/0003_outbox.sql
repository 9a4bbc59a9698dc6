-- The outbox: what the warehouse wants done at the service. People and programs insert key, kind, body and, if need
-- be, priority; everything else is ours, and the triggers keep it so.

CREATE TABLE outbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL CONSTRAINT outbox_key UNIQUE CONSTRAINT outbox_key_text CHECK (length(key) > 0),
    kind TEXT NOT NULL,
    body TEXT NOT NULL CONSTRAINT outbox_body_json CHECK (json_valid(body)),
    priority INTEGER NOT NULL DEFAULT 0 CONSTRAINT outbox_priority CHECK (priority IN (0, 1)),
    state TEXT NOT NULL DEFAULT 'pending' CONSTRAINT outbox_state CHECK (state IN (
        'pending', 'sending', 'applied', 'held', 'rejected', 'in_doubt', 'cancelled')),
    reason TEXT, -- a short word, see docs/database.md
    detail TEXT, -- a sentence for a person
    created_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
        CONSTRAINT outbox_created_at CHECK (created_at GLOB '????-??-??T??:??:??.???Z'),
    settled_at TEXT CONSTRAINT outbox_settled_at CHECK (settled_at GLOB '????-??-??T??:??:??.???Z'),

    position INTEGER, -- the journal's position when it was inserted: what was asked later was asked after it
    -- The cell of a quantity wish, as its body spells it.
    sku TEXT,
    warehouse_id INTEGER,
    -- What a count was made against: the fact R, our sum O, and when that fact was observed (docs/rules.md 1-3).
    base_quantity INTEGER,
    base_ours INTEGER,
    base_ms INTEGER,
    -- The exchange that carries or carried it, and what that wrote.
    exchange_id INTEGER,
    written INTEGER,
    -- The two sides of a conflict.
    mine TEXT,
    theirs TEXT,
    moved_ms INTEGER, -- when the state last changed

    CONSTRAINT outbox_settled CHECK ((state IN ('applied', 'rejected', 'cancelled')) = (settled_at IS NOT NULL)),
    CONSTRAINT outbox_reason CHECK (state NOT IN ('held', 'rejected', 'in_doubt') OR reason IS NOT NULL),
    CONSTRAINT outbox_sending CHECK (state NOT IN ('sending', 'in_doubt') OR exchange_id IS NOT NULL),
    CONSTRAINT outbox_base CHECK ((base_quantity IS NULL) = (base_ours IS NULL))
) STRICT;
-- The claim looks only at what is pending, however long the history is.
CREATE INDEX outbox_pending ON outbox (priority DESC, id) WHERE state = 'pending';
CREATE INDEX outbox_open_cell ON outbox (sku, warehouse_id, id)
    WHERE state IN ('pending', 'sending', 'held', 'in_doubt') AND sku IS NOT NULL;
CREATE INDEX outbox_open ON outbox (state, id) WHERE state IN ('sending', 'held', 'in_doubt');
CREATE INDEX outbox_of_exchange ON outbox (exchange_id) WHERE exchange_id IS NOT NULL;
CREATE INDEX outbox_cell_settled ON outbox (sku, warehouse_id, id) WHERE state = 'applied' AND sku IS NOT NULL;

-- A key is for ever: it stands here when the wish itself was pruned.
CREATE TABLE wish_key (key TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
CREATE TRIGGER wish_key_kept BEFORE DELETE ON wish_key
BEGIN
    SELECT RAISE(ABORT, 'a key is for ever');
END;

-- Set and cleared by the pruning transaction alone; without it nothing leaves the outbox.
CREATE TABLE pruning (id INTEGER PRIMARY KEY CONSTRAINT pruning_single CHECK (id = 1)) STRICT;

-- The fact a count stands on: the fact alone, never with pending wishes in it. An explicit `seen` is matched, newest
-- first, against the facts the cell had, for the sum of ours at that time; no match means the sum now.
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
             coalesce((SELECT coalesce(q.alias_of, q.id) FROM product q WHERE q.sku = o.sku),
                      (SELECT coalesce(q.alias_of, q.id) FROM product q WHERE q.sku_fold = lower(trim(o.sku))
                       ORDER BY q.id LIMIT 1)) AS product
      FROM outbox o) wish
JOIN balance b ON b.product = wish.product AND b.warehouse_id = wish.warehouse_id
JOIN product p ON p.id = b.product
LEFT JOIN reading r ON r.id = p.reading_id;

CREATE TRIGGER outbox_door BEFORE INSERT ON outbox
BEGIN
    SELECT CASE
        WHEN EXISTS (SELECT 1 FROM outbox WHERE key = NEW.key
                     AND (kind IS NOT NEW.kind OR json(body) IS NOT json(NEW.body)))
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

CREATE TRIGGER outbox_taken AFTER INSERT ON outbox
BEGIN
    INSERT INTO wish_key (key) VALUES (NEW.key);
    UPDATE outbox SET position = (SELECT position FROM counter) WHERE id = NEW.id;
    -- Numbers beyond 2^53 are no ids; they stay out of the column and are rejected by the daemon with a reason.
    UPDATE outbox
    SET sku = CASE json_type(NEW.body, '$.sku') WHEN 'text' THEN json_extract(NEW.body, '$.sku') END,
        warehouse_id = CASE WHEN json_type(NEW.body, '$.warehouse_id') IN ('integer', 'real')
                                 AND json_extract(NEW.body, '$.warehouse_id') BETWEEN -9e15 AND 9e15
                            THEN CAST(json_extract(NEW.body, '$.warehouse_id') AS INTEGER) END
    WHERE id = NEW.id AND NEW.kind IN ('quantity.set', 'quantity.adjust');
    UPDATE outbox
    SET (base_quantity, base_ours, base_ms) = (SELECT quantity, ours, observed_ms FROM count_base WHERE id = NEW.id)
    WHERE id = NEW.id AND NEW.kind = 'quantity.set';
END;

CREATE TRIGGER outbox_unchanging BEFORE UPDATE OF id, key, kind, body, priority, created_at ON outbox
WHEN NEW.id IS NOT OLD.id OR NEW.key IS NOT OLD.key OR NEW.kind IS NOT OLD.kind OR NEW.body IS NOT OLD.body
     OR NEW.priority IS NOT OLD.priority OR NEW.created_at IS NOT OLD.created_at
BEGIN
    SELECT RAISE(ABORT, 'a wish is never edited: cancel it and insert another');
END;

CREATE TRIGGER outbox_moves BEFORE UPDATE OF state ON outbox
WHEN NEW.state IS NOT OLD.state AND NOT (
    (OLD.state = 'pending' AND NEW.state IN ('sending', 'held', 'rejected', 'cancelled'))
    OR (OLD.state = 'sending' AND NEW.state IN ('applied', 'rejected', 'in_doubt', 'pending'))
    OR (OLD.state = 'held' AND NEW.state IN ('pending', 'rejected', 'cancelled'))
    OR (OLD.state = 'in_doubt' AND NEW.state IN ('applied', 'pending', 'rejected', 'held')))
BEGIN
    SELECT RAISE(ABORT, 'a wish does not move between these states');
END;

CREATE TRIGGER outbox_kept BEFORE DELETE ON outbox
WHEN NOT EXISTS (SELECT 1 FROM pruning) OR OLD.settled_at IS NULL
BEGIN
    SELECT RAISE(ABORT, 'a wish is never deleted: cancel it');
END;

-- The policy in force, written at the start of the daemon; warehouse 0 stands for all others.
CREATE TABLE quantity_policy (
    warehouse_id INTEGER PRIMARY KEY,
    policy TEXT NOT NULL CONSTRAINT quantity_policy_known CHECK (policy IN ('merge', 'local', 'remote', 'ask'))
) STRICT;
INSERT INTO quantity_policy (warehouse_id, policy) VALUES (0, 'merge');

-- Cells with wishes on their way, and the newest count among them.
CREATE VIEW pending_cell (sku, warehouse_id, set_id) AS
SELECT sku, warehouse_id, max(CASE kind WHEN 'quantity.set' THEN id END)
FROM outbox
WHERE state IN ('pending', 'sending', 'held', 'in_doubt') AND sku IS NOT NULL
  AND state IN ('pending', 'sending') AND warehouse_id IS NOT NULL
GROUP BY sku, warehouse_id;

CREATE VIEW stock (
    sku, warehouse_id, warehouse_name, product_id, quantity, pending_quantity, is_active, include_in_sync, observed_at
) AS
SELECT p.sku, b.warehouse_id, w.name, p.product_id, b.quantity,
       CASE WHEN pc.sku IS NOT NULL THEN
           coalesce((SELECT CASE coalesce(own.policy, every.policy)
                            WHEN 'local' THEN counted
                            WHEN 'merge' THEN counted + drift
                            ELSE iif(drift = 0, counted, b.quantity) END
                     FROM (SELECT CAST(json_extract(s.body, '$.quantity') AS INTEGER) AS counted,
                                  (b.quantity - b.ours) - coalesce(s.base_quantity - s.base_ours, b.quantity - b.ours)
                                      AS drift
                           FROM outbox s WHERE s.id = pc.set_id)
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
LEFT JOIN pending_cell pc ON pc.sku = p.sku AND pc.warehouse_id = b.warehouse_id;

CREATE VIEW open_conflict (key, kind, sku, warehouse_id, mine, theirs, since, what_to_do) AS
SELECT key, kind, sku, warehouse_id, mine, theirs,
       strftime('%Y-%m-%dT%H:%M:%fZ', moved_ms / 1000.0, 'unixepoch'),
       'tallyd outbox resolve ' || key || ' --use mine|theirs|N'
FROM outbox
WHERE state IN ('sending', 'held', 'in_doubt') AND state = 'held' AND reason = 'conflict';
