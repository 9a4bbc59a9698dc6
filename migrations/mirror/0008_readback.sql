-- Reading back: what the service accepted is looked for, and what it does not show is a conflict.

-- 1: accepted, and no read since was taken for the cell's fact.
ALTER TABLE cell_write ADD COLUMN is_unseen INTEGER NOT NULL DEFAULT 0
    CONSTRAINT cell_write_is_unseen CHECK (is_unseen IN (0, 1));
-- 1: a write of this cell once showed at the service, and none since did not.
ALTER TABLE cell_write ADD COLUMN is_proven INTEGER NOT NULL DEFAULT 0
    CONSTRAINT cell_write_is_proven CHECK (is_proven IN (0, 1));
-- When the first read was sent that did not show it; nothing is decided on the cell until a second one tells.
ALTER TABLE cell_write ADD COLUMN doubted_ms INTEGER
    CONSTRAINT cell_write_doubted CHECK (doubted_ms IS NULL OR is_unseen);
-- From when on the cell is to be looked at.
ALTER TABLE cell_write ADD COLUMN look_ms INTEGER
    CONSTRAINT cell_write_look CHECK (look_ms IS NULL OR is_unseen);
CREATE INDEX cell_write_to_look_at ON cell_write (look_ms) WHERE look_ms IS NOT NULL;

-- When our writes last took the cell from above 0 to 0; NULL once they put something there. A later write that changes
-- nothing, as a product's update is one, must not hide it from the brake.
ALTER TABLE cell_write ADD COLUMN emptied_ms INTEGER;
UPDATE cell_write SET emptied_ms = (SELECT e.sent_ms FROM exchange e WHERE e.id = exchange_id)
WHERE written = 0 AND before > 0 AND ended IS NOT NULL;

-- A write that the service accepted and does not show. It goes when the service shows it, or with the next write that
-- is accepted.
CREATE TABLE mismatch (
    product INTEGER NOT NULL,
    warehouse_id INTEGER NOT NULL,
    exchange_id INTEGER NOT NULL, -- the one that wrote
    written INTEGER NOT NULL,
    shown INTEGER,                -- NULL: the product without this warehouse
    since_ms INTEGER NOT NULL,
    PRIMARY KEY (product, warehouse_id),
    CONSTRAINT mismatch_differs CHECK (shown IS NOT written)
) STRICT, WITHOUT ROWID;

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
    WHERE w.exchange_id = m.exchange_id AND w.warehouse_id = m.warehouse_id AND coalesce(q.alias_of, q.id) = m.product);
