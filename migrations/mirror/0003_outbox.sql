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
    -- The person who inserted it, as in `event.decided_by`. On a server a program has the name of its login; a
    -- program that inserts into a file has none.
    inserted_by TEXT,

    CONSTRAINT outbox_settled CHECK (
        (state IN ('applied', 'rejected', 'cancelled')) = (settled_at IS NOT NULL)),
    CONSTRAINT outbox_reason CHECK (state NOT IN ('held', 'rejected', 'in_doubt') OR reason IS NOT NULL),
    CONSTRAINT outbox_sending CHECK (state NOT IN ('sending', 'in_doubt') OR exchange_id IS NOT NULL),
    CONSTRAINT outbox_base CHECK ((base_quantity IS NULL) = (base_own_delta IS NULL))
) STRICT;

-- Every state of a change: when, why, and the exchange that carried it then. The position orders it among the
-- exchanges.
CREATE TABLE change_transition (
    change_id INTEGER NOT NULL REFERENCES outbox (id),
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
    change_id INTEGER PRIMARY KEY REFERENCES outbox (id),
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
    released_ms INTEGER CONSTRAINT brake_trip_released CHECK (released_ms >= at_ms),
    -- The position of the journal at which a restore was noticed; NULL: the trip of a brake. Until the trip is
    -- released, inserted changes whose second effect would do harm join it.
    restored_position INTEGER
) STRICT;

CREATE TABLE brake_trip_change (
    trip_id INTEGER NOT NULL REFERENCES brake_trip (id),
    change_id INTEGER NOT NULL,
    PRIMARY KEY (trip_id, change_id)
) STRICT, WITHOUT ROWID;

-- The claim reads only pending changes, however long the history is.
CREATE INDEX outbox_pending ON outbox (priority DESC, id) WHERE state = 'pending';
-- All changes other than quantities are found without a walk over a backlog of counts.
CREATE INDEX outbox_pending_deliveries ON outbox (priority DESC, id)
    WHERE state = 'pending' AND kind NOT IN ('quantity.set', 'quantity.adjust');
-- Each page that is read looks for the counts that have no base yet, without a walk over a backlog of adjusts.
CREATE INDEX outbox_pending_counts ON outbox (position) WHERE state = 'pending' AND kind = 'quantity.set';
-- A push plans the outbox window by window. The counts of a stock level, and its changes of one state in a range
-- of ids, are found without a walk over a million others of the same stock level.
CREATE INDEX outbox_open_stock_level ON outbox (sku, warehouse_id, kind, state, priority, id)
    WHERE state IN ('pending', 'sending', 'held', 'in_doubt') AND sku IS NOT NULL;
CREATE INDEX outbox_open ON outbox (state, id) WHERE state IN ('sending', 'held', 'in_doubt');
CREATE INDEX outbox_by_exchange ON outbox (exchange_id) WHERE exchange_id IS NOT NULL;
-- With every call, quantities look for products that are about to be created.
CREATE INDEX outbox_open_product_create ON outbox (id)
    WHERE kind = 'product.create' AND state IN ('pending', 'sending', 'in_doubt');
-- The newest count of a stock level is found without a walk over its movements, which may be thousands. A
-- cancelled change that an operator resolved as landed took effect too.
CREATE INDEX outbox_applied_stock_level ON outbox (sku, warehouse_id, kind, id)
    WHERE (state = 'applied' OR reason = 'landed') AND sku IS NOT NULL;
-- Rejections to be shown, found without a walk over the history.
CREATE INDEX outbox_unacknowledged ON outbox (id) WHERE state = 'rejected' AND acknowledged_ms IS NULL;
-- A running push takes in the changes that became pending again: one an operator retried or released, one whose
-- call turned out to have had no effect. The index holds only these, because an insertion is no transition.
CREATE INDEX change_transition_to_pending ON change_transition (position) WHERE state = 'pending';
CREATE INDEX brake_trip_restored ON brake_trip (id, restored_position, at_ms, released_ms)
    WHERE restored_position IS NOT NULL;

-- The stock level of each quantity change. A spelling that was never asked for means itself, and has no
-- product.
CREATE VIEW change_stock_level (change_id, product, sku, warehouse_id) AS
SELECT o.id, (SELECT m.product FROM sku_spelling m WHERE m.spelling = o.sku),
       coalesce((SELECT m.sku FROM sku_spelling m WHERE m.spelling = o.sku), o.sku), o.warehouse_id
FROM outbox o WHERE o.sku IS NOT NULL AND o.warehouse_id IS NOT NULL;

-- The last restore, or position 0. Later exchanges have a larger id.
CREATE VIEW last_restore (position, at_ms) AS
SELECT coalesce(max(restored_position), 0), coalesce(max(at_ms), 0)
FROM brake_trip WHERE restored_position IS NOT NULL;

CREATE VIEW open_conflict (key, kind, sku, warehouse_id, mine, theirs, since, what_to_do) AS
SELECT key, kind, sku, warehouse_id, mine, theirs,
       strftime('%Y-%m-%dT%H:%M:%fZ', state_changed_ms / 1000.0, 'unixepoch'),
       'tallyd outbox resolve '
       || CASE WHEN key GLOB '*[^-A-Za-z0-9._:/@+]*' THEN '''' || replace(key, '''', '''\''''') || '''' ELSE key END
       || ' --use mine|theirs|N' || coalesce(' (mine is ' || mine || ', theirs ' || theirs || ')', '')
FROM outbox
WHERE state IN ('sending', 'held', 'in_doubt') AND state = 'held' AND reason = 'conflict'
UNION ALL
-- The last change of the entry, in any spelling of the SKU, stands for it; without one, the exchange does.
SELECT coalesce(o.key, 'exchange ' || m.exchange_id), coalesce(o.kind, 'quantity.set'), p.sku, m.warehouse_id,
       '' || m.written, '' || m.shown,
       strftime('%Y-%m-%dT%H:%M:%fZ', m.since_ms / 1000.0, 'unixepoch'),
       'check the product at the platform (is it a kit?), then count it: tallyd quantity set '
       || CASE WHEN p.sku GLOB '*[^-A-Za-z0-9._:/@+]*'
               THEN '''' || replace(p.sku, '''', '''\''''') || '''' ELSE p.sku END
       || ' ' || m.warehouse_id || ' N; it closes by itself once the platform shows ' || m.written
FROM mismatch m
JOIN product p ON p.id = m.product
LEFT JOIN outbox o ON o.id = (
    SELECT max(w.id) FROM outbox w JOIN product q ON q.sku = w.sku
    WHERE w.exchange_id = m.exchange_id AND w.warehouse_id = m.warehouse_id AND q.case_key = p.case_key);
