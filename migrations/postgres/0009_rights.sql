-- The rights of programs on the tables, if the tables and the group of the programs exist. The first start of the daemon
-- and `tallyd schema` use this text, because either may come first. A migration that makes one of these tables or views
-- again grants again.

DO $$
DECLARE
    grants TEXT;
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = current_schema() || '_programs')
       AND to_regclass('outbox') IS NOT NULL THEN
        FOREACH grants IN ARRAY ARRAY[
            'SELECT ON stock, order_line, shipment_item, open_conflict, job_health, outbox, tracked_sku, tracked_order',
            'INSERT (key, kind, body, priority) ON outbox',
            'INSERT (sku), DELETE ON tracked_sku',
            'INSERT (order_id), DELETE ON tracked_order'
        ] LOOP
            EXECUTE format('GRANT %s TO %I', grants, current_schema() || '_programs');
        END LOOP;
    END IF;
END
$$;
