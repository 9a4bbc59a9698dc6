-- The mirror: what the service said (facts), with when, and by which exchange.
-- Changed only by recording an exchange. Keys to other tables are not enforced where a page of thousands of rows
-- is written at once: the recording function writes both sides in one transaction.

-- A set of products that were read by one exchange. A product points to its reading, so that a page in which
-- nothing changed moves one row instead of thousands.
CREATE TABLE reading (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    exchange_id INTEGER NOT NULL,
    observed_ms INTEGER NOT NULL -- when that exchange's request was sent
) STRICT;
CREATE INDEX reading_by_exchange ON reading (exchange_id, id);

-- Every SKU the service was asked for, in the service's spelling where it knows it.
CREATE TABLE product (
    id INTEGER PRIMARY KEY,
    sku TEXT NOT NULL CONSTRAINT product_sku UNIQUE,
    sku_fold TEXT NOT NULL,
    product_id INTEGER,  -- NULL: the service never returned it
    name TEXT,
    upc TEXT,
    type TEXT,           -- NULL: not said yet
    total INTEGER,       -- the product's own QuantityOnHand; never a cell's fact
    reading_id INTEGER,  -- NULL: met on the way, never asked for
    alias_of INTEGER,    -- the product whose spelling the service uses for this one
    absent INTEGER NOT NULL DEFAULT 0,  -- answers in a row that did not return it
    missing_since_ms INTEGER
) STRICT;
CREATE INDEX product_by_fold ON product (sku_fold);
CREATE INDEX product_by_reading ON product (reading_id, sku);

-- One row a cell: R is `quantity`, O is `ours`, the sum over our settled writes of (written - fact used).
CREATE TABLE balance (
    product INTEGER NOT NULL,
    warehouse_id INTEGER NOT NULL,
    quantity INTEGER NOT NULL,
    ours INTEGER NOT NULL DEFAULT 0,
    warehouse_sku TEXT,
    is_active INTEGER CONSTRAINT balance_is_active CHECK (is_active IN (0, 1)),
    include_in_sync INTEGER CONSTRAINT balance_include_in_sync CHECK (include_in_sync IN (0, 1)),
    fact_exchange_id INTEGER, -- the exchange of the fact where it is not the product's reading
    fact_ms INTEGER,          -- and when its request was sent
    vanished_ms INTEGER,      -- the service no longer links the product to the warehouse
    PRIMARY KEY (product, warehouse_id),
    CONSTRAINT balance_fact CHECK ((fact_exchange_id IS NULL) = (fact_ms IS NULL))
) STRICT, WITHOUT ROWID;

-- The facts a cell had before, newest last: a count may have been made against one of them.
CREATE TABLE balance_past (
    product INTEGER NOT NULL,
    warehouse_id INTEGER NOT NULL,
    position INTEGER NOT NULL, -- until here
    quantity INTEGER NOT NULL,
    ours INTEGER NOT NULL,
    observed_ms INTEGER,
    PRIMARY KEY (product, warehouse_id, position)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER balance_past_kept AFTER UPDATE OF quantity, ours ON balance
WHEN OLD.quantity IS NOT NEW.quantity OR OLD.ours IS NOT NEW.ours
BEGIN
    INSERT OR REPLACE INTO balance_past (product, warehouse_id, position, quantity, ours, observed_ms)
    SELECT OLD.product, OLD.warehouse_id, (SELECT position FROM counter), OLD.quantity, OLD.ours,
           coalesce(OLD.fact_ms, (SELECT r.observed_ms FROM product p JOIN reading r ON r.id = p.reading_id
                                  WHERE p.id = OLD.product));
END;

-- The last write of a cell. While it is open (claim to conclusion), and for requests sent before it was answered,
-- what a read says of the cell is no fact.
CREATE TABLE cell_write (
    product INTEGER NOT NULL,
    warehouse_id INTEGER NOT NULL,
    exchange_id INTEGER NOT NULL, -- the position of the claim
    before INTEGER,               -- the fact it was decided on
    written INTEGER NOT NULL,
    ended INTEGER,                -- the position of the conclusion
    PRIMARY KEY (product, warehouse_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX cell_write_open ON cell_write (exchange_id) WHERE ended IS NULL;
CREATE INDEX cell_write_ended ON cell_write (ended) WHERE ended IS NOT NULL;

CREATE TABLE warehouse (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    is_active INTEGER CONSTRAINT warehouse_is_active CHECK (is_active IN (0, 1)),
    account_number TEXT,
    is_system_generated INTEGER,
    type TEXT,
    contact TEXT CONSTRAINT warehouse_contact CHECK (contact IS NULL OR json_valid(contact)),
    exchange_id INTEGER NOT NULL,
    missing_since_ms INTEGER
) STRICT;

-- A tracked order as the service last described it.
CREATE TABLE sales_order (
    id INTEGER PRIMARY KEY,
    exchange_id INTEGER NOT NULL,
    observed_ms INTEGER NOT NULL,
    changed_ms INTEGER NOT NULL,   -- when a line last said something new
    is_complete INTEGER NOT NULL CONSTRAINT sales_order_is_complete CHECK (is_complete IN (0, 1)),
    closed_ms INTEGER              -- nothing is left to ship
) STRICT;
CREATE INDEX sales_order_open ON sales_order (exchange_id) WHERE closed_ms IS NULL;

CREATE TABLE order_line_item (
    order_id INTEGER NOT NULL,
    line_item_id INTEGER NOT NULL,
    sku TEXT,
    product_id INTEGER,
    product_name TEXT,
    quantity_sold INTEGER NOT NULL,
    quantity_left INTEGER,         -- NULL: the service did not say
    unit_price REAL,               -- shown, never computed with
    warehouse_id INTEGER,
    supplier_id INTEGER,
    exchange_id INTEGER NOT NULL,
    missing_since_ms INTEGER,
    PRIMARY KEY (order_id, line_item_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE shipment (
    id INTEGER PRIMARY KEY,
    order_id INTEGER,
    number TEXT,
    status TEXT,
    warehouse_id INTEGER,
    exchange_id INTEGER NOT NULL,
    observed_ms INTEGER NOT NULL,
    is_complete INTEGER NOT NULL CONSTRAINT shipment_is_complete CHECK (is_complete IN (0, 1))
) STRICT;

CREATE TABLE shipment_line (
    shipment_id INTEGER NOT NULL,
    item_id INTEGER NOT NULL,
    line_item_id INTEGER,
    sku TEXT,
    product_id INTEGER,
    quantity INTEGER NOT NULL,
    is_shipped INTEGER CONSTRAINT shipment_line_is_shipped CHECK (is_shipped IN (0, 1)),
    is_confirmed INTEGER CONSTRAINT shipment_line_is_confirmed CHECK (is_confirmed IN (0, 1)),
    carrier_id INTEGER,
    tracking_number TEXT,
    tracking_url TEXT,
    exchange_id INTEGER NOT NULL,
    PRIMARY KEY (shipment_id, item_id)
) STRICT, WITHOUT ROWID;

-- The work queue's counts as a time series: a row only when a count moved.
CREATE TABLE work_queue (
    exchange_id INTEGER PRIMARY KEY,
    observed_ms INTEGER NOT NULL,
    new_purchase_orders INTEGER,
    submitted_purchase_orders INTEGER,
    partially_received_purchase_orders INTEGER,
    open_work_orders INTEGER,
    awaiting_payment_sales_orders INTEGER,
    paid_in_process_sales_orders INTEGER,
    cancelled_sales_orders INTEGER,
    paid_ready_to_ship_sales_orders INTEGER,
    low_inventory_products INTEGER,
    unshipped_sales_orders INTEGER,
    unshipped_drop_ship_orders INTEGER,
    queued_listings INTEGER
) STRICT;

-- What is tracked: (added or learnt) and not removed. Insert to track, delete to forget.
CREATE TABLE tracked_sku (
    sku TEXT PRIMARY KEY ON CONFLICT IGNORE CONSTRAINT tracked_sku_text CHECK (length(trim(sku)) > 0),
    origin TEXT NOT NULL DEFAULT 'added' CONSTRAINT tracked_sku_origin CHECK (origin IN ('added', 'learnt'))
) STRICT, WITHOUT ROWID;
CREATE TABLE removed_sku (sku TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
-- Learnt from order lines, allocations, kits, top sellers and created products: a fact, unlike the list above.
CREATE TABLE learnt_sku (
    sku TEXT PRIMARY KEY ON CONFLICT IGNORE,
    exchange_id INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TRIGGER tracked_sku_added AFTER INSERT ON tracked_sku WHEN NEW.origin = 'added'
BEGIN
    DELETE FROM removed_sku WHERE sku = NEW.sku;
END;
CREATE TRIGGER tracked_sku_removed AFTER DELETE ON tracked_sku
BEGIN
    INSERT OR IGNORE INTO removed_sku (sku) VALUES (OLD.sku);
END;
CREATE TRIGGER learnt_sku_tracked AFTER INSERT ON learnt_sku
WHEN NOT EXISTS (SELECT 1 FROM removed_sku WHERE sku = NEW.sku)
BEGIN
    INSERT INTO tracked_sku (sku, origin) VALUES (NEW.sku, 'learnt');
END;

CREATE TABLE tracked_order (
    order_id INTEGER PRIMARY KEY ON CONFLICT IGNORE CONSTRAINT tracked_order_positive CHECK (order_id > 0)
) STRICT;

CREATE VIEW order_line (
    order_id, line_item_id, sku, product_id, quantity_sold, quantity_left, unit_price, warehouse_id, observed_at
) AS
SELECT l.order_id, l.line_item_id, l.sku, l.product_id, l.quantity_sold, l.quantity_left, l.unit_price,
       l.warehouse_id, strftime('%Y-%m-%dT%H:%M:%fZ', o.observed_ms / 1000.0, 'unixepoch')
FROM order_line_item l JOIN sales_order o ON o.id = l.order_id
WHERE l.missing_since_ms IS NULL;

CREATE VIEW shipment_item (
    shipment_id, item_id, order_id, line_item_id, sku, quantity, is_shipped, is_confirmed, carrier_id,
    tracking_number, tracking_url, observed_at
) AS
SELECT i.shipment_id, i.item_id, s.order_id, i.line_item_id, i.sku, i.quantity, i.is_shipped, i.is_confirmed,
       i.carrier_id, i.tracking_number, i.tracking_url,
       strftime('%Y-%m-%dT%H:%M:%fZ', s.observed_ms / 1000.0, 'unixepoch')
FROM shipment_line i JOIN shipment s ON s.id = i.shipment_id;
