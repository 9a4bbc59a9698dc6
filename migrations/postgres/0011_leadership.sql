-- The daemon that leads: the holder of this session's id calls the platform, and every other stands by. Its write
-- transactions begin with a lock on this row that names the id, so a daemon that was replaced commits nothing more.
-- NULL: no daemon leads. The heartbeat is for standbys, which measure its pauses with a clock of their own.
ALTER TABLE journal_sequence
    ADD COLUMN session_id BIGINT,
    ADD COLUMN heartbeat BIGINT NOT NULL DEFAULT 0,
    ADD COLUMN heartbeat_ms BIGINT NOT NULL DEFAULT 0;

-- Each start to lead. The times are the server's.
CREATE TABLE leadership (
    session_id BIGINT PRIMARY KEY,
    -- Random name of the host's lock file: the daemon that holds this lock replaces a leader of the same name.
    instance_id TEXT COLLATE "C" NOT NULL,
    host_name TEXT COLLATE "C" NOT NULL,
    began_ms BIGINT NOT NULL,
    -- Time from the predecessor's last sign of life, or its orderly end, to the first work of this one.
    takeover_ms BIGINT
);
