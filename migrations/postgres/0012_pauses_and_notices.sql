-- The last pause of each job, by an operator. It is in force until `until_ms`, and no longer once it is resumed: by
-- `tallyd resume`, or by the daemon after `until_ms`.
CREATE TABLE pause (
    job TEXT COLLATE "C" PRIMARY KEY,
    since_ms BIGINT NOT NULL,
    until_ms BIGINT CONSTRAINT pause_until CHECK (until_ms > since_ms),  -- NULL: until `tallyd resume`
    why TEXT COLLATE "C" NOT NULL CONSTRAINT pause_why CHECK (why <> ''),
    resumed_ms BIGINT
);

-- Notices to receivers, one row for each notifier. The id is a position of the journal, so it has no second meaning
-- after a restore. `batch` grows until `due_ms`, and then stays as it is.
CREATE TABLE notice (
    id BIGINT PRIMARY KEY,
    notifier TEXT COLLATE "C" NOT NULL,
    due_ms BIGINT NOT NULL,
    batch TEXT COLLATE "C" NOT NULL CONSTRAINT notice_batch CHECK (json_valid(batch)),
    attempts BIGINT NOT NULL DEFAULT 0 CONSTRAINT notice_attempts CHECK (attempts >= 0),
    next_ms BIGINT NOT NULL,          -- the earliest next attempt
    sent_ms BIGINT,                   -- NULL: not delivered yet
    failure TEXT COLLATE "C"          -- the reason of the last failed attempt
);

CREATE INDEX notice_unsent ON notice (notifier, id) WHERE sent_ms IS NULL;

-- What was told and is not over: findings by code and subject, and changes by state.
CREATE TABLE notice_finding (
    code TEXT COLLATE "C" NOT NULL,
    subject TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (code, subject)
);

CREATE TABLE notice_change (
    change_id BIGINT PRIMARY KEY,
    state TEXT COLLATE "C" NOT NULL,
    topic TEXT COLLATE "C" NOT NULL
);
