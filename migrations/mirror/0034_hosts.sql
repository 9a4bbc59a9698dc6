-- One database over several hosts: where and when each session started, by the host's own clock since its boot.

-- Milliseconds since the boot of the session's machine. What another boot sent is quiet from here on: the calendar of
-- another machine measures nothing. NULL: a session from before this file.
ALTER TABLE session ADD COLUMN started_moment INTEGER;
-- The machine, as a salted digest of its id. NULL: it has none, or a session from before this file.
ALTER TABLE session ADD COLUMN host TEXT;
