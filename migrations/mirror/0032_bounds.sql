-- A key and a kind are read with every look at what waits, so they have a bound. A body has one too, but is only rejected
-- for it: a program learns that from the row, and its own transaction goes through.
CREATE TRIGGER outbox_bounds BEFORE INSERT ON outbox
WHEN length(CAST(NEW.key AS BLOB)) > 1000 OR length(CAST(NEW.kind AS BLOB)) > 1000
BEGIN
    SELECT RAISE(ABORT, 'a key and a kind have at most 1000 bytes: choose a shorter key');
END;
