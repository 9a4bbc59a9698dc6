-- Refusals by a sentence of the last rows that another program may insert and that a CHECK refuses by its name alone.

-- With a known key, `outbox_insert_guard` ignores or refuses the row.
CREATE TRIGGER outbox_priority_guard BEFORE INSERT ON outbox
WHEN NEW.priority NOT IN (0, 1) AND NOT EXISTS (SELECT 1 FROM change_key WHERE key = NEW.key)
BEGIN
    SELECT RAISE(ABORT, 'the priority is 0, or 1 to go first: insert one of them (outbox_priority)');
END;

CREATE TRIGGER tracked_sku_text_guard BEFORE INSERT ON tracked_sku WHEN length(trim(NEW.sku)) = 0
BEGIN
    SELECT RAISE(ABORT, 'a SKU must not be blank: insert the SKU of a product (tracked_sku_text)');
END;

CREATE TRIGGER tracked_order_positive_guard BEFORE INSERT ON tracked_order WHEN NEW.order_id <= 0
BEGIN
    SELECT RAISE(ABORT, 'the id of an order is above 0: insert the id of an order at the platform (tracked_order_positive)');
END;
