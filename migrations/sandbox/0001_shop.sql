-- The sandbox's shop: what the service keeps for its companies.
--
-- Every table is STRICT and every enumeration is a named CHECK, so that a slip in a handler fails here and
-- not in an answer. Text the document calls a string is NOT NULL with an empty default; only what it calls
-- optional may be NULL. Prices are REAL because the wire's decimals come back as they were sent; nothing is
-- decided on them. Each kind of record counts from a base of its own (the end of this file): an id of one
-- kind used as another's finds nothing instead of finding the wrong record.

CREATE TABLE setting (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE company (
    id                INTEGER PRIMARY KEY AUTOINCREMENT,
    name              TEXT    NOT NULL,
    integration_key   TEXT    NOT NULL UNIQUE,
    application_id    TEXT,
    is_subscribed     INTEGER NOT NULL CONSTRAINT company_is_subscribed CHECK (is_subscribed IN (0, 1)),
    multi_warehousing INTEGER NOT NULL CONSTRAINT company_multi_warehousing CHECK (multi_warehousing IN (0, 1)),
    is_default        INTEGER NOT NULL CONSTRAINT company_is_default CHECK (is_default IN (0, 1))
) STRICT;

CREATE UNIQUE INDEX company_one_default ON company (is_default) WHERE is_default = 1;

CREATE TABLE address (
    id                INTEGER PRIMARY KEY AUTOINCREMENT,
    street1           TEXT    NOT NULL DEFAULT '',
    street2           TEXT    NOT NULL DEFAULT '',
    street3           TEXT    NOT NULL DEFAULT '',
    city              TEXT    NOT NULL DEFAULT '',
    state             TEXT    NOT NULL DEFAULT '',
    country           TEXT    NOT NULL DEFAULT '',
    zip_code          TEXT    NOT NULL DEFAULT '',
    urbanization_code TEXT    NOT NULL DEFAULT '',
    is_residential    INTEGER NOT NULL DEFAULT 0 CONSTRAINT address_is_residential CHECK (is_residential IN (0, 1))
) STRICT;

CREATE TABLE contact (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    address_id     INTEGER NOT NULL REFERENCES address (id),
    company_name   TEXT    NOT NULL DEFAULT '',
    full_name      TEXT    NOT NULL DEFAULT '',
    first_name     TEXT    NOT NULL DEFAULT '',
    last_name      TEXT    NOT NULL DEFAULT '',
    email_address  TEXT    NOT NULL DEFAULT '',
    business_phone TEXT    NOT NULL DEFAULT '',
    mobile_phone   TEXT    NOT NULL DEFAULT '',
    fax_number     TEXT    NOT NULL DEFAULT ''
) STRICT;

CREATE TABLE warehouse (
    id                  INTEGER PRIMARY KEY AUTOINCREMENT,
    company_id          INTEGER NOT NULL REFERENCES company (id),
    name                TEXT    NOT NULL CONSTRAINT warehouse_name CHECK (name <> '' AND length(name) <= 100),
    is_active           INTEGER NOT NULL DEFAULT 1 CONSTRAINT warehouse_is_active CHECK (is_active IN (0, 1)),
    account_number      TEXT    NOT NULL DEFAULT '' CONSTRAINT warehouse_account CHECK (length(account_number) <= 255),
    is_system_generated INTEGER NOT NULL DEFAULT 0 CONSTRAINT warehouse_system CHECK (is_system_generated IN (0, 1)),
    is_default          INTEGER NOT NULL DEFAULT 0 CONSTRAINT warehouse_is_default CHECK (is_default IN (0, 1)),
    type                TEXT    NOT NULL DEFAULT 'Standard'
        CONSTRAINT warehouse_type CHECK (type IN ('Standard', 'Dropship', 'FulfillmentCenter')),
    note                TEXT    NOT NULL DEFAULT '',
    contact_id          INTEGER REFERENCES contact (id)
) STRICT;

CREATE INDEX warehouse_of_company ON warehouse (company_id);
CREATE UNIQUE INDEX warehouse_one_default ON warehouse (company_id) WHERE is_default = 1;

CREATE TABLE supplier (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    company_id     INTEGER NOT NULL REFERENCES company (id),
    name           TEXT    NOT NULL,
    account_number TEXT    NOT NULL DEFAULT '',
    is_active      INTEGER NOT NULL DEFAULT 1 CONSTRAINT supplier_is_active CHECK (is_active IN (0, 1)),
    supplier_url   TEXT    NOT NULL DEFAULT ''
) STRICT;

CREATE INDEX supplier_of_company ON supplier (company_id);

CREATE TABLE storefront (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    company_id INTEGER NOT NULL REFERENCES company (id),
    name       TEXT    NOT NULL,
    is_active  INTEGER NOT NULL DEFAULT 1 CONSTRAINT storefront_is_active CHECK (is_active IN (0, 1)),
    type       TEXT    NOT NULL,
    properties TEXT    NOT NULL DEFAULT '{}' CONSTRAINT storefront_properties CHECK (json_valid(properties))
) STRICT;

CREATE INDEX storefront_of_company ON storefront (company_id);

CREATE TABLE listing_template (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    storefront_id INTEGER NOT NULL REFERENCES storefront (id),
    name          TEXT    NOT NULL,
    folded_name   TEXT    NOT NULL, -- in lower case; SQLite itself folds only ASCII
    body          TEXT    NOT NULL
) STRICT;

CREATE INDEX listing_template_of_storefront ON listing_template (storefront_id);

CREATE TABLE product (
    id                     INTEGER PRIMARY KEY AUTOINCREMENT,
    company_id             INTEGER NOT NULL REFERENCES company (id),
    sku                    TEXT    NOT NULL,
    name                   TEXT    NOT NULL,
    type                   TEXT    NOT NULL DEFAULT 'Product'
        CONSTRAINT product_type CHECK (type IN ('Product', 'Kit', 'Built')),
    upc                    TEXT    NOT NULL DEFAULT '',
    ean                    TEXT    NOT NULL DEFAULT '',
    isbn                   TEXT    NOT NULL DEFAULT '',
    gtin                   TEXT    NOT NULL DEFAULT '',
    is_active              INTEGER NOT NULL DEFAULT 1 CONSTRAINT product_is_active CHECK (is_active IN (0, 1)),
    is_auto_sync_enabled   INTEGER NOT NULL DEFAULT 1 CONSTRAINT product_auto_sync CHECK (is_auto_sync_enabled IN (0, 1)),
    is_discontinued        INTEGER NOT NULL DEFAULT 0 CONSTRAINT product_discontinued CHECK (is_discontinued IN (0, 1)),
    is_dropshipped         INTEGER NOT NULL DEFAULT 0 CONSTRAINT product_dropshipped CHECK (is_dropshipped IN (0, 1)),
    is_fire_arm            INTEGER NOT NULL DEFAULT 0 CONSTRAINT product_fire_arm CHECK (is_fire_arm IN (0, 1)),
    is_variation           INTEGER NOT NULL DEFAULT 0 CONSTRAINT product_variation CHECK (is_variation IN (0, 1)),
    is_parent              INTEGER NOT NULL DEFAULT 0 CONSTRAINT product_parent CHECK (is_parent IN (0, 1)),
    sold_as_name           TEXT    NOT NULL DEFAULT '',
    short_description      TEXT    NOT NULL DEFAULT '',
    long_description       TEXT    NOT NULL DEFAULT '',
    price                  REAL    NOT NULL DEFAULT 0,
    condition              TEXT    NOT NULL DEFAULT 'New' CONSTRAINT product_condition CHECK (condition IN ('New', 'Used')),
    supplier_id            INTEGER REFERENCES supplier (id),
    supplier_sku           TEXT    NOT NULL DEFAULT '',
    supplier_price         REAL    NOT NULL DEFAULT 0,
    supplier_out_of_stock  INTEGER NOT NULL DEFAULT 0 CONSTRAINT product_out_of_stock CHECK (supplier_out_of_stock IN (0, 1)),
    supplier_by_case       INTEGER NOT NULL DEFAULT 0 CONSTRAINT product_by_case CHECK (supplier_by_case IN (0, 1)),
    notes                  TEXT    NOT NULL DEFAULT '',
    parent_sku             TEXT    NOT NULL DEFAULT '',
    child_sku              TEXT    NOT NULL DEFAULT '',
    target_inventory_level INTEGER NOT NULL DEFAULT 0,
    average_cost           REAL    NOT NULL DEFAULT 0,
    average_landed_cost    REAL    NOT NULL DEFAULT 0,
    reorder_level          INTEGER NOT NULL DEFAULT 0,
    reserve_level          INTEGER NOT NULL DEFAULT 0,
    CONSTRAINT product_variation_or_parent CHECK (NOT (is_variation = 1 AND is_parent = 1))
) STRICT;

-- A SKU names one product of a company in its exact spelling; the folded index serves the lookup, which takes
-- another spelling when the exact one is unknown.
CREATE UNIQUE INDEX product_sku ON product (company_id, sku);
CREATE INDEX product_sku_folded ON product (company_id, sku COLLATE NOCASE);
CREATE INDEX product_upc ON product (company_id, upc);

CREATE TABLE product_image (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    product_id    INTEGER NOT NULL REFERENCES product (id),
    mime_type     TEXT    NOT NULL DEFAULT '',
    url           TEXT    NOT NULL,
    display_order INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE INDEX product_image_of_product ON product_image (product_id);

-- The links between products and warehouses: the only place where a quantity stands. A kit's link always
-- holds 0 here; what is shown for it follows from its components (view `cell` in src/sandbox/wire.sql).
CREATE TABLE link (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    product_id      INTEGER NOT NULL REFERENCES product (id),
    warehouse_id    INTEGER NOT NULL REFERENCES warehouse (id),
    quantity        INTEGER NOT NULL DEFAULT 0 CONSTRAINT link_quantity CHECK (quantity BETWEEN 0 AND 2147483647),
    aisle           TEXT    NOT NULL DEFAULT '',
    bin             TEXT    NOT NULL DEFAULT '',
    sku             TEXT    NOT NULL,
    is_active       INTEGER NOT NULL DEFAULT 1 CONSTRAINT link_is_active CHECK (is_active IN (0, 1)),
    include_in_sync INTEGER NOT NULL DEFAULT 1 CONSTRAINT link_include_in_sync CHECK (include_in_sync IN (0, 1)),
    CONSTRAINT link_once UNIQUE (product_id, warehouse_id)
) STRICT;

CREATE TABLE kit_component (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    kit_id       INTEGER NOT NULL REFERENCES product (id),
    component_id INTEGER NOT NULL REFERENCES product (id),
    quantity     INTEGER NOT NULL CONSTRAINT kit_component_quantity CHECK (quantity > 0),
    CONSTRAINT kit_component_once UNIQUE (kit_id, component_id)
) STRICT;

CREATE TABLE sales_order (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    company_id    INTEGER NOT NULL REFERENCES company (id),
    storefront_id INTEGER REFERENCES storefront (id),
    state         TEXT    NOT NULL
        CONSTRAINT sales_order_state CHECK (state IN ('AwaitingPayment', 'InProcess', 'ReadyToShip', 'Cancelled')),
    placed_at_ms  INTEGER NOT NULL,
    contact_id    INTEGER NOT NULL REFERENCES contact (id)
) STRICT;

CREATE INDEX sales_order_of_company ON sales_order (company_id);

CREATE TABLE order_line (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    order_id     INTEGER NOT NULL REFERENCES sales_order (id),
    product_id   INTEGER NOT NULL REFERENCES product (id),
    warehouse_id INTEGER NOT NULL REFERENCES warehouse (id),
    quantity     INTEGER NOT NULL CONSTRAINT order_line_quantity CHECK (quantity > 0),
    unit_price   REAL    NOT NULL
) STRICT;

CREATE INDEX order_line_of_order ON order_line (order_id);

-- What an order line took from where: for a kit its components, never the kit.
CREATE TABLE allocation (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    line_id      INTEGER NOT NULL REFERENCES order_line (id),
    product_id   INTEGER NOT NULL REFERENCES product (id),
    warehouse_id INTEGER NOT NULL REFERENCES warehouse (id),
    quantity     INTEGER NOT NULL CONSTRAINT allocation_quantity CHECK (quantity > 0)
) STRICT;

CREATE INDEX allocation_of_line ON allocation (line_id);

CREATE TABLE shipment (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    order_id      INTEGER NOT NULL REFERENCES sales_order (id),
    warehouse_id  INTEGER NOT NULL REFERENCES warehouse (id),
    is_cancelled  INTEGER NOT NULL DEFAULT 0 CONSTRAINT shipment_is_cancelled CHECK (is_cancelled IN (0, 1)),
    created_at_ms INTEGER NOT NULL,
    shipped_at_ms INTEGER
) STRICT;

CREATE INDEX shipment_of_order ON shipment (order_id);

CREATE TABLE shipment_item (
    id                       INTEGER PRIMARY KEY AUTOINCREMENT,
    shipment_id              INTEGER NOT NULL REFERENCES shipment (id),
    line_id                  INTEGER NOT NULL REFERENCES order_line (id),
    quantity                 INTEGER NOT NULL CONSTRAINT shipment_item_quantity CHECK (quantity > 0),
    is_shipped               INTEGER NOT NULL DEFAULT 0 CONSTRAINT shipment_item_is_shipped CHECK (is_shipped IN (0, 1)),
    carrier_id               INTEGER,
    tracking_number          TEXT,
    tracking_url             TEXT,
    estimated_delivery_at_ms INTEGER,
    CONSTRAINT shipment_item_shipped_has_number CHECK (is_shipped = 0 OR tracking_number IS NOT NULL)
) STRICT;

CREATE INDEX shipment_item_of_shipment ON shipment_item (shipment_id);
CREATE INDEX shipment_item_of_line ON shipment_item (line_id);

-- What was sold in a month through a storefront, for the top sellers.
CREATE TABLE sale (
    storefront_id INTEGER NOT NULL REFERENCES storefront (id),
    product_id    INTEGER NOT NULL REFERENCES product (id),
    year          INTEGER NOT NULL,
    month         INTEGER NOT NULL CONSTRAINT sale_month CHECK (month BETWEEN 1 AND 12),
    quantity      INTEGER NOT NULL,
    amount        REAL    NOT NULL,
    PRIMARY KEY (year, month, storefront_id, product_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE business_month (
    company_id            INTEGER NOT NULL REFERENCES company (id),
    year                  INTEGER NOT NULL,
    month                 INTEGER NOT NULL CONSTRAINT business_month_month CHECK (month BETWEEN 1 AND 12),
    revenue               REAL    NOT NULL,
    cost_of_goods_sold    REAL    NOT NULL,
    shipping_costs        REAL    NOT NULL,
    profit                REAL    NOT NULL,
    shipping_collected    REAL    NOT NULL,
    cost_of_labels        REAL    NOT NULL,
    inventory_month_start REAL    NOT NULL,
    inventory_month_end   REAL    NOT NULL,
    new_listings          REAL    NOT NULL,
    PRIMARY KEY (company_id, year, month)
) STRICT, WITHOUT ROWID;

INSERT INTO sqlite_sequence (name, seq) VALUES
    ('company', 4100), ('address', 910000), ('contact', 720000), ('warehouse', 5200), ('supplier', 6300),
    ('storefront', 7400), ('listing_template', 8500), ('product', 100000), ('product_image', 3000000), ('link', 20000000),
    ('kit_component', 640000), ('sales_order', 40000000), ('order_line', 50000000), ('allocation', 60000000),
    ('shipment', 70000000), ('shipment_item', 80000000);
