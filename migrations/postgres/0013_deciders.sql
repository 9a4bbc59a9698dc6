-- The person behind each decision and each inserted change, and the units that others took while a change waited;
-- migrations/mirror/0009_deciders.sql describes the columns.

-- The search_path of the function below, as in 0002_journal.sql.
SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', FALSE);

ALTER TABLE event ADD COLUMN decided_by TEXT COLLATE "C";
ALTER TABLE outbox ADD COLUMN inserted_by TEXT COLLATE "C";

-- A program is named by the role of its login, `role:NAME`. The name replaces any that the program gives.
CREATE FUNCTION outbox_inserted_by() RETURNS TRIGGER LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    NEW.inserted_by := 'role:' || session_user;
    RETURN NEW;
END
$$;

CREATE TRIGGER outbox_inserted_by BEFORE INSERT ON outbox FOR EACH ROW EXECUTE FUNCTION outbox_inserted_by();

REVOKE ALL ON FUNCTION outbox_inserted_by() FROM PUBLIC;

CREATE TABLE units_taken (
    product BIGINT NOT NULL,
    warehouse_id BIGINT NOT NULL,
    position BIGINT NOT NULL,
    seen_ms BIGINT NOT NULL,
    units BIGINT NOT NULL CONSTRAINT units_taken_some CHECK (units > 0),
    PRIMARY KEY (product, warehouse_id, position)
);

CREATE INDEX units_taken_by_time ON units_taken (seen_ms, product, warehouse_id, units);
