-- Control: identity of the database, state of the daemon between starts, and requests of other programs to
-- the daemon.

-- The account the database belongs to (docs/rules.md 13). The salt also identifies the database among its
-- backups.
CREATE TABLE account_binding (
    id INTEGER PRIMARY KEY CONSTRAINT account_binding_single CHECK (id = 1),
    salt BLOB NOT NULL CONSTRAINT account_binding_salt CHECK (length(salt) = 16),
    base_url TEXT,   -- NULL: no call was ever made
    key_digest BLOB  -- of salt and integration key; NULL: the key is not known
        CONSTRAINT account_binding_key_digest CHECK (length(key_digest) = 32)
) STRICT;

-- Marks a backup until a daemon has started on it (docs/rules.md 13).
CREATE TABLE backup_marker (
    id INTEGER PRIMARY KEY CONSTRAINT backup_marker_single CHECK (id = 1),
    made_ms INTEGER NOT NULL,
    position INTEGER NOT NULL
) STRICT;

-- The state of the limiter as JSON: holds, the measured limit, the block after too many bad requests.
CREATE TABLE limiter_state (
    id INTEGER PRIMARY KEY CONSTRAINT limiter_state_single CHECK (id = 1),
    state TEXT NOT NULL CONSTRAINT limiter_state_json CHECK (json_valid(state))
) STRICT;

-- The schedule of each job. `interval_ms` is the longest gap of its schedule.
CREATE TABLE job_state (
    job TEXT PRIMARY KEY,
    enabled BOOLEAN NOT NULL CONSTRAINT job_state_enabled CHECK (enabled IN (FALSE, TRUE)),
    since_ms INTEGER NOT NULL,
    interval_ms INTEGER CONSTRAINT job_state_interval CHECK (interval_ms > 0),
    last_fired_ms INTEGER,
    next_due_ms INTEGER,
    last_good_ms INTEGER,
    last_outcome TEXT
        CONSTRAINT job_state_outcome CHECK (last_outcome IN ('ok', 'partial', 'failed', 'interrupted'))
) STRICT, WITHOUT ROWID;

-- The last pause of each job, by an operator. It is in force until `until_ms`, and no longer once it is resumed: by
-- `tallyd resume`, or by the daemon after `until_ms`.
CREATE TABLE pause (
    job TEXT PRIMARY KEY,
    since_ms INTEGER NOT NULL,
    until_ms INTEGER CONSTRAINT pause_until CHECK (until_ms > since_ms),  -- NULL: until `tallyd resume`
    why TEXT NOT NULL CONSTRAINT pause_why CHECK (why <> ''),
    resumed_ms INTEGER
) STRICT, WITHOUT ROWID;

-- Requests of commands to the daemon. Only the holder of the lock calls the platform, because every call is
-- counted in one place. The command waits for the answer, reads it and deletes the row.
CREATE TABLE request (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL CONSTRAINT request_kind CHECK (kind IN (
        'keys', 'product.find', 'product.components', 'verify', 'job.run')),
    input TEXT NOT NULL CONSTRAINT request_input CHECK (json_valid(input)),
    asked_at TEXT NOT NULL,
    answered_at TEXT,
    answer TEXT CONSTRAINT request_answer CHECK (answer IS NULL OR json_valid(answer)),
    CONSTRAINT request_answered CHECK ((answered_at IS NULL) = (answer IS NULL))
) STRICT;

-- Notices to receivers, one row for each notifier. The id is a position of the journal, so it has no second meaning
-- after a restore. `batch` grows until `due_ms`, and then stays as it is.
CREATE TABLE notice (
    id INTEGER PRIMARY KEY,
    notifier TEXT NOT NULL,
    due_ms INTEGER NOT NULL,
    batch TEXT NOT NULL CONSTRAINT notice_batch CHECK (json_valid(batch)),
    attempts INTEGER NOT NULL DEFAULT 0 CONSTRAINT notice_attempts CHECK (attempts >= 0),
    next_ms INTEGER NOT NULL,  -- the earliest next attempt
    sent_ms INTEGER,           -- NULL: not delivered yet
    failure TEXT               -- the reason of the last failed attempt
) STRICT;

-- What was told and is not over: findings by code and subject, and changes by state.
CREATE TABLE notice_finding (
    code TEXT NOT NULL,
    subject TEXT NOT NULL,
    PRIMARY KEY (code, subject)
) STRICT, WITHOUT ROWID;

CREATE TABLE notice_change (
    change_id INTEGER PRIMARY KEY,
    state TEXT NOT NULL,
    topic TEXT NOT NULL
) STRICT;

CREATE INDEX request_waiting ON request (id) WHERE answered_at IS NULL;
CREATE INDEX notice_unsent ON notice (notifier, id) WHERE sent_ms IS NULL;

CREATE VIEW job_health (job, last_good_at, age_seconds, stale, next_due_at, last_outcome) AS
SELECT job, strftime('%Y-%m-%dT%H:%M:%fZ', last_good_ms / 1000.0, 'unixepoch'),
       (now_ms() - last_good_ms) / 1000,
       enabled AND interval_ms IS NOT NULL AND now_ms() - coalesce(last_good_ms, since_ms) > 2 * interval_ms,
       strftime('%Y-%m-%dT%H:%M:%fZ', next_due_ms / 1000.0, 'unixepoch'), last_outcome
FROM job_state
WHERE enabled;
