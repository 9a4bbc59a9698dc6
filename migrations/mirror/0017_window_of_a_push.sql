-- A push plans the outbox window by window. The counts of a stock level, and its changes of one state in a range of ids,
-- are found without a walk over a million others of the same stock level.
DROP INDEX outbox_open_stock_level;
CREATE INDEX outbox_open_stock_level ON outbox (sku, warehouse_id, kind, state, priority, id)
    WHERE state IN ('pending', 'sending', 'held', 'in_doubt') AND sku IS NOT NULL;

-- All changes other than quantities are found without a walk over a backlog of counts.
DROP INDEX outbox_pending_shipments;
CREATE INDEX outbox_pending_deliveries ON outbox (priority DESC, id)
    WHERE state = 'pending' AND kind NOT IN ('quantity.set', 'quantity.adjust');

-- Each page that is read looks for the counts that have no base yet, without a walk over a backlog of adjusts.
CREATE INDEX outbox_pending_counts ON outbox (position) WHERE state = 'pending' AND kind = 'quantity.set';
