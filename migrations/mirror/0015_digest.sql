-- What balances last said of a product, as a digest of the record. It stands only while the product and all its cells
-- still hold exactly that, so that the same record again need not be written: whatever else changes one of them clears it.
-- No fact: it follows from the record.
ALTER TABLE product ADD COLUMN digest INTEGER;

-- Every page of balances asks whether a write of ours is still to be seen.
CREATE INDEX cell_write_unseen ON cell_write (product) WHERE is_unseen;
