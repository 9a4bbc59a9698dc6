-- Refusals by a sentence, as in migrations/mirror/0010_insert_sentences.sql. The triggers of a table fire in the order
-- of their names, so a known key is ignored or refused before its priority is judged.

CREATE TRIGGER outbox_priority_guard BEFORE INSERT ON outbox FOR EACH ROW
WHEN (NEW.priority NOT IN (0, 1))
EXECUTE FUNCTION refuse('the priority is 0, or 1 to go first: insert one of them (outbox_priority)');

CREATE TRIGGER tracked_sku_text_guard BEFORE INSERT ON tracked_sku FOR EACH ROW
WHEN (length(trim(NEW.sku)) = 0)
EXECUTE FUNCTION refuse('a SKU must not be blank: insert the SKU of a product (tracked_sku_text)');

CREATE TRIGGER tracked_order_positive_guard BEFORE INSERT ON tracked_order FOR EACH ROW
WHEN (NEW.order_id <= 0)
EXECUTE FUNCTION refuse('the id of an order is above 0: insert the id of an order at the platform (tracked_order_positive)');
