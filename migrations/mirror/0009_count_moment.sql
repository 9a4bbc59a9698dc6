-- Since when a cell's pair (R, O) is known, so that a count can name the moment it was made (docs/rules.md 3). A pair was
-- seen from since_ms until the fact's time; between two pairs nobody knows. Rows from before this file know no since.

ALTER TABLE balance ADD COLUMN since_ms INTEGER;
ALTER TABLE balance_past ADD COLUMN since_ms INTEGER;

DROP TRIGGER balance_past_kept;
CREATE TRIGGER balance_past_kept AFTER UPDATE OF quantity, ours ON balance
WHEN OLD.quantity IS NOT NEW.quantity OR OLD.ours IS NOT NEW.ours
BEGIN
    INSERT OR REPLACE INTO balance_past (product, warehouse_id, position, quantity, ours, observed_ms, since_ms)
    SELECT OLD.product, OLD.warehouse_id, (SELECT position FROM counter), OLD.quantity, OLD.ours,
           coalesce(OLD.fact_ms, (SELECT r.observed_ms FROM product p JOIN reading r ON r.id = p.reading_id
                                  WHERE p.id = OLD.product)), OLD.since_ms;
END;
