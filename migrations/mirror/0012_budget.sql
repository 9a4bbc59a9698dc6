-- The budget: requests of commands beside the daemon, what was spent when, and what adaptive reading remembers.

-- What a program beside the daemon wants asked of the service, now: only the holder of the lock calls the service, so
-- that every call is counted in one place. The asker waits for the answer, takes it and removes the row.
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
CREATE INDEX request_waiting ON request (id) WHERE answered_at IS NULL;

-- What was spent when, by lane and operation: `status` and `check` look at the last hour of a journal of years.
CREATE INDEX exchange_by_time ON exchange (sent_ms, lane, operation, status);

-- How many SKUs a balances call takes, as far as that was proved; `configured` is where it started from.
CREATE TABLE page_size (
    id INTEGER PRIMARY KEY CONSTRAINT page_size_single CHECK (id = 1),
    configured INTEGER NOT NULL CONSTRAINT page_size_configured CHECK (configured > 0),
    size INTEGER NOT NULL CONSTRAINT page_size_size CHECK (size > 0)
) STRICT;

-- What moved last is found from the end.
CREATE INDEX balance_past_by_position ON balance_past (position);
