-- Brakes: a trip with its numbers and the frozen list of the wishes it holds, and their single release.

ALTER TABLE outbox ADD COLUMN released_ms INTEGER; -- a person let it go: it trips no brake again

CREATE TRIGGER outbox_door_released BEFORE INSERT ON outbox WHEN NEW.released_ms IS NOT NULL
BEGIN
    SELECT RAISE(ABORT, 'a wish begins pending: insert key, kind, body and priority only');
END;

CREATE TABLE brake_trip (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at_ms INTEGER NOT NULL,
    what TEXT NOT NULL,   -- the numbers, in a sentence
    released_ms INTEGER CONSTRAINT brake_trip_released CHECK (released_ms >= at_ms)
) STRICT;
CREATE TABLE brake_trip_wish (
    trip_id INTEGER NOT NULL REFERENCES brake_trip (id),
    wish_id INTEGER NOT NULL,
    PRIMARY KEY (trip_id, wish_id)
) STRICT, WITHOUT ROWID;
