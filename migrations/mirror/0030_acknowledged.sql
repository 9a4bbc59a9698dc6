-- A rejected wish is news until a person has said that they know of it: `tallyd outbox acknowledge`.

ALTER TABLE outbox ADD COLUMN acknowledged_ms INTEGER
    CONSTRAINT outbox_acknowledged CHECK (acknowledged_ms IS NULL OR state = 'rejected');

-- Those nobody knows of yet; a look at them costs no walk over the history.
CREATE INDEX outbox_unacknowledged ON outbox (id) WHERE state = 'rejected' AND acknowledged_ms IS NULL;

CREATE TRIGGER outbox_door_acknowledged BEFORE INSERT ON outbox WHEN NEW.acknowledged_ms IS NOT NULL
BEGIN
    SELECT RAISE(ABORT, 'a wish begins pending: insert key, kind, body and priority only');
END;
