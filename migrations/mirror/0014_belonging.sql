-- Whose database this is, and whether it is a copy.

-- The account it belongs to (docs/rules.md 21). The salt is the database's own name too: its copies are told by it.
CREATE TABLE belonging (
    id INTEGER PRIMARY KEY CONSTRAINT belonging_single CHECK (id = 1),
    salt BLOB NOT NULL CONSTRAINT belonging_salt CHECK (length(salt) = 16),
    base_url TEXT,   -- NULL: it never spoke to a service
    key_digest BLOB  -- of salt and integration key; NULL: the key was never seen
        CONSTRAINT belonging_key_digest CHECK (length(key_digest) = 32)
) STRICT;
INSERT INTO belonging (id, salt) VALUES (1, randomblob(16));

-- Stands in copies alone, until a daemon has started on one (docs/rules.md 20).
CREATE TABLE copy_mark (
    id INTEGER PRIMARY KEY CONSTRAINT copy_mark_single CHECK (id = 1),
    made_ms INTEGER NOT NULL,
    position INTEGER NOT NULL
) STRICT;
