-- The journal: every session, run and exchange with the platform, in order, and the snapshots of its
-- projection.
--
-- The files of this folder are the tables, indexes and views of both engines. Each engine puts its own words for
-- types and times in place of these (src/store/engine/migrations.rs). Its own folder has its triggers.
--
-- Times are integer milliseconds since 1970 (…_ms) or since the boot of the machine (…_moment); views show
-- text. No file uses more than SQLite 3.38 knows, because hosts read and insert with their own sqlite3. Two
-- limits of sqlite3 3.40 hold in each file. A correlated subquery with OR over an outer column, and UPDATE …
-- FROM with a correlated join inside a trigger, fail to prepare. A partial index serves a query only if the
-- condition of the index stands word for word in the query.

-- The one persistent counter. Positions order the journal; clock times never do.
CREATE TABLE journal_sequence (
    id INTEGER PRIMARY KEY CONSTRAINT journal_sequence_single CHECK (id = 1),
    position INTEGER NOT NULL
) STRICT;
INSERT INTO journal_sequence (id, position) VALUES (1, 0);

-- One row for each process that held the lock.
CREATE TABLE session (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    boot_id TEXT NOT NULL,
    host TEXT,              -- the machine, as a salted digest of its id; NULL: the machine has no id
    version TEXT NOT NULL,
    -- The version of the projection that recorded the mirror (docs/rules.md 21). Where the next session has
    -- another version, a replay begins after the change.
    projection_version INTEGER NOT NULL DEFAULT 1
        CONSTRAINT session_projection_version CHECK (projection_version >= 0),
    started_ms INTEGER NOT NULL,
    started_moment INTEGER, -- NULL: unknown
    ended_ms INTEGER        -- NULL: the process runs, or it was killed
) STRICT;

CREATE TABLE run (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id INTEGER NOT NULL REFERENCES session (id),
    job TEXT NOT NULL,
    trigger TEXT NOT NULL CONSTRAINT run_trigger CHECK (trigger IN (
        'schedule', 'missed', 'outbox', 'operator', 'once', 'retry')),
    input TEXT CONSTRAINT run_input CHECK (input IS NULL OR json_valid(input)),
    started_ms INTEGER NOT NULL,
    ended_ms INTEGER,
    outcome TEXT NOT NULL DEFAULT 'running' CONSTRAINT run_outcome CHECK (outcome IN (
        'running', 'ok', 'partial', 'failed', 'interrupted')),
    summary TEXT,
    CONSTRAINT run_ended CHECK ((outcome = 'running') = (ended_ms IS NULL))
) STRICT;

-- The bytes of requests and answers, compressed, once per distinct content.
CREATE TABLE body (
    id INTEGER PRIMARY KEY,
    digest BLOB NOT NULL CONSTRAINT body_digest UNIQUE
        CONSTRAINT body_digest_size CHECK (length(digest) = 16),
    size INTEGER NOT NULL,
    packed BLOB NOT NULL
) STRICT;

-- A request and its outcome. `id` is the position at its begin, `ended` the position at its end.
CREATE TABLE exchange (
    id INTEGER PRIMARY KEY,
    run_id INTEGER NOT NULL REFERENCES run (id),
    session_id INTEGER NOT NULL REFERENCES session (id),
    operation TEXT NOT NULL,
    target TEXT NOT NULL, -- path and query
    lane TEXT NOT NULL CONSTRAINT exchange_lane CHECK (lane IN ('probe', 'operator', 'push', 'poll')),
    request_body_id INTEGER REFERENCES body (id),
    sent_ms INTEGER NOT NULL,
    sent_moment INTEGER NOT NULL,
    ended INTEGER,
    answered_ms INTEGER,
    answered_moment INTEGER,
    verdict TEXT CONSTRAINT exchange_verdict CHECK (verdict IN (
        'accepted', 'rejected', 'throttled', 'refused', 'transient', 'not_sent', 'in_doubt', 'interrupted')),
    status INTEGER,
    response_body_id INTEGER REFERENCES body (id),
    message TEXT,
    parked INTEGER NOT NULL DEFAULT 0, -- number of unreadable records in the answer
    -- 1: an accepted answer that was not applied: unreadable, empty where much was known, or only a probe. A
    -- replay does not apply it either.
    is_ignored BOOLEAN NOT NULL DEFAULT FALSE CONSTRAINT exchange_is_ignored CHECK (is_ignored IN (FALSE, TRUE)),
    CONSTRAINT exchange_ended CHECK (
        (ended IS NULL) = (verdict IS NULL) AND (ended IS NULL) = (answered_ms IS NULL)
        AND (ended IS NULL) = (answered_moment IS NULL)),
    CONSTRAINT exchange_order CHECK (ended IS NULL OR ended > id)
) STRICT;

-- A record of an answer that was incomplete or unreadable. It is a fact; the other records of the answer are
-- applied.
CREATE TABLE parked (
    exchange_id INTEGER NOT NULL REFERENCES exchange (id),
    record INTEGER NOT NULL, -- index in the answer
    -- The SKU, or the id of the order, line or shipment, as far as it was readable. Operators find the record at the
    -- platform by it.
    subject TEXT,
    why TEXT NOT NULL,
    raw TEXT NOT NULL,
    PRIMARY KEY (exchange_id, record, why)
) STRICT, WITHOUT ROWID;

-- Decisions that change facts or delivery, written before their effect: brakes released, changes resolved.
CREATE TABLE event (
    position INTEGER PRIMARY KEY,
    at_ms INTEGER NOT NULL,
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    detail TEXT CONSTRAINT event_detail CHECK (detail IS NULL OR json_valid(detail)),
    -- The person: `user:NAME` is an account of the host, `token:NAME` a token of the page. NULL: the daemon, or
    -- unknown.
    decided_by TEXT
) STRICT;

-- The facts at a position of the journal, so that the bodies before it may be pruned.
CREATE TABLE snapshot (
    position INTEGER PRIMARY KEY,
    taken_ms INTEGER NOT NULL,
    pruned_to INTEGER NOT NULL -- bodies up to this position are gone
        CONSTRAINT snapshot_pruned_to CHECK (pruned_to BETWEEN 0 AND position),
    by_size BOOLEAN NOT NULL -- 1: bodies were pruned before their age, because of `journal.max_size`
        CONSTRAINT snapshot_by_size CHECK (by_size IN (FALSE, TRUE))
) STRICT;

-- A table of a snapshot: its rows as a JSON list of lists, compressed. Values stand in the order of the
-- columns, so a later migration adds columns only at the end of a table of facts.
CREATE TABLE snapshot_table (
    position INTEGER NOT NULL REFERENCES snapshot (position) ON DELETE CASCADE,
    name TEXT NOT NULL,
    size INTEGER NOT NULL,
    packed BLOB NOT NULL,
    PRIMARY KEY (position, name)
) STRICT, WITHOUT ROWID;

CREATE INDEX run_by_job ON run (job, id);
CREATE INDEX run_open ON run (id) WHERE outcome = 'running';

CREATE INDEX exchange_by_run ON exchange (run_id);
CREATE INDEX exchange_by_end ON exchange (ended) WHERE ended IS NOT NULL;
CREATE INDEX exchange_open ON exchange (id) WHERE ended IS NULL;
CREATE INDEX exchange_bad_request ON exchange (answered_ms) WHERE status = 400;
-- Without these two, each pruned body costs a scan of all exchanges.
CREATE INDEX exchange_by_request ON exchange (request_body_id) WHERE request_body_id IS NOT NULL;
CREATE INDEX exchange_by_response ON exchange (response_body_id) WHERE response_body_id IS NOT NULL;
-- Calls by time, lane and operation: `status` and `check` read the last hour of a journal of years.
CREATE INDEX exchange_by_time ON exchange (sent_ms, lane, operation, status);

-- Events of a change are found by its key.
CREATE INDEX event_by_subject ON event (subject, position);
