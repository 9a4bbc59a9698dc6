-- More facts: the lists that are kept and shown, kits, where order lines are taken from, how far shipments are, reports.
-- Rows are written when what the service said changed; what a complete list no longer has is marked, never deleted.

CREATE TABLE supplier (
    id INTEGER PRIMARY KEY,
    name TEXT,
    account_number TEXT,
    is_active INTEGER CONSTRAINT supplier_is_active CHECK (is_active IN (0, 1)),
    url TEXT,
    exchange_id INTEGER NOT NULL,
    missing_since_ms INTEGER
) STRICT;

-- The service lists the active ones: one that is missing may only have been switched off.
CREATE TABLE storefront (
    id INTEGER PRIMARY KEY,
    name TEXT,
    is_active INTEGER CONSTRAINT storefront_is_active CHECK (is_active IN (0, 1)),
    type TEXT,
    properties TEXT CONSTRAINT storefront_properties CHECK (properties IS NULL OR json_valid(properties)),
    exchange_id INTEGER NOT NULL,
    missing_since_ms INTEGER
) STRICT;

CREATE TABLE listing_template (
    id INTEGER PRIMARY KEY,
    storefront_id INTEGER NOT NULL,
    name TEXT,
    body TEXT,
    exchange_id INTEGER NOT NULL,
    missing_since_ms INTEGER
) STRICT;
CREATE INDEX listing_template_by_storefront ON listing_template (storefront_id, id);

-- A kit whose components were read, by the service's product id. That a product is a kit stands in product.type.
CREATE TABLE kit (
    product_id INTEGER PRIMARY KEY,
    exchange_id INTEGER NOT NULL,
    observed_ms INTEGER NOT NULL,
    is_complete INTEGER NOT NULL CONSTRAINT kit_is_complete CHECK (is_complete IN (0, 1))
) STRICT;

CREATE TABLE kit_component (
    kit_id INTEGER NOT NULL,       -- the kit's product id
    component_id INTEGER NOT NULL,
    product_id INTEGER,
    sku TEXT,
    quantity REAL NOT NULL,        -- units of it that one kit takes
    exchange_id INTEGER NOT NULL,
    missing_since_ms INTEGER,
    PRIMARY KEY (kit_id, component_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX product_kit ON product (product_id) WHERE type = 'Kit';

-- A line whose warehouse allocation was asked for; the service may not know the order.
CREATE TABLE allocation_reading (
    order_id INTEGER NOT NULL,
    line_item_id INTEGER NOT NULL,
    exchange_id INTEGER NOT NULL,
    observed_ms INTEGER NOT NULL,
    is_found INTEGER NOT NULL CONSTRAINT allocation_reading_is_found CHECK (is_found IN (0, 1)),
    is_complete INTEGER NOT NULL CONSTRAINT allocation_reading_is_complete CHECK (is_complete IN (0, 1)),
    PRIMARY KEY (order_id, line_item_id),
    CONSTRAINT allocation_reading_nothing CHECK (is_found OR is_complete = 0)
) STRICT, WITHOUT ROWID;

-- What one warehouse gives for a line, for a kit's line what it gives of each component. The service may leave the
-- allocation's own id out, so the place in the answer is the key.
CREATE TABLE order_line_allocation (
    order_id INTEGER NOT NULL,
    line_item_id INTEGER NOT NULL,
    place INTEGER NOT NULL,
    allocation_id INTEGER,
    product_id INTEGER,
    sku TEXT,
    warehouse_id INTEGER NOT NULL,
    quantity INTEGER NOT NULL,
    PRIMARY KEY (order_id, line_item_id, place)
) STRICT, WITHOUT ROWID;
CREATE INDEX order_line_item_by_line ON order_line_item (line_item_id);

ALTER TABLE shipment ADD COLUMN changed_ms INTEGER; -- when an item last said something new
ALTER TABLE shipment_line ADD COLUMN carrier_name TEXT;
ALTER TABLE shipment_line ADD COLUMN estimated_delivery_ms INTEGER;
ALTER TABLE shipment_line ADD COLUMN missing_since_ms INTEGER;
CREATE INDEX shipment_by_order ON shipment (order_id);

DROP VIEW shipment_item;
CREATE VIEW shipment_item (
    shipment_id, item_id, order_id, line_item_id, sku, quantity, is_shipped, is_confirmed, carrier_id,
    tracking_number, tracking_url, observed_at
) AS
SELECT i.shipment_id, i.item_id, s.order_id, i.line_item_id, i.sku, i.quantity, i.is_shipped, i.is_confirmed,
       i.carrier_id, i.tracking_number, i.tracking_url,
       strftime('%Y-%m-%dT%H:%M:%fZ', s.observed_ms / 1000.0, 'unixepoch')
FROM shipment_line i JOIN shipment s ON s.id = i.shipment_id
WHERE i.missing_since_ms IS NULL;

-- How far each shipment is. Without a whole list of its items nobody can say that all of them are on their way.
CREATE VIEW shipment_progress (shipment_id, order_id, is_cancelled, is_shipped, is_confirmed) AS
SELECT s.id, s.order_id, coalesce(lower(s.status) IN ('cancelled', 'c'), 0),
       s.is_complete AND EXISTS (SELECT 1 FROM shipment_item i WHERE i.shipment_id = s.id)
           AND NOT EXISTS (SELECT 1 FROM shipment_item i WHERE i.shipment_id = s.id AND i.is_shipped IS NOT 1),
       s.is_complete AND EXISTS (SELECT 1 FROM shipment_item i WHERE i.shipment_id = s.id)
           AND NOT EXISTS (SELECT 1 FROM shipment_item i WHERE i.shipment_id = s.id AND i.is_confirmed IS NOT 1)
FROM shipment s;

-- What a report says of one month, as JSON: a list of top sellers, or the month's figures. Two reads after the
-- month's end that say the same make it agreed, and it is not asked for again.
CREATE TABLE report_month (
    report TEXT NOT NULL CONSTRAINT report_month_report CHECK (report IN ('top_selling', 'business_health')),
    year INTEGER NOT NULL,
    month INTEGER NOT NULL CONSTRAINT report_month_month CHECK (month BETWEEN 1 AND 12),
    said TEXT NOT NULL CONSTRAINT report_month_said CHECK (json_valid(said)),
    is_agreed INTEGER NOT NULL CONSTRAINT report_month_is_agreed CHECK (is_agreed IN (0, 1)),
    exchange_id INTEGER NOT NULL, -- the last read
    observed_ms INTEGER NOT NULL,
    PRIMARY KEY (report, year, month)
) STRICT, WITHOUT ROWID;

CREATE VIEW top_seller (
    year, month, rank, sku, name, product_id, sales_channel_id, quantity_sold, amount_sold, is_agreed, observed_at
) AS
SELECT m.year, m.month, s.value->>'rank', s.value->>'sku', s.value->>'name', s.value->>'product_id',
       s.value->>'sales_channel_id', s.value->>'quantity_sold', CAST(s.value->>'amount_sold' AS REAL), m.is_agreed,
       strftime('%Y-%m-%dT%H:%M:%fZ', m.observed_ms / 1000.0, 'unixepoch')
FROM report_month m, json_each(m.said) s
WHERE m.report = 'top_selling';

CREATE VIEW business_health (
    year, month, total_revenue, total_cost_of_goods_sold, total_shipping_costs, total_profit,
    total_amount_shipping_collected, total_cost_of_labels_generated, total_value_of_inventory_month_start,
    total_value_of_inventory_month_end, total_number_of_new_listings_added, is_agreed, observed_at
) AS
SELECT year, month, CAST(said->>'total_revenue' AS REAL), CAST(said->>'total_cost_of_goods_sold' AS REAL),
       CAST(said->>'total_shipping_costs' AS REAL), CAST(said->>'total_profit' AS REAL),
       CAST(said->>'total_amount_shipping_collected' AS REAL), CAST(said->>'total_cost_of_labels_generated' AS REAL),
       CAST(said->>'total_value_of_inventory_month_start' AS REAL),
       CAST(said->>'total_value_of_inventory_month_end' AS REAL),
       CAST(said->>'total_number_of_new_listings_added' AS REAL), is_agreed,
       strftime('%Y-%m-%dT%H:%M:%fZ', observed_ms / 1000.0, 'unixepoch')
FROM report_month
WHERE report = 'business_health';
