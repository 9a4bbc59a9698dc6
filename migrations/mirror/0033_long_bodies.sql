-- A body over the limit never waits: each look at what waits may read into its body, and a few dozen of 10 MB would be the
-- host's memory. It is rejected where it comes in, and a program reads why from its row, as for any other body that makes no
-- sense; its own transaction goes through.
CREATE TRIGGER outbox_long AFTER INSERT ON outbox
WHEN length(CAST(NEW.body AS BLOB)) > 262144
BEGIN
    UPDATE outbox
    SET moves = moves + 1, state = 'rejected', reason = 'bad_body',
        detail = 'the body is ' || length(CAST(NEW.body AS BLOB))
                 || ' bytes long; at most 262144 are taken, make it shorter',
        settled_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now'),
        moved_ms = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
    WHERE id = NEW.id;
END;

-- Those that wait since before.
UPDATE outbox
SET moves = moves + 1, state = 'rejected', reason = 'bad_body',
    detail = 'the body is ' || length(CAST(body AS BLOB)) || ' bytes long; at most 262144 are taken, make it shorter',
    settled_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now'),
    moved_ms = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
WHERE state = 'pending' AND length(CAST(body AS BLOB)) > 262144;
