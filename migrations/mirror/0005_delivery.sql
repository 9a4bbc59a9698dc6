-- What a wish that is no quantity was sent with, and what was seen of a wish in doubt afterwards. Quantities keep the
-- fact they were decided on in cell_write.

-- One row for each such wish that was ever claimed; the last claim stands.
CREATE TABLE delivery (
    wish_id INTEGER PRIMARY KEY REFERENCES outbox (id) ON DELETE CASCADE,
    kind TEXT NOT NULL CONSTRAINT delivery_kind CHECK (kind IN (
        'shipment.create', 'tracking.submit', 'product.create', 'product.update', 'warehouse.create',
        'listing_template.create')),
    subject TEXT NOT NULL, -- the order, shipment, SKU or name: one wish of each is under way at a time
    claimed TEXT NOT NULL CONSTRAINT delivery_claimed CHECK (json_valid(claimed)),
    made_id INTEGER        -- the service's id of what it made, once known
        CONSTRAINT delivery_made CHECK (made_id IS NULL OR kind IN (
            'shipment.create', 'product.create', 'warehouse.create', 'listing_template.create'))
) STRICT;
CREATE INDEX delivery_by_made ON delivery (kind, made_id) WHERE made_id IS NOT NULL;

-- Quantities look here, with every call, for products that are about to be made.
CREATE INDEX outbox_products_to_come ON outbox (id)
    WHERE kind = 'product.create' AND state IN ('pending', 'sending', 'in_doubt');

-- A look at the service after a send whose answer is lost. Looks of an earlier claim have earlier exchanges.
CREATE TABLE look (
    wish_id INTEGER NOT NULL REFERENCES outbox (id) ON DELETE CASCADE,
    exchange_id INTEGER NOT NULL,
    sent_ms INTEGER NOT NULL,
    shown TEXT NOT NULL CONSTRAINT look_shown CHECK (json_valid(shown)),
    PRIMARY KEY (wish_id, exchange_id)
) STRICT, WITHOUT ROWID;

-- A person says which shipment a wish in doubt made; settle reads it and takes it if it matches.
CREATE TABLE adoption (
    wish_id INTEGER PRIMARY KEY REFERENCES outbox (id) ON DELETE CASCADE,
    shipment_id INTEGER NOT NULL CONSTRAINT adoption_shipment CHECK (shipment_id > 0)
) STRICT;

-- A person's word on a count in conflict: this many, at the fact of that moment; without a number the count as it is.
CREATE TABLE count_word (
    wish_id INTEGER PRIMARY KEY REFERENCES outbox (id) ON DELETE CASCADE,
    quantity INTEGER CONSTRAINT count_word_quantity CHECK (quantity >= 0),
    base_quantity INTEGER,
    base_ours INTEGER,
    CONSTRAINT count_word_base CHECK (
        (quantity IS NULL) = (base_quantity IS NULL) AND (quantity IS NULL) = (base_ours IS NULL))
) STRICT;
