-- The projection version that recorded the mirror during a session (docs/rules.md 40). Where the next session has
-- another one, a replay begins behind that point, because the journal before it would give other facts.
ALTER TABLE session ADD COLUMN fold INTEGER NOT NULL DEFAULT 1 CONSTRAINT session_fold CHECK (fold >= 0);
