-- The journal: every run of a job and every exchange with the service, in order.
-- Times are integer milliseconds since 1970 (…_ms) or since the machine's boot (…_moment); the views show text.
-- Only what SQLite 3.38 knows may stand here: hosts read and insert with their own sqlite3.

-- The one persistent counter. A position orders things; clock times never do.
CREATE TABLE counter (
    id INTEGER PRIMARY KEY CONSTRAINT counter_single CHECK (id = 1),
    position INTEGER NOT NULL
) STRICT;
INSERT INTO counter (id, position) VALUES (1, 0);

-- One row for each start of a holder of the lock.
CREATE TABLE session (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    boot_id TEXT NOT NULL,
    version TEXT NOT NULL,
    started_ms INTEGER NOT NULL,
    ended_ms INTEGER -- NULL: it runs, or it was killed
) STRICT;

CREATE TABLE run (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id INTEGER NOT NULL REFERENCES session (id),
    job TEXT NOT NULL CONSTRAINT run_job CHECK (job IN (
        'balances', 'order_lines', 'shipments', 'warehouses', 'suppliers', 'storefronts', 'listing_templates',
        'kit_components', 'top_selling', 'business_health', 'work_queue', 'push', 'settle', 'prune', 'backup')),
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
CREATE INDEX run_by_job ON run (job, id);
CREATE INDEX run_open ON run (id) WHERE outcome = 'running';

-- A request's or an answer's bytes, compressed, once per distinct content.
CREATE TABLE body (
    id INTEGER PRIMARY KEY,
    digest BLOB NOT NULL CONSTRAINT body_digest UNIQUE CONSTRAINT body_digest_size CHECK (length(digest) = 16),
    size INTEGER NOT NULL,
    packed BLOB NOT NULL
) STRICT;

-- One request and what came of it. The id is the position at which it began, `ended` the one at which it ended.
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
    parked INTEGER NOT NULL DEFAULT 0, -- records of the answer that made no sense
    CONSTRAINT exchange_ended CHECK (
        (ended IS NULL) = (verdict IS NULL) AND (ended IS NULL) = (answered_ms IS NULL)
        AND (ended IS NULL) = (answered_moment IS NULL)),
    CONSTRAINT exchange_order CHECK (ended IS NULL OR ended > id)
) STRICT;
CREATE INDEX exchange_by_run ON exchange (run_id);
CREATE INDEX exchange_by_end ON exchange (ended) WHERE ended IS NOT NULL;
CREATE INDEX exchange_open ON exchange (id) WHERE ended IS NULL;
CREATE INDEX exchange_bad_request ON exchange (answered_ms) WHERE status = 400;

-- A record of an answer that was missing something or made no sense: kept aside, alone, with its exchange.
CREATE TABLE parked (
    exchange_id INTEGER NOT NULL REFERENCES exchange (id),
    record INTEGER NOT NULL, -- its index in the answer
    why TEXT NOT NULL,
    raw TEXT NOT NULL,
    PRIMARY KEY (exchange_id, record, why)
) STRICT, WITHOUT ROWID;

-- Decisions that change facts or spend trust, written before the change: brakes released, wishes resolved …
CREATE TABLE event (
    position INTEGER PRIMARY KEY,
    at_ms INTEGER NOT NULL,
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    detail TEXT CONSTRAINT event_detail CHECK (detail IS NULL OR json_valid(detail))
) STRICT;

-- What the limiter must not forget: holds, the share left to us, the ledger's stop. One row of its own words.
CREATE TABLE limiter_memory (
    id INTEGER PRIMARY KEY CONSTRAINT limiter_memory_single CHECK (id = 1),
    memory TEXT NOT NULL CONSTRAINT limiter_memory_json CHECK (json_valid(memory))
) STRICT;

-- The state of each kind of job; `interval_ms` is the longest gap its schedule leaves.
CREATE TABLE job_state (
    job TEXT PRIMARY KEY,
    enabled INTEGER NOT NULL CONSTRAINT job_state_enabled CHECK (enabled IN (0, 1)),
    since_ms INTEGER NOT NULL,
    interval_ms INTEGER CONSTRAINT job_state_interval CHECK (interval_ms > 0),
    last_fired_ms INTEGER,
    next_due_ms INTEGER,
    last_good_ms INTEGER,
    last_outcome TEXT CONSTRAINT job_state_outcome CHECK (last_outcome IN ('ok', 'partial', 'failed', 'interrupted'))
) STRICT, WITHOUT ROWID;

CREATE VIEW job_health (job, last_good_at, age_seconds, stale, next_due_at, last_outcome) AS
SELECT job,
       strftime('%Y-%m-%dT%H:%M:%fZ', last_good_ms / 1000.0, 'unixepoch'),
       (now_ms - last_good_ms) / 1000,
       enabled AND interval_ms IS NOT NULL AND now_ms - coalesce(last_good_ms, since_ms) > 2 * interval_ms,
       strftime('%Y-%m-%dT%H:%M:%fZ', next_due_ms / 1000.0, 'unixepoch'),
       last_outcome
FROM job_state, (SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS now_ms)
WHERE enabled;
