-- The moment that a count names is neither to come nor older than any count. A local time that is written as UTC lies
-- hours ahead, and the units sold in them would count as sold before the count.

-- With a known key, `outbox_insert_guard` ignores or refuses the row.
CREATE TRIGGER outbox_moment_ahead BEFORE INSERT ON outbox
WHEN NEW.kind = 'quantity.set' AND json_valid(NEW.body)
     AND NOT EXISTS (SELECT 1 FROM change_key WHERE key = NEW.key)
BEGIN
    SELECT RAISE(ABORT, '`counted_at` is more than a minute in the future: insert the moment of the count in UTC, or with its offset (outbox_moment_ahead)')
    WHERE json_type(NEW.body, '$.counted_at') = 'text'
      AND julianday(upper(trim(json_extract(NEW.body, '$.counted_at')))) > julianday('now') + 60.0 / 86400;
END;

CREATE TRIGGER outbox_moment_year BEFORE INSERT ON outbox
WHEN NEW.kind = 'quantity.set' AND json_valid(NEW.body)
     AND NOT EXISTS (SELECT 1 FROM change_key WHERE key = NEW.key)
BEGIN
    SELECT RAISE(ABORT, '`counted_at` lies before the year 2000: insert the moment of the count (outbox_moment_year)')
    WHERE json_type(NEW.body, '$.counted_at') = 'text'
      AND julianday(upper(trim(json_extract(NEW.body, '$.counted_at')))) < julianday('2000-01-01');
END;
