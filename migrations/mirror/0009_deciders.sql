-- The person behind each decision and each inserted change, and the units that others took while a change waited.

-- `user:NAME` is an account of the host, `token:NAME` a token of the page. NULL: the daemon, or unknown.
ALTER TABLE event ADD COLUMN decided_by TEXT;

-- The same of an insertion. A program that inserts into a file has no name.
ALTER TABLE outbox ADD COLUMN inserted_by TEXT;

CREATE TRIGGER outbox_inserted_by BEFORE INSERT ON outbox WHEN NEW.inserted_by IS NOT NULL
BEGIN
    SELECT RAISE(ABORT, 'a change begins pending: insert key, kind, body and priority only');
END;

-- Units that others took from a stock level after a change of ours was inserted and before it took effect: a row for
-- each pair of `balance_history` that such a fall replaced (docs/reconciliation.md, *Units at risk*). The rows follow
-- from the history and the changes, and are no facts.
CREATE TABLE units_taken (
    product INTEGER NOT NULL,
    warehouse_id INTEGER NOT NULL,
    position INTEGER NOT NULL, -- `balance_history.position` of the pair before the fall
    seen_ms INTEGER NOT NULL,  -- when the read that showed the fall was sent
    units INTEGER NOT NULL CONSTRAINT units_taken_some CHECK (units > 0),
    PRIMARY KEY (product, warehouse_id, position)
) STRICT, WITHOUT ROWID;

CREATE INDEX units_taken_by_time ON units_taken (seen_ms, product, warehouse_id, units);
