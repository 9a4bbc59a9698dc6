-- An accepted answer that was not taken for fact: unreadable, empty where much was known, or only a probe. A replay
-- leaves it out too.
ALTER TABLE exchange ADD COLUMN set_aside INTEGER NOT NULL DEFAULT 0
    CONSTRAINT exchange_set_aside CHECK (set_aside IN (0, 1));
