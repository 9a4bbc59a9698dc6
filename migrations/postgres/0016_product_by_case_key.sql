-- Pages of stock follow each other by case key and SKU. With this index the server reads a page of them in order; with
-- one by case key alone it may sort all that follow.
DROP INDEX product_by_case_key;
CREATE INDEX product_by_case_key ON product (case_key, sku);
