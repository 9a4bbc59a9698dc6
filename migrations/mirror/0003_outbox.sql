-- The outbox: changes to be made at the platform, their history, and the decisions of operators.
--
-- People and programs insert key, kind, body and optionally priority. All other columns are private to
-- tallyd; the triggers refuse other writes. They prevent mistakes, not malice: whoever may write the file may
-- drop the triggers.

CREATE TABLE outbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL CONSTRAINT outbox_key UNIQUE CONSTRAINT outbox_key_text CHECK (length(key) > 0),
    kind TEXT NOT NULL,
    body TEXT NOT NULL CONSTRAINT outbox_body_json CHECK (json_valid(body)),
    priority INTEGER NOT NULL DEFAULT 0 CONSTRAINT outbox_priority CHECK (priority IN (0, 1)),
    state TEXT NOT NULL DEFAULT 'pending' CONSTRAINT outbox_state CHECK (state IN (
        'pending', 'sending', 'applied', 'held', 'rejected', 'in_doubt', 'cancelled')),
    reason TEXT, -- a code (docs/database.md)
    detail TEXT, -- a sentence for people
    created_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
        CONSTRAINT outbox_created_at CHECK (created_at GLOB '????-??-??T??:??:??.???Z'),
    -- When the daemon first saw a change whose `created_at` lay in the future, because the clock of the
    -- inserting program was ahead. This time then replaces `created_at`.
    dated_at TEXT CONSTRAINT outbox_dated_at CHECK (dated_at GLOB '????-??-??T??:??:??.???Z'),
    settled_at TEXT CONSTRAINT outbox_settled_at CHECK (settled_at GLOB '????-??-??T??:??:??.???Z'),
    released_ms INTEGER, -- an operator released it: it trips no brake again
    acknowledged_ms INTEGER -- an operator has seen the rejection (`tallyd outbox acknowledge`)
        CONSTRAINT outbox_acknowledged CHECK (acknowledged_ms IS NULL OR state = 'rejected'),
    revision INTEGER NOT NULL DEFAULT 0, -- each update by tallyd adds 1; any other update is refused
    state_changed_ms INTEGER,            -- when the state last changed
    position INTEGER, -- position of the journal at the insertion: a later exchange began after it

    -- The stock level of a quantity change, as its body spells it.
    sku TEXT,
    warehouse_id INTEGER,
    -- What a count was made against: the fact, the sum `own_delta` of that time, and the time of the fact
    -- (docs/rules.md 1-3).
    base_quantity INTEGER,
    base_own_delta INTEGER,
    base_ms INTEGER,
    -- The last exchange that carried it, and the quantity it wrote.
    exchange_id INTEGER,
    written INTEGER,
    -- The two sides of a conflict.
    mine TEXT,
    theirs TEXT,

    CONSTRAINT outbox_settled CHECK (
        (state IN ('applied', 'rejected', 'cancelled')) = (settled_at IS NOT NULL)),
    CONSTRAINT outbox_reason CHECK (state NOT IN ('held', 'rejected', 'in_doubt') OR reason IS NOT NULL),
    CONSTRAINT outbox_sending CHECK (state NOT IN ('sending', 'in_doubt') OR exchange_id IS NOT NULL),
    CONSTRAINT outbox_base CHECK ((base_quantity IS NULL) = (base_own_delta IS NULL))
) STRICT;

-- Every key that was ever inserted, also of pruned changes.
CREATE TABLE change_key (key TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;

-- Every state of a change: when, why, and the exchange that carried it then. The position orders it among the
-- exchanges.
CREATE TABLE change_transition (
    change_id INTEGER NOT NULL REFERENCES outbox (id) ON DELETE CASCADE,
    revision INTEGER NOT NULL,
    position INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    state TEXT NOT NULL,
    reason TEXT,
    detail TEXT,
    exchange_id INTEGER,
    PRIMARY KEY (change_id, revision)
) STRICT, WITHOUT ROWID;

-- The decision of an operator on a count in conflict: `quantity` units, at the fact of the time of the
-- decision. Without a quantity the count stands as it is.
CREATE TABLE count_resolution (
    change_id INTEGER PRIMARY KEY REFERENCES outbox (id) ON DELETE CASCADE,
    quantity INTEGER CONSTRAINT count_resolution_quantity CHECK (quantity >= 0),
    base_quantity INTEGER,
    base_own_delta INTEGER,
    CONSTRAINT count_resolution_base CHECK (
        (quantity IS NULL) = (base_quantity IS NULL) AND (quantity IS NULL) = (base_own_delta IS NULL))
) STRICT;

-- The configured policies, written at the start of the daemon; warehouse 0 stands for all others.
CREATE TABLE quantity_policy (
    warehouse_id INTEGER PRIMARY KEY,
    policy TEXT NOT NULL
        CONSTRAINT quantity_policy_known CHECK (policy IN ('merge', 'local', 'remote', 'ask'))
) STRICT;
INSERT INTO quantity_policy (warehouse_id, policy) VALUES (0, 'merge');

-- A trip of a brake, its fixed list of held changes, and its single release.
CREATE TABLE brake_trip (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at_ms INTEGER NOT NULL,
    what TEXT NOT NULL, -- the numbers, as a sentence
    released_ms INTEGER CONSTRAINT brake_trip_released CHECK (released_ms >= at_ms)
) STRICT;

CREATE TABLE brake_trip_change (
    trip_id INTEGER NOT NULL REFERENCES brake_trip (id),
    change_id INTEGER NOT NULL,
    PRIMARY KEY (trip_id, change_id)
) STRICT, WITHOUT ROWID;

-- Has its row only within a pruning transaction; without the row nothing can be deleted from the outbox.
CREATE TABLE prune_guard (id INTEGER PRIMARY KEY CONSTRAINT prune_guard_single CHECK (id = 1)) STRICT;

-- The claim reads only pending changes, however long the history is.
CREATE INDEX outbox_pending ON outbox (priority DESC, id) WHERE state = 'pending';
CREATE INDEX outbox_open_stock_level ON outbox (sku, warehouse_id, id)
    WHERE state IN ('pending', 'sending', 'held', 'in_doubt') AND sku IS NOT NULL;
CREATE INDEX outbox_open ON outbox (state, id) WHERE state IN ('sending', 'held', 'in_doubt');
CREATE INDEX outbox_by_exchange ON outbox (exchange_id) WHERE exchange_id IS NOT NULL;
-- With every call, quantities look for products that are about to be created.
CREATE INDEX outbox_open_product_create ON outbox (id)
    WHERE kind = 'product.create' AND state IN ('pending', 'sending', 'in_doubt');
-- A cancelled change that an operator resolved as landed took effect too.
CREATE INDEX outbox_applied_stock_level ON outbox (sku, warehouse_id, id)
    WHERE (state = 'applied' OR reason = 'landed') AND sku IS NOT NULL;
-- Shipments and trackings are found without a walk over a backlog of counts.
CREATE INDEX outbox_pending_shipments ON outbox (priority DESC, id)
    WHERE state = 'pending' AND kind IN ('shipment.create', 'tracking.submit');
-- Rejections to be shown, found without a walk over the history.
CREATE INDEX outbox_unacknowledged ON outbox (id) WHERE state = 'rejected' AND acknowledged_ms IS NULL;

-- The leaves of each body, for comparison as JSON. The index in a list and the name of a field are part of
-- the path.
CREATE VIEW change_body_leaf (key, path, type, atom) AS
SELECT o.key, t.fullkey, CASE WHEN t.type IN ('integer', 'real') THEN 'number' ELSE t.type END, t.atom
FROM outbox o, json_tree(o.body) t;

-- The stock level of each quantity change. A spelling that was never asked for means itself, and has no
-- product.
CREATE VIEW change_stock_level (change_id, product, sku, warehouse_id) AS
SELECT o.id, (SELECT m.product FROM sku_spelling m WHERE m.spelling = o.sku),
       coalesce((SELECT m.sku FROM sku_spelling m WHERE m.spelling = o.sku), o.sku), o.warehouse_id
FROM outbox o WHERE o.sku IS NOT NULL AND o.warehouse_id IS NOT NULL;

-- The base of each count as of now: the fact alone, without pending changes. An explicit `seen` is matched
-- with the facts that the stock level had, newest first, for the sum `own_delta` of that time. Without a
-- match the sum of now is taken.
CREATE VIEW count_base (id, quantity, own_delta, observed_ms) AS
SELECT change.id, coalesce(change.seen, b.quantity),
       iif(change.seen IS NULL OR change.seen = b.quantity, b.own_delta,
           coalesce((SELECT past.own_delta FROM balance_history past
                     WHERE past.product = b.product AND past.warehouse_id = b.warehouse_id
                       AND past.quantity = change.seen ORDER BY past.position DESC LIMIT 1), b.own_delta)),
       coalesce(b.fact_ms, r.observed_ms)
FROM (SELECT o.id, o.warehouse_id,
             CASE WHEN json_type(o.body, '$.seen') IN ('integer', 'real')
                       AND json_extract(o.body, '$.seen') BETWEEN -9e15 AND 9e15
                  THEN CAST(json_extract(o.body, '$.seen') AS INTEGER) END AS seen,
             (SELECT m.product FROM sku_spelling m WHERE m.spelling = o.sku) AS product
      FROM outbox o) change
JOIN balance b ON b.product = change.product AND b.warehouse_id = change.warehouse_id
JOIN product p ON p.id = b.product
LEFT JOIN read_batch r ON r.id = p.read_batch_id;

-- The base of each count as of its insertion, for a count whose spelling got its meaning later. `known_ms` is
-- the time of the last observation of that fact before the insertion, else of the first one after it.
CREATE VIEW count_base_at_insert (id, quantity, own_delta, known_ms) AS
SELECT change.id, coalesce(change.seen, change.quantity),
       iif(change.seen IS NULL OR change.seen = change.quantity, change.own_delta,
           coalesce((SELECT past.own_delta FROM balance_history past
                     WHERE past.product = change.product AND past.warehouse_id = change.warehouse_id
                       AND past.position <= change.position AND past.quantity = change.seen
                     ORDER BY past.position DESC LIMIT 1), change.own_delta)),
       max(min(change.observed_ms, change.inserted_ms), coalesce(change.since_ms, 0))
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
WHERE change.observed_ms IS NOT NULL;

-- Stock levels with pending or sent changes, and the newest count among these.
CREATE VIEW pending_stock_level (sku, warehouse_id, set_id) AS
SELECT sku, warehouse_id, max(set_id)
FROM (SELECT coalesce((SELECT m.sku FROM sku_spelling m WHERE m.spelling = o.sku), o.sku) AS sku,
             o.warehouse_id,
             CASE o.kind WHEN 'quantity.set' THEN o.id END AS set_id
      FROM outbox o
      WHERE o.state IN ('pending', 'sending', 'held', 'in_doubt') AND o.sku IS NOT NULL
        AND o.state IN ('pending', 'sending') AND o.warehouse_id IS NOT NULL)
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
                            ELSE iif(drift = 0, counted, b.quantity) END
                     FROM (SELECT coalesce(c.quantity,
                                           CAST(json_extract(s.body, '$.quantity') AS INTEGER)) AS counted,
                                  (b.quantity - b.own_delta)
                                      - coalesce(c.base_quantity - c.base_own_delta,
                                                 s.base_quantity - s.base_own_delta,
                                                 b.quantity - b.own_delta) AS drift,
                                  CASE WHEN c.change_id IS NOT NULL
                                       THEN iif(c.quantity IS NULL, 'local', 'merge') END AS resolution
                           FROM outbox s LEFT JOIN count_resolution c ON c.change_id = s.id
                           WHERE s.id = pc.set_id)
                     JOIN quantity_policy every ON every.warehouse_id = 0
                     LEFT JOIN quantity_policy own ON own.warehouse_id = b.warehouse_id),
                    b.quantity)
           + coalesce((SELECT sum(CAST(json_extract(a.body, '$.delta') AS INTEGER)) FROM outbox a
                       WHERE a.sku IN (SELECT m.spelling FROM sku_spelling m
                                       WHERE m.case_key = p.case_key AND m.product = p.id)
                         AND a.warehouse_id = b.warehouse_id
                         AND a.state IN ('pending', 'sending', 'held', 'in_doubt') AND a.sku IS NOT NULL
                         AND a.state IN ('pending', 'sending')
                         AND a.kind = 'quantity.adjust' AND a.id > coalesce(pc.set_id, 0)), 0)
       END,
       b.is_active, b.include_in_sync,
       strftime('%Y-%m-%dT%H:%M:%fZ', coalesce(b.fact_ms, r.observed_ms) / 1000.0, 'unixepoch')
FROM balance b
JOIN product p ON p.id = b.product
LEFT JOIN read_batch r ON r.id = p.read_batch_id
LEFT JOIN warehouse w ON w.id = b.warehouse_id
LEFT JOIN pending_stock_level pc ON pc.sku = p.sku AND pc.warehouse_id = b.warehouse_id
WHERE b.unlinked_ms IS NULL AND p.missing_since_ms IS NULL AND p.alias_of IS NULL;

CREATE VIEW open_conflict (key, kind, sku, warehouse_id, mine, theirs, since, what_to_do) AS
SELECT key, kind, sku, warehouse_id, mine, theirs,
       strftime('%Y-%m-%dT%H:%M:%fZ', state_changed_ms / 1000.0, 'unixepoch'),
       'tallyd outbox resolve '
       || iif(key GLOB '*[^-A-Za-z0-9._:/@+]*', '''' || replace(key, '''', '''\''''') || '''', key)
       || ' --use mine|theirs|N' || coalesce(' (mine is ' || mine || ', theirs ' || theirs || ')', '')
FROM outbox
WHERE state IN ('sending', 'held', 'in_doubt') AND state = 'held' AND reason = 'conflict'
UNION ALL
-- The last change of the entry, in any spelling of the SKU, stands for it. If it was pruned, the exchange
-- does.
SELECT coalesce(o.key, 'exchange ' || m.exchange_id), coalesce(o.kind, 'quantity.set'), p.sku, m.warehouse_id,
       CAST(m.written AS TEXT), CAST(m.shown AS TEXT),
       strftime('%Y-%m-%dT%H:%M:%fZ', m.since_ms / 1000.0, 'unixepoch'),
       'check the product at the platform (is it a kit?), then count it: tallyd quantity set '
       || iif(p.sku GLOB '*[^-A-Za-z0-9._:/@+]*', '''' || replace(p.sku, '''', '''\''''') || '''', p.sku)
       || ' ' || m.warehouse_id || ' N; it closes by itself once the platform shows ' || m.written
FROM mismatch m
JOIN product p ON p.id = m.product
LEFT JOIN outbox o ON o.id = (
    SELECT max(w.id) FROM outbox w JOIN product q ON q.sku = w.sku
    WHERE w.exchange_id = m.exchange_id AND w.warehouse_id = m.warehouse_id AND q.case_key = p.case_key);

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
WHEN NOT EXISTS (SELECT 1 FROM prune_guard) OR OLD.settled_at IS NULL
BEGIN
    SELECT RAISE(ABORT, 'a change is never deleted: cancel it');
END;

CREATE TRIGGER outbox_after_insert AFTER INSERT ON outbox
BEGIN
    INSERT INTO change_key (key) VALUES (NEW.key);
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
        WHEN EXISTS (SELECT 1 FROM change_key WHERE key = NEW.key) AND EXISTS (
                SELECT fullkey, CASE WHEN type IN ('integer', 'real') THEN 'number' ELSE type END, atom
                FROM json_tree(iif(json_valid(NEW.body), NEW.body, 'null'))
                WHERE EXISTS (SELECT 1 FROM outbox WHERE key = NEW.key)
                EXCEPT SELECT path, type, atom FROM change_body_leaf WHERE key = NEW.key)
            THEN RAISE(ABORT, 'this key already names another change: choose a new key')
        WHEN EXISTS (SELECT 1 FROM change_key WHERE key = NEW.key) AND EXISTS (
                SELECT path, type, atom FROM change_body_leaf WHERE key = NEW.key
                EXCEPT SELECT fullkey, CASE WHEN type IN ('integer', 'real') THEN 'number' ELSE type END, atom
                FROM json_tree(iif(json_valid(NEW.body), NEW.body, 'null')))
            THEN RAISE(ABORT, 'this key already names another change: choose a new key')
        WHEN EXISTS (SELECT 1 FROM change_key WHERE key = NEW.key)
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

CREATE TRIGGER change_key_insert_guard BEFORE INSERT ON change_key
WHEN NOT EXISTS (SELECT 1 FROM outbox WHERE key = NEW.key)
BEGIN
    SELECT RAISE(ABORT, 'a key exists only with its change: insert into outbox');
END;

CREATE TRIGGER change_key_update_guard BEFORE UPDATE ON change_key
BEGIN
    SELECT RAISE(ABORT, 'a key is for ever');
END;

CREATE TRIGGER change_key_delete_guard BEFORE DELETE ON change_key
BEGIN
    SELECT RAISE(ABORT, 'a key is for ever');
END;

-- A pruning is recorded first: its event is the last of the journal when the row is inserted.
CREATE TRIGGER prune_guard_insert_guard BEFORE INSERT ON prune_guard
WHEN NOT EXISTS (SELECT 1 FROM event e JOIN journal_sequence c ON c.position = e.position
                 WHERE e.kind = 'outbox.pruned')
BEGIN
    SELECT RAISE(ABORT, 'finished changes are pruned by tallyd only');
END;
