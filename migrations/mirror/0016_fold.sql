-- Which version of the fold recorded the mirror during a session (rules.md 40): where the next session has another one,
-- the journal before it means something else, and a replay begins behind that seam.
ALTER TABLE session ADD COLUMN fold INTEGER NOT NULL DEFAULT 1 CONSTRAINT session_fold CHECK (fold >= 0);
