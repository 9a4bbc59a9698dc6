-- Snapshots: the facts at a position of the journal, folded, so that what stands before it may be pruned.

CREATE TABLE snapshot (
    position INTEGER PRIMARY KEY,
    taken_ms INTEGER NOT NULL,
    pruned_to INTEGER NOT NULL -- bodies up to this position are gone
        CONSTRAINT snapshot_pruned_to CHECK (pruned_to BETWEEN 0 AND position),
    by_size INTEGER NOT NULL -- bodies went earlier than by their age, because of journal.max_size
        CONSTRAINT snapshot_by_size CHECK (by_size IN (0, 1))
) STRICT;

-- One row a table: its rows as a JSON list of lists, compressed.
CREATE TABLE snapshot_table (
    position INTEGER NOT NULL REFERENCES snapshot (position) ON DELETE CASCADE,
    name TEXT NOT NULL,
    size INTEGER NOT NULL,
    packed BLOB NOT NULL,
    PRIMARY KEY (position, name)
) STRICT, WITHOUT ROWID;

-- Without them each body that goes would cost a scan of all exchanges.
CREATE INDEX exchange_by_request ON exchange (request_body_id) WHERE request_body_id IS NOT NULL;
CREATE INDEX exchange_by_response ON exchange (response_body_id) WHERE response_body_id IS NOT NULL;
