-- The last pause of each job, by an operator. It is in force until `until_ms`, and no longer once it is resumed: by
-- `tallyd resume`, or by the daemon after `until_ms`.
CREATE TABLE pause (
    job TEXT PRIMARY KEY,
    since_ms INTEGER NOT NULL,
    until_ms INTEGER CONSTRAINT pause_until CHECK (until_ms > since_ms),  -- NULL: until `tallyd resume`
    why TEXT NOT NULL CONSTRAINT pause_why CHECK (why <> ''),
    resumed_ms INTEGER
) STRICT, WITHOUT ROWID;

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

CREATE INDEX notice_unsent ON notice (notifier, id) WHERE sent_ms IS NULL;

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
