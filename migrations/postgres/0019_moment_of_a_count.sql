-- The moment that a count names, as in migrations/mirror/0014_moment_of_a_count.sql. The triggers of a table fire in the
-- order of their names, so a known key is ignored or refused before.

CREATE TRIGGER outbox_moment_ahead BEFORE INSERT ON outbox FOR EACH ROW
WHEN (NEW.kind = 'quantity.set' AND json_type(NEW.body, '$.counted_at') = 'text'
      AND time_ms(upper(trim(json_extract(NEW.body, '$.counted_at')))) > now_ms() + 60000)
EXECUTE FUNCTION refuse('`counted_at` is more than a minute in the future: insert the moment of the count in UTC, or with its offset (outbox_moment_ahead)');

CREATE TRIGGER outbox_moment_year BEFORE INSERT ON outbox FOR EACH ROW
WHEN (NEW.kind = 'quantity.set' AND json_type(NEW.body, '$.counted_at') = 'text'
      AND time_ms(upper(trim(json_extract(NEW.body, '$.counted_at')))) < 946684800000)
EXECUTE FUNCTION refuse('`counted_at` lies before the year 2000: insert the moment of the count (outbox_moment_year)');
