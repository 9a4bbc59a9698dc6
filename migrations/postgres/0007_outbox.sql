-- The outbox on a server: its bodies as numbers, and its guards.
--
-- A program's role has INSERT on key, kind, body and priority alone. The guards refuse the writes of a role
-- with more rights, with the sentences of SQLite. They prevent mistakes: the owner may drop the triggers. They refuse
-- with states of the standard, so that a program that catches an integrity error catches theirs. Drivers know a state
-- of our own only as their most general error.
--
-- | state | refusal |
-- |---|---|
-- | 23505 unique_violation | the key names another change |
-- | 22P02 invalid_text_representation | the body is no JSON that the server stores |
-- | 42501 insufficient_privilege | what only tallyd may do: an edit, a deletion, other columns |
-- | 23514 check_violation | all other inserts |
--
-- PostgreSQL fires the triggers of a table in the order of their names. So an update by a program gets the sentence of
-- `outbox_revision_guard` first, and a known key is ignored or refused before its priority or moment is judged.

-- The search_path of the functions below, as in 0006_mirror.sql.
SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', FALSE);

-- The trigger `outbox_insert_guard` assigns the id. A default would hide an id that a program gives, and it
-- would take the value before the lock.
ALTER TABLE outbox ALTER COLUMN id DROP IDENTITY;
CREATE SEQUENCE outbox_id_seq OWNED BY outbox.id;

-- A quantity or a delta that is no number counts as none; SQLite reads the digits at the beginning of a text.
-- The daemon rejects such a change.
CREATE VIEW pending_quantity (id, kind, sku, warehouse_id, counted, delta, base_quantity, base_own_delta) AS
SELECT id, kind, sku, warehouse_id, json_integer(body::JSONB -> 'quantity'), json_integer(body::JSONB -> 'delta'),
       base_quantity, base_own_delta
FROM outbox
WHERE state IN ('pending', 'sending', 'held', 'in_doubt') AND sku IS NOT NULL
  AND state IN ('pending', 'sending') AND warehouse_id IS NOT NULL;

-- The base of a count as of now, for the view `count_base` and for the trigger of the insertion.
CREATE FUNCTION count_base_now(sku TEXT, warehouse_id BIGINT, seen BIGINT)
RETURNS TABLE (quantity BIGINT, own_delta BIGINT, observed_ms BIGINT) LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT coalesce(count_base_now.seen, b.quantity),
           CASE WHEN count_base_now.seen IS NULL OR count_base_now.seen = b.quantity THEN b.own_delta
                ELSE coalesce((SELECT past.own_delta FROM balance_history past
                               WHERE past.product = b.product AND past.warehouse_id = b.warehouse_id
                                 AND past.quantity = count_base_now.seen
                                 AND past.observed_ms >= (SELECT l.at_ms FROM last_restore l)
                               ORDER BY past.position DESC LIMIT 1), b.own_delta) END,
           coalesce(b.fact_ms, r.observed_ms)
    FROM sku_spelling m
    JOIN balance b ON b.product = m.product AND b.warehouse_id = count_base_now.warehouse_id
    JOIN product p ON p.id = b.product
    LEFT JOIN read_batch r ON r.id = p.read_batch_id
    WHERE m.spelling = count_base_now.sku
      AND coalesce(b.fact_exchange_id, r.exchange_id, 1) > (SELECT l.position FROM last_restore l);
END;

CREATE VIEW count_base (id, quantity, own_delta, observed_ms) AS
SELECT o.id, c.quantity, c.own_delta, c.observed_ms
FROM outbox o
CROSS JOIN LATERAL count_base_now(o.sku, o.warehouse_id, json_integer(o.body::JSONB -> 'seen')) c;

-- The time of the insertion is a difference of Julian days without its fraction, up to 1 ms early, as in
-- SQLite.
CREATE VIEW count_base_at_insert (id, quantity, own_delta, known_ms) AS
SELECT change.id, coalesce(change.seen, change.quantity),
       CASE WHEN change.seen IS NULL OR change.seen = change.quantity THEN change.own_delta
            ELSE coalesce((SELECT past.own_delta FROM balance_history past
                           WHERE past.product = change.product AND past.warehouse_id = change.warehouse_id
                             AND past.position <= change.position AND past.quantity = change.seen
                             AND past.observed_ms >= (SELECT l.at_ms FROM last_restore l)
                           ORDER BY past.position DESC LIMIT 1), change.own_delta) END,
       greatest(least(change.observed_ms, change.inserted_ms),
                CASE WHEN change.since_ms < (SELECT l.at_ms FROM last_restore l) THEN change.observed_ms
                     ELSE coalesce(change.since_ms, 0) END)
FROM (SELECT o.id, o.position, b.product, b.warehouse_id,
             CAST(trunc((julianday(coalesce(o.dated_at, o.created_at)) - 2440587.5) * 86400000) AS BIGINT)
                 AS inserted_ms,
             json_integer(o.body::JSONB -> 'seen') AS seen,
             CASE WHEN h.position IS NULL THEN b.quantity ELSE h.quantity END AS quantity,
             CASE WHEN h.position IS NULL THEN b.own_delta ELSE h.own_delta END AS own_delta,
             CASE WHEN h.position IS NULL THEN b.since_ms ELSE h.since_ms END AS since_ms,
             CASE WHEN h.position IS NULL THEN coalesce(b.fact_ms, r.observed_ms) ELSE h.observed_ms END
                 AS observed_ms
      FROM outbox o
      JOIN balance b ON b.product = (SELECT m.product FROM sku_spelling m WHERE m.spelling = o.sku)
                    AND b.warehouse_id = o.warehouse_id
      JOIN product p ON p.id = b.product
      LEFT JOIN read_batch r ON r.id = p.read_batch_id
      LEFT JOIN balance_history h ON h.product = b.product AND h.warehouse_id = b.warehouse_id
           AND h.position = (SELECT min(n.position) FROM balance_history n
                             WHERE n.product = b.product AND n.warehouse_id = b.warehouse_id
                               AND n.position > o.position)) change
WHERE change.observed_ms >= (SELECT l.at_ms FROM last_restore l);

CREATE TRIGGER outbox_update_guard
BEFORE UPDATE OF id, key, kind, body, priority, created_at ON outbox FOR EACH ROW
WHEN (NEW.id IS DISTINCT FROM OLD.id OR NEW.key IS DISTINCT FROM OLD.key
      OR NEW.kind IS DISTINCT FROM OLD.kind OR NEW.body IS DISTINCT FROM OLD.body
      OR NEW.priority IS DISTINCT FROM OLD.priority OR NEW.created_at IS DISTINCT FROM OLD.created_at)
EXECUTE FUNCTION refuse('a change is never edited: cancel it and insert another');

CREATE TRIGGER outbox_transition_guard BEFORE UPDATE OF state ON outbox FOR EACH ROW
WHEN (NEW.state IS DISTINCT FROM OLD.state AND NOT (
    (OLD.state = 'pending' AND NEW.state IN ('sending', 'held', 'rejected', 'cancelled'))
    OR (OLD.state = 'sending' AND NEW.state IN ('applied', 'rejected', 'in_doubt', 'pending'))
    OR (OLD.state = 'held' AND NEW.state IN ('pending', 'rejected', 'cancelled'))
    OR (OLD.state = 'in_doubt' AND NEW.state IN ('applied', 'pending', 'rejected', 'held'))))
EXECUTE FUNCTION refuse('a change cannot make this transition of states');

-- PostgreSQL fires triggers in the order of their names, so an update by a program gets this sentence first.
CREATE TRIGGER outbox_revision_guard BEFORE UPDATE ON outbox FOR EACH ROW
WHEN (NEW.revision IS DISTINCT FROM OLD.revision + 1)
EXECUTE FUNCTION refuse('a change is updated by tallyd only: see tallyd outbox --help');

CREATE FUNCTION outbox_after_transition() RETURNS TRIGGER
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO change_transition (change_id, revision, position, at_ms, state, reason, detail, exchange_id)
    SELECT NEW.id, NEW.revision, s.position, NEW.state_changed_ms, NEW.state, NEW.reason, NEW.detail,
           NEW.exchange_id
    FROM journal_sequence s;
    RETURN NULL;
END
$$;

CREATE TRIGGER outbox_after_transition AFTER UPDATE OF state ON outbox FOR EACH ROW
WHEN (NEW.state IS DISTINCT FROM OLD.state)
EXECUTE FUNCTION outbox_after_transition();

CREATE TRIGGER outbox_delete_guard BEFORE DELETE ON outbox FOR EACH ROW
EXECUTE FUNCTION refuse('a change is never deleted: cancel it');

-- TRUNCATE fires no trigger of a row.
CREATE TRIGGER outbox_truncate_guard BEFORE TRUNCATE ON outbox FOR EACH STATEMENT
EXECUTE FUNCTION refuse('a change is never deleted: cancel it');

-- Sets the columns that two triggers after the insertion set in SQLite, and leaves the same revision: 1, one
-- more for a count, one more for a body over the limit.
CREATE FUNCTION outbox_insert_guard() RETURNS TRIGGER
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    lock_row BIGINT;
    known RECORD;
    content JSONB;
    has_nul BOOLEAN := FALSE;
BEGIN
    -- Before the key is looked up, so that of two programs with one key the second sees the row of the first.
    SELECT s.id INTO STRICT lock_row FROM change_sequence s FOR UPDATE;
    BEGIN
        content := NEW.body::JSONB;
    EXCEPTION
        WHEN untranslatable_character THEN
            has_nul := TRUE;
        WHEN data_exception OR program_limit_exceeded THEN
            NULL;
    END;

    SELECT o.kind, o.body INTO known FROM outbox o WHERE o.key = NEW.key;
    IF FOUND THEN
        -- As jsonb, 5, 5.0 and 5e0 are equal, and neither the order of fields nor blanks matter.
        IF known.kind IS DISTINCT FROM NEW.kind OR content IS NULL OR known.body::JSONB <> content THEN
            RAISE EXCEPTION 'this key already names another change: choose a new key' USING ERRCODE = '23505';
        END IF;
        RETURN NULL;
    END IF;

    IF NEW.id IS NOT NULL THEN
        RAISE EXCEPTION 'tallyd assigns the id of a change: insert key, kind, body and priority only'
            USING ERRCODE = '42501';
    END IF;
    IF NEW.state IS DISTINCT FROM 'pending' OR NEW.reason IS NOT NULL OR NEW.detail IS NOT NULL
       OR NEW.settled_at IS NOT NULL OR NEW.sku IS NOT NULL OR NEW.warehouse_id IS NOT NULL
       OR NEW.base_quantity IS NOT NULL OR NEW.base_own_delta IS NOT NULL OR NEW.base_ms IS NOT NULL
       OR NEW.exchange_id IS NOT NULL OR NEW.created_at IS DISTINCT FROM time_text(now_ms())
       OR NEW.written IS NOT NULL OR NEW.position IS NOT NULL OR NEW.mine IS NOT NULL
       OR NEW.theirs IS NOT NULL OR NEW.state_changed_ms IS NOT NULL OR NEW.revision IS DISTINCT FROM 0
       OR NEW.released_ms IS NOT NULL OR NEW.dated_at IS NOT NULL OR NEW.acknowledged_ms IS NOT NULL THEN
        RAISE EXCEPTION 'a change begins pending: insert key, kind, body and priority only'
            USING ERRCODE = '42501';
    END IF;
    -- The CHECK would refuse these too, with its name alone.
    IF NEW.key = '' THEN
        RAISE EXCEPTION 'a key must not be empty: choose a key (outbox_key_text)'
            USING ERRCODE = '23514', CONSTRAINT = 'outbox_key_text';
    END IF;
    IF has_nul THEN
        RAISE EXCEPTION
            'the body has a character \u0000, which PostgreSQL does not store: remove it (outbox_body_json)'
            USING ERRCODE = '22P02', CONSTRAINT = 'outbox_body_json';
    END IF;
    IF content IS NULL AND NEW.body IS NOT NULL THEN
        RAISE EXCEPTION 'the body is no JSON text: correct it (outbox_body_json)'
            USING ERRCODE = '22P02', CONSTRAINT = 'outbox_body_json';
    END IF;

    NEW.id := nextval('outbox_id_seq');
    NEW.revision := 1;
    SELECT s.position INTO STRICT NEW.position FROM journal_sequence s;
    IF NEW.kind IN ('quantity.set', 'quantity.adjust') THEN
        -- An entry of an index has at most 2704 bytes, and a SKU 256. The daemon rejects a longer one.
        IF jsonb_typeof(content -> 'sku') = 'string' AND octet_length(content ->> 'sku') <= 1000 THEN
            NEW.sku := content ->> 'sku';
        END IF;
        NEW.warehouse_id := json_integer(content -> 'warehouse_id');
    END IF;
    IF NEW.kind = 'quantity.set' THEN
        NEW.revision := NEW.revision + 1;
        SELECT c.quantity, c.own_delta, c.observed_ms
        INTO NEW.base_quantity, NEW.base_own_delta, NEW.base_ms
        FROM count_base_now(NEW.sku, NEW.warehouse_id, json_integer(content -> 'seen')) c;
    END IF;
    IF octet_length(NEW.body) > 262144 THEN
        NEW.revision := NEW.revision + 1;
        NEW.state := 'rejected';
        NEW.reason := 'bad_body';
        NEW.detail := 'the body is ' || octet_length(NEW.body)
            || ' bytes long; at most 262144 are taken, make it shorter';
        NEW.settled_at := time_text(now_ms());
        NEW.state_changed_ms := now_ms();
    END IF;
    RETURN NEW;
END
$$;

CREATE TRIGGER outbox_insert_guard BEFORE INSERT ON outbox FOR EACH ROW
EXECUTE FUNCTION outbox_insert_guard();

-- The transition of a body over the limit has revision 1, as in SQLite.
CREATE FUNCTION outbox_after_insert() RETURNS TRIGGER
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO change_transition (change_id, revision, position, at_ms, state, reason, detail)
    VALUES (NEW.id, 1, NEW.position, NEW.state_changed_ms, NEW.state, NEW.reason, NEW.detail);
    RETURN NULL;
END
$$;

CREATE TRIGGER outbox_after_insert AFTER INSERT ON outbox FOR EACH ROW
WHEN (NEW.state <> 'pending')
EXECUTE FUNCTION outbox_after_insert();

REVOKE ALL ON FUNCTION outbox_insert_guard(), outbox_after_insert() FROM PUBLIC;

CREATE TRIGGER outbox_notify AFTER INSERT ON outbox FOR EACH STATEMENT
EXECUTE FUNCTION notify_daemon();

CREATE TRIGGER outbox_key_limit BEFORE INSERT ON outbox FOR EACH ROW
WHEN (octet_length(NEW.key) > 1000 OR octet_length(NEW.kind) > 1000)
EXECUTE FUNCTION refuse('a key and a kind have at most 1000 bytes: choose a shorter key');

-- A program is named by the role of its login, `role:NAME`. The name replaces any that the program gives.
CREATE FUNCTION outbox_inserted_by() RETURNS TRIGGER LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    NEW.inserted_by := 'role:' || session_user;
    RETURN NEW;
END
$$;

CREATE TRIGGER outbox_inserted_by BEFORE INSERT ON outbox FOR EACH ROW EXECUTE FUNCTION outbox_inserted_by();

REVOKE ALL ON FUNCTION outbox_inserted_by() FROM PUBLIC;

CREATE TRIGGER outbox_priority_guard BEFORE INSERT ON outbox FOR EACH ROW
WHEN (NEW.priority NOT IN (0, 1))
EXECUTE FUNCTION refuse('the priority is 0, or 1 to go first: insert one of them (outbox_priority)');

CREATE TRIGGER outbox_moment_ahead BEFORE INSERT ON outbox FOR EACH ROW
WHEN (NEW.kind = 'quantity.set' AND json_type(NEW.body, '$.counted_at') = 'text'
      AND time_ms(upper(trim(json_extract(NEW.body, '$.counted_at')))) > now_ms() + 60000)
EXECUTE FUNCTION refuse('`counted_at` is more than a minute in the future: insert the moment of the count in UTC, or with its offset (outbox_moment_ahead)');

CREATE TRIGGER outbox_moment_year BEFORE INSERT ON outbox FOR EACH ROW
WHEN (NEW.kind = 'quantity.set' AND json_type(NEW.body, '$.counted_at') = 'text'
      AND time_ms(upper(trim(json_extract(NEW.body, '$.counted_at')))) < 946684800000)
EXECUTE FUNCTION refuse('`counted_at` lies before the year 2000: insert the moment of the count (outbox_moment_year)');

-- By its name it fires after `outbox_insert_guard`, which sets id, position and base and refuses what is no change.
-- That trigger also locks `change_sequence`, as `rollback_hold` does: no insertion misses a hold.
CREATE FUNCTION outbox_restored_hold() RETURNS TRIGGER
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    trip BIGINT;
BEGIN
    IF NEW.state <> 'pending' OR NEW.kind = 'product.update'
       OR (NEW.kind = 'quantity.set' AND NOT coalesce(
               jsonb_typeof(NEW.body::JSONB) = 'object' AND NEW.body::JSONB ?| ARRAY['seen', 'counted_at'], FALSE)) THEN
        RETURN NEW;
    END IF;
    SELECT max(t.id) INTO trip FROM brake_trip t
    WHERE t.restored_position IS NOT NULL AND t.released_ms IS NULL;
    IF trip IS NOT NULL THEN
        INSERT INTO brake_trip_change (trip_id, change_id) VALUES (trip, NEW.id);
        NEW.revision := NEW.revision + 1;
        NEW.state := 'held';
        NEW.reason := 'restored';
        NEW.detail := 'inserted after the database was restored, so it may have been sent before and be lost from the '
            || 'database: look at the platform, then `tallyd outbox release` or `tallyd outbox cancel` it';
        NEW.state_changed_ms := now_ms();
    END IF;
    RETURN NEW;
END
$$;

CREATE TRIGGER outbox_restored_hold BEFORE INSERT ON outbox FOR EACH ROW
EXECUTE FUNCTION outbox_restored_hold();

REVOKE ALL ON FUNCTION outbox_restored_hold() FROM PUBLIC;
