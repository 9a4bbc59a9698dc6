-- The order of locks of programs: `change_sequence` before the rows of tracked_order and order_read_request.
--
-- A program may insert a change and track an order in one transaction, and the write of another order waits for
-- it. Without this trigger that write would hold its own rows already, and both could wait for each other.

-- The search_path of the function below, as in 0002_journal.sql.
SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', FALSE);

CREATE FUNCTION change_sequence_lock() RETURNS TRIGGER
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    lock_row BIGINT;
BEGIN
    SELECT s.id INTO STRICT lock_row FROM change_sequence s FOR UPDATE;
    RETURN NULL;
END
$$;

CREATE TRIGGER tracked_order_lock BEFORE INSERT OR DELETE ON tracked_order FOR EACH STATEMENT
EXECUTE FUNCTION change_sequence_lock();

REVOKE ALL ON FUNCTION change_sequence_lock() FROM PUBLIC;
