-- The page lists the SKUs that the platform does not return, in the order of their case keys, without a scan of all
-- products. The index holds only these few.

CREATE INDEX product_missing ON product (case_key, sku) WHERE missing_since_ms IS NOT NULL;
