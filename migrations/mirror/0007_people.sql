-- People's word on wishes: the story of each wish, what a person decided, and a door that lets nothing else through.

-- Every change of ours to a wish counts one up; a change that does not is somebody else's and is refused. This keeps
-- out mistakes, not malice: whoever may write the file may also drop the trigger.
ALTER TABLE outbox ADD COLUMN moves INTEGER NOT NULL DEFAULT 0;

CREATE TRIGGER outbox_ours BEFORE UPDATE ON outbox WHEN NEW.moves IS NOT OLD.moves + 1
BEGIN
    SELECT RAISE(ABORT, 'a wish is moved by tallyd alone: see tallyd outbox --help');
END;

DROP TRIGGER outbox_door_released;
CREATE TRIGGER outbox_door_ours BEFORE INSERT ON outbox WHEN NEW.released_ms IS NOT NULL OR NEW.moves <> 0
BEGIN
    SELECT RAISE(ABORT, 'a wish begins pending: insert key, kind, body and priority only');
END;

DROP TRIGGER outbox_taken;
CREATE TRIGGER outbox_taken AFTER INSERT ON outbox
BEGIN
    INSERT INTO wish_key (key) VALUES (NEW.key);
    -- Numbers beyond 2^53 are no ids; they stay out of the column and are rejected by the daemon with a reason.
    UPDATE outbox
    SET moves = moves + 1, position = (SELECT position FROM counter),
        sku = CASE WHEN NEW.kind IN ('quantity.set', 'quantity.adjust') AND json_type(NEW.body, '$.sku') = 'text'
                   THEN json_extract(NEW.body, '$.sku') END,
        warehouse_id = CASE WHEN NEW.kind IN ('quantity.set', 'quantity.adjust')
                                 AND json_type(NEW.body, '$.warehouse_id') IN ('integer', 'real')
                                 AND json_extract(NEW.body, '$.warehouse_id') BETWEEN -9e15 AND 9e15
                            THEN CAST(json_extract(NEW.body, '$.warehouse_id') AS INTEGER) END
    WHERE id = NEW.id;
    UPDATE outbox
    SET moves = moves + 1,
        (base_quantity, base_ours, base_ms) = (SELECT quantity, ours, observed_ms FROM count_base WHERE id = NEW.id)
    WHERE id = NEW.id AND NEW.kind = 'quantity.set';
END;

CREATE TRIGGER wish_key_unchanging BEFORE UPDATE ON wish_key
BEGIN
    SELECT RAISE(ABORT, 'a key is for ever');
END;
CREATE TRIGGER wish_key_of_a_wish BEFORE INSERT ON wish_key
WHEN NOT EXISTS (SELECT 1 FROM outbox WHERE key = NEW.key)
BEGIN
    SELECT RAISE(ABORT, 'a key is known by its wish: insert into outbox');
END;

-- A pruning is written down first: its event is the journal's last when the row is set.
CREATE TRIGGER pruning_ours BEFORE INSERT ON pruning
WHEN NOT EXISTS (SELECT 1 FROM event e JOIN counter c ON c.position = e.position WHERE e.kind = 'outbox.pruned')
BEGIN
    SELECT RAISE(ABORT, 'settled wishes are pruned by tallyd alone');
END;

-- Every move of a wish: when, to where, why, and the exchange that carried it then. The journal's position of that
-- moment puts it in order with what was said and sent.
CREATE TABLE wish_move (
    wish_id INTEGER NOT NULL REFERENCES outbox (id) ON DELETE CASCADE,
    move INTEGER NOT NULL,
    position INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    state TEXT NOT NULL,
    reason TEXT,
    detail TEXT,
    exchange_id INTEGER,
    PRIMARY KEY (wish_id, move)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER outbox_moved AFTER UPDATE OF state ON outbox WHEN NEW.state IS NOT OLD.state
BEGIN
    INSERT INTO wish_move (wish_id, move, position, at_ms, state, reason, detail, exchange_id)
    SELECT NEW.id, NEW.moves, position, NEW.moved_ms, NEW.state, NEW.reason, NEW.detail, NEW.exchange_id FROM counter;
END;

-- What was said of a wish, by settle or by a person, is found by its key.
CREATE INDEX event_by_subject ON event (subject, position);

-- A wish of which a person said that it had landed was held and is cancelled, but its cell counts it as done.
DROP INDEX outbox_cell_settled;
CREATE INDEX outbox_cell_done ON outbox (sku, warehouse_id, id)
    WHERE (state = 'applied' OR reason = 'landed') AND sku IS NOT NULL;

DROP VIEW open_conflict;
CREATE VIEW open_conflict (key, kind, sku, warehouse_id, mine, theirs, since, what_to_do) AS
SELECT key, kind, sku, warehouse_id, mine, theirs,
       strftime('%Y-%m-%dT%H:%M:%fZ', moved_ms / 1000.0, 'unixepoch'),
       'tallyd outbox resolve '
       || iif(key GLOB '*[^-A-Za-z0-9._:/@+]*', '''' || replace(key, '''', '''\''''') || '''', key)
       || ' --use mine|theirs|N' || coalesce(' (mine is ' || mine || ', theirs ' || theirs || ')', '')
FROM outbox
WHERE state IN ('sending', 'held', 'in_doubt') AND state = 'held' AND reason = 'conflict';

-- A person's word on a count stands above the policy here too.
DROP VIEW stock;
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
