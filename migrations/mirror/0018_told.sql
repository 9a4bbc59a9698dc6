-- The same answer to the same question again need not even be read: the reading says so.

-- The version of the program that read its exchange's answer, while all its products and their cells hold exactly what
-- that answer said of them and nothing else. No fact: it follows from the exchange.
ALTER TABLE reading ADD COLUMN told_by TEXT;

-- Whatever changes a product or a cell by another way clears the product's digest, and with it this.
CREATE TRIGGER reading_told_no_more AFTER UPDATE OF digest, reading_id ON product
WHEN NEW.digest IS NOT OLD.digest OR NEW.reading_id IS NOT OLD.reading_id
BEGIN
    UPDATE reading SET told_by = NULL WHERE id IN (OLD.reading_id, NEW.reading_id) AND told_by IS NOT NULL;
END;
