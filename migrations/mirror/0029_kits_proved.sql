-- A kit is what an answer about its product says: an allocation only suggests it.

ALTER TABLE product ADD COLUMN type_exchange_id INTEGER; -- the exchange that last said what the product is, or is not
-- The exchange of an allocation in which others were taken for the product, until an answer says whether it is a kit.
ALTER TABLE product ADD COLUMN kit_guess_id INTEGER;
CREATE INDEX product_kit_guess ON product (product_id) WHERE kit_guess_id IS NOT NULL;

ALTER TABLE kit ADD COLUMN empty_ms INTEGER; -- the first of the last answers in a row that named no component
