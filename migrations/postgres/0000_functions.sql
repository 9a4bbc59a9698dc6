-- Functions for the other files, and functions of SQLite that the program's statements use.
--
-- The schema of an account is the first one of search_path; no file names it. PostgreSQL binds the body of a
-- function here to its functions and operators at the creation, so no later search_path changes it. These
-- functions have no SET clause and most are not STRICT, because PostgreSQL would not inline them otherwise.
--
-- PostgreSQL 16 and later parse json_array and json_object as syntax of their own: json_array(1, NULL) is [1]
-- there. The statements need json_build_array and json_build_object in their place.

-- Refuses a write with the sentence of the trigger; 0007_outbox.sql lists the states.
CREATE FUNCTION refuse() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING MESSAGE = TG_ARGV[0],
        ERRCODE = CASE TG_OP WHEN 'INSERT' THEN '23514' ELSE '42501' END;
END
$$;

-- Notifies the daemon of a write of another program; the payload is the schema. A commit with a notification
-- takes a lock of the whole server, so no trigger of the daemon's own writes calls this.
CREATE FUNCTION notify_daemon() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('tallyd', TG_TABLE_SCHEMA);
    RETURN NULL;
END
$$;

-- Time of the client's statement in milliseconds since 1970, like SQLite's 'now'.
CREATE FUNCTION now_ms() RETURNS BIGINT LANGUAGE sql STABLE PARALLEL SAFE
RETURN floor(extract(epoch FROM statement_timestamp()) * 1000)::BIGINT;

-- Milliseconds as RFC 3339 text; NULL outside of the years 1 to 9999. The text depends on no setting. The
-- function is STABLE, because PostgreSQL inlines no IMMUTABLE function with a call of to_char.
CREATE FUNCTION time_text(ms BIGINT) RETURNS TEXT LANGUAGE sql STABLE PARALLEL SAFE
RETURN CASE WHEN ms BETWEEN -62135596800000 AND 253402300799999 THEN to_char(
    timestamp '1970-01-01' + ms / 86400000 * interval '1 day' + ms % 86400000 * interval '1 millisecond',
    'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') END;

-- Text as milliseconds; NULL for text that is no date with an optional time and zone. Without a zone it is
-- UTC. EXCEPTION needs a subtransaction, which no parallel query may start: neither this function nor those
-- that call it are PARALLEL SAFE.
CREATE FUNCTION time_ms(written TEXT) RETURNS BIGINT LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
    IF written !~ ('^[0-9]{4}-[0-9]{2}-[0-9]{2}'
                   || '([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]+)?)?(Z|[+-][0-9]{2}:[0-9]{2})?)?$') THEN
        RETURN NULL;
    END IF;
    written := written || CASE WHEN written ~ '(Z|[+-]..:..)$' THEN '' ELSE ' UTC' END;
    RETURN round(extract(epoch FROM written::TIMESTAMPTZ) * 1000);
EXCEPTION WHEN data_exception THEN
    RETURN NULL;
END
$$;

-- The Julian day as SQLite rounds it to a double. Equal doubles lead both engines to equal decisions on the
-- age of a count.
CREATE FUNCTION julianday(written TEXT) RETURNS DOUBLE PRECISION LANGUAGE sql IMMUTABLE
RETURN (time_ms(written) + 210866760000000)::DOUBLE PRECISION / 86400000;

CREATE FUNCTION unixepoch(written TEXT) RETURNS BIGINT LANGUAGE sql IMMUTABLE
RETURN floor(time_ms(written) / 1000.0)::BIGINT;

-- The forms of strftime in the statements and views; NULL for every other form.
CREATE FUNCTION strftime(format TEXT, moment TEXT) RETURNS TEXT LANGUAGE sql STABLE PARALLEL SAFE
RETURN CASE WHEN format = '%Y-%m-%dT%H:%M:%fZ' AND moment = 'now' THEN time_text(now_ms()) END;

CREATE FUNCTION strftime(format TEXT, seconds NUMERIC, modifier TEXT) RETURNS TEXT
LANGUAGE sql STABLE PARALLEL SAFE
RETURN CASE WHEN format = '%Y-%m-%dT%H:%M:%fZ' AND modifier = 'unixepoch'
       THEN time_text(round(seconds * 1000)::BIGINT) END;

CREATE FUNCTION strftime(format TEXT, written TEXT, modifier TEXT) RETURNS TEXT
LANGUAGE sql STABLE
RETURN CASE WHEN format = '%Y-%m-%dT%H:%M:%fZ' AND modifier = '-1 second'
       THEN time_text(time_ms(written) - 1000) END;

-- True if the text is JSON that jsonb holds, so that every later cast succeeds. jsonb refuses \u0000, half a
-- surrogate pair and numbers of more than 131072 digits, which SQLite accepts.
CREATE FUNCTION json_valid(doc TEXT) RETURNS BOOLEAN LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
    RETURN doc::JSONB IS NOT NULL;
EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
    RETURN FALSE;
END
$$;

-- A number as an integer without its fraction; NULL for any other value and for a number beyond 9e15, which
-- is no id and no quantity.
CREATE FUNCTION json_integer(value JSONB) RETURNS BIGINT LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN jsonb_typeof(value) = 'number'
       THEN CASE WHEN value::NUMERIC BETWEEN -9000000000000000 AND 9000000000000000
            THEN trunc(value::NUMERIC)::BIGINT END END;

-- The elements of a list; `atom` is the text of a string, number or boolean. SQLite's function takes objects
-- too, which no statement passes.
CREATE FUNCTION json_each(doc TEXT) RETURNS TABLE (key BIGINT, value JSONB, atom TEXT)
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT e.ordinality - 1, e.value,
           CASE WHEN jsonb_typeof(e.value) NOT IN ('array', 'object') THEN e.value #>> '{}' END
    FROM jsonb_array_elements(doc::JSONB) WITH ORDINALITY e;
END;

-- The elements of the list at the path `$.field`; none if there is another value.
CREATE FUNCTION json_each(doc TEXT, path TEXT) RETURNS TABLE (key BIGINT, value JSONB, atom TEXT)
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT e.ordinality - 1, e.value,
           CASE WHEN jsonb_typeof(e.value) NOT IN ('array', 'object') THEN e.value #>> '{}' END
    FROM jsonb_array_elements(CASE jsonb_typeof(doc::JSONB -> substr(path, 3))
                              WHEN 'array' THEN doc::JSONB -> substr(path, 3) END) WITH ORDINALITY e;
END;

CREATE FUNCTION json_array_length(doc TEXT) RETURNS BIGINT LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN json_array_length(doc::JSON);

-- The value at the path `$.field` as text; in SQLite a number is a number.
CREATE FUNCTION json_extract(doc TEXT, path TEXT) RETURNS TEXT LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN doc::JSONB ->> substr(path, 3);

CREATE FUNCTION json_extract(doc JSONB, path TEXT) RETURNS TEXT LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN doc ->> substr(path, 3);

-- The type of the value at the path `$.field`. A number is always 'integer' and a boolean always 'true',
-- because no statement distinguishes the others.
CREATE FUNCTION json_type(doc TEXT, path TEXT) RETURNS TEXT LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE jsonb_typeof(doc::JSONB -> substr(path, 3))
       WHEN 'string' THEN 'text' WHEN 'number' THEN 'integer' WHEN 'boolean' THEN 'true'
       WHEN 'object' THEN 'object' WHEN 'array' THEN 'array' WHEN 'null' THEN 'null' END;

-- `text ->> 'field'` and `text ->> index`; each evaluation parses the text.
CREATE FUNCTION json_field(doc TEXT, name TEXT) RETURNS TEXT LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN doc::JSONB ->> name;

CREATE FUNCTION json_field(doc TEXT, index INTEGER) RETURNS TEXT LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN doc::JSONB ->> index;

CREATE OPERATOR ->> (LEFTARG = TEXT, RIGHTARG = TEXT, FUNCTION = json_field);
CREATE OPERATOR ->> (LEFTARG = TEXT, RIGHTARG = INTEGER, FUNCTION = json_field);

-- A list of all values, NULLs included; [] without rows.
CREATE FUNCTION json_of_array(list anycompatiblearray) RETURNS JSON
LANGUAGE sql STABLE PARALLEL SAFE AS $$ SELECT array_to_json($1) $$;

CREATE AGGREGATE json_group_array(anycompatible) (
    SFUNC = array_append, STYPE = anycompatiblearray, INITCOND = '{}', FINALFUNC = json_of_array);

-- The texts that are not NULL, separated; NULL without any.
CREATE FUNCTION group_concat_next(list TEXT, item TEXT, separator TEXT) RETURNS TEXT
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN item IS NULL THEN list ELSE coalesce(list || separator, '') || item END;

CREATE AGGREGATE group_concat(TEXT, TEXT) (SFUNC = group_concat_next, STYPE = TEXT);

-- Text as upper-case hexadecimal digits of its bytes, and back. SQLite reads text of other programs that is no
-- UTF-8 by them.
CREATE FUNCTION hex(written TEXT) RETURNS TEXT LANGUAGE sql STABLE PARALLEL SAFE
RETURN upper(encode(convert_to(written, 'UTF8'), 'hex'));

CREATE FUNCTION unhex(digits TEXT) RETURNS TEXT LANGUAGE sql STABLE PARALLEL SAFE
RETURN convert_from(decode(digits, 'hex'), 'UTF8');
