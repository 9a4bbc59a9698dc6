-- Delivery of changes that are no quantity, checks of changes in doubt, and the memory of entries that fail.
-- Quantities keep the fact they were decided on in `stock_level_write`.

-- The last claim of each such change that was ever claimed.
CREATE TABLE delivery (
    change_id INTEGER PRIMARY KEY REFERENCES outbox (id),
    kind TEXT NOT NULL CONSTRAINT delivery_kind CHECK (kind IN (
        'shipment.create', 'tracking.submit', 'product.create', 'product.update', 'warehouse.create',
        'listing_template.create')),
    ordering_key TEXT NOT NULL, -- the order, shipment, SKU or name; one change of each is sent at a time
    evidence TEXT NOT NULL CONSTRAINT delivery_evidence CHECK (json_valid(evidence)),
    created_id INTEGER        -- the platform's id of the created record, once known
        CONSTRAINT delivery_created CHECK (created_id IS NULL OR kind IN (
            'shipment.create', 'product.create', 'warehouse.create', 'listing_template.create'))
) STRICT;

-- A check of the platform after a call whose answer was lost. Checks of an earlier claim have smaller
-- exchange ids.
CREATE TABLE in_doubt_check (
    change_id INTEGER NOT NULL REFERENCES outbox (id),
    exchange_id INTEGER NOT NULL,
    sent_ms INTEGER NOT NULL,
    shown TEXT NOT NULL CONSTRAINT in_doubt_check_shown CHECK (json_valid(shown)),
    PRIMARY KEY (change_id, exchange_id)
) STRICT, WITHOUT ROWID;

-- The shipment that an operator names for a change in doubt. `settle` reads it and adopts it if it matches.
CREATE TABLE adoption (
    change_id INTEGER PRIMARY KEY REFERENCES outbox (id),
    shipment_id INTEGER NOT NULL CONSTRAINT adoption_shipment CHECK (shipment_id > 0)
) STRICT;

-- A SKU, order or shipment that makes each call with it fail as a whole. It is retried isolated with growing
-- delays, so that it does not block other entries.
CREATE TABLE quarantine (
    operation TEXT NOT NULL,   -- the operation that fails, by its name at the interface
    subject TEXT NOT NULL,     -- the SKU, order id or shipment id
    since_ms INTEGER NOT NULL,
    tried_ms INTEGER NOT NULL, -- time of the last isolated call
    failures INTEGER NOT NULL CONSTRAINT quarantine_failures CHECK (failures > 0),
    why TEXT NOT NULL,         -- the message of the platform
    PRIMARY KEY (operation, subject)
) STRICT, WITHOUT ROWID;

CREATE INDEX delivery_by_created ON delivery (kind, created_id) WHERE created_id IS NOT NULL;
