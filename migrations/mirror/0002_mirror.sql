-- The mirror: the facts, each with its time and its exchange, and the lists of what is tracked.
--
-- A fact is a value from an answer of the platform, or a value that the platform accepted from us. Only the
-- recording of an exchange changes facts. Foreign keys between these tables are not enforced, because a page
-- of thousands of rows is written at once; the recording function writes both sides in one transaction.

-- The products that one exchange read. A product points to its row, so that a page without changes updates
-- one row instead of thousands.
CREATE TABLE read_batch (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    exchange_id INTEGER NOT NULL,
    observed_ms INTEGER NOT NULL, -- when the request of the exchange was sent
    -- The version of the program that parsed the answer, while all products of the row and their stock levels
    -- hold exactly the values of that answer. It is no fact; it follows from the exchange.
    verified_by TEXT
) STRICT;

-- Every SKU that was asked for, or that an answer named, in the platform's spelling where that is known.
CREATE TABLE product (
    id INTEGER PRIMARY KEY,
    sku TEXT NOT NULL CONSTRAINT product_sku UNIQUE,
    case_key TEXT NOT NULL,  -- computed by the daemon, because SQLite's lower() knows ASCII alone
    product_id INTEGER,      -- NULL: the platform never returned the product
    alias_of INTEGER,        -- the product with the platform's spelling of this SKU
    name TEXT,
    upc TEXT,
    type TEXT,               -- NULL: unknown
    total INTEGER,           -- QuantityOnHand of the product; never the fact of a stock level
    read_batch_id INTEGER,   -- NULL: the SKU was never asked for
    -- An answer that was asked for a product and does not show all of it makes none of its stock levels
    -- younger. 'absent': the answer holds other products that were asked for. 'silent': it holds none of
    -- them. 'unreadable': the record or a part of it is unreadable. NULL: the last answer showed all of it.
    lack TEXT CONSTRAINT product_lack CHECK (lack IN ('absent', 'silent', 'unreadable')),
    absent_ms INTEGER,       -- the request of the first answer in a row that may prove the absence
    missing_since_ms INTEGER,
    -- Digest of the record that balances last returned, while the product and all its stock levels hold
    -- exactly that record. An equal record then needs no write. Every other change clears it. It is no fact.
    digest INTEGER,
    -- The position at which another product took the SKU over. Earlier facts are those of the product before.
    product_id_position INTEGER
) STRICT;

-- A stock level. `quantity` is the fact, `own_delta` the sum over our writes that took effect of (written -
-- fact used).
CREATE TABLE balance (
    product INTEGER NOT NULL,
    warehouse_id INTEGER NOT NULL,
    quantity INTEGER NOT NULL,
    own_delta INTEGER NOT NULL DEFAULT 0,
    since_ms INTEGER,         -- since when the pair of both is known; NULL: unknown (docs/rules.md 1)
    fact_exchange_id INTEGER, -- the exchange of the fact, if not that of the product's `read_batch`
    fact_ms INTEGER,          -- when the request of that exchange was sent
    warehouse_sku TEXT,
    is_active BOOLEAN CONSTRAINT balance_is_active CHECK (is_active IN (FALSE, TRUE)),
    include_in_sync BOOLEAN CONSTRAINT balance_include_in_sync CHECK (include_in_sync IN (FALSE, TRUE)),
    unlinked_ms INTEGER,      -- since when the platform does not link the product to the warehouse
    PRIMARY KEY (product, warehouse_id),
    CONSTRAINT balance_fact CHECK ((fact_exchange_id IS NULL) = (fact_ms IS NULL))
) STRICT, WITHOUT ROWID;

-- Earlier pairs of each stock level, because a count may have been made against one of them. A pair was seen
-- from `since_ms` until `observed_ms`; the quantity between two pairs is unknown.
CREATE TABLE balance_history (
    product INTEGER NOT NULL,
    warehouse_id INTEGER NOT NULL,
    position INTEGER NOT NULL, -- the position at which the pair was replaced
    quantity INTEGER NOT NULL,
    own_delta INTEGER NOT NULL,
    since_ms INTEGER,
    observed_ms INTEGER,
    PRIMARY KEY (product, warehouse_id, position)
) STRICT, WITHOUT ROWID;

-- Units that others took from a stock level after a change of ours was inserted and before it took effect: a row for
-- each pair of `balance_history` that such a fall replaced (docs/reconciliation.md, *Units at risk*). The rows follow
-- from the history and the changes, and are no facts.
CREATE TABLE units_taken (
    product INTEGER NOT NULL,
    warehouse_id INTEGER NOT NULL,
    position INTEGER NOT NULL, -- `balance_history.position` of the pair before the fall
    seen_ms INTEGER NOT NULL,  -- when the read that showed the fall was sent
    units INTEGER NOT NULL CONSTRAINT units_taken_some CHECK (units > 0),
    PRIMARY KEY (product, warehouse_id, position)
) STRICT, WITHOUT ROWID;

-- The last write of a stock level. While it is open, and for requests sent before its answer, a read is no
-- fact.
CREATE TABLE stock_level_write (
    product INTEGER NOT NULL,
    warehouse_id INTEGER NOT NULL,
    exchange_id INTEGER NOT NULL, -- the position of the claim
    before INTEGER,               -- the fact used by the decision
    written INTEGER NOT NULL,
    ended INTEGER,                -- the position of the end; NULL: open
    -- 1: accepted, and no read since was taken for the fact.
    is_unconfirmed BOOLEAN NOT NULL DEFAULT FALSE
        CONSTRAINT stock_level_write_is_unconfirmed CHECK (is_unconfirmed IN (FALSE, TRUE)),
    -- 1: a read confirmed a write of this stock level, and no read contradicted a later one.
    is_proven BOOLEAN NOT NULL DEFAULT FALSE
        CONSTRAINT stock_level_write_is_proven CHECK (is_proven IN (FALSE, TRUE)),
    -- When the first read that does not show the write was sent. Nothing is decided until a second read
    -- confirms it.
    first_mismatch_ms INTEGER
        CONSTRAINT stock_level_write_first_mismatch CHECK (first_mismatch_ms IS NULL OR is_unconfirmed),
    -- When the next check of the platform is due.
    check_due_ms INTEGER
        CONSTRAINT stock_level_write_check_due CHECK (check_due_ms IS NULL OR is_unconfirmed),
    -- When our writes last changed the quantity from above 0 to 0; NULL after a later write above 0. A write
    -- that changes no quantity keeps the time, so that the brake still counts the zeroing.
    zeroed_ms INTEGER,
    PRIMARY KEY (product, warehouse_id)
) STRICT, WITHOUT ROWID;

-- An accepted write that the platform does not show. The row ends when the platform shows it, or with the
-- next accepted write that changes the quantity.
CREATE TABLE mismatch (
    product INTEGER NOT NULL,
    warehouse_id INTEGER NOT NULL,
    exchange_id INTEGER NOT NULL, -- the exchange of the write
    written INTEGER NOT NULL,
    shown INTEGER,                -- NULL: the product without this warehouse
    since_ms INTEGER NOT NULL,
    PRIMARY KEY (product, warehouse_id),
    CONSTRAINT mismatch_differs CHECK (shown IS NULL OR shown <> written)
) STRICT, WITHOUT ROWID;

-- Lists that are read whole. A row that a complete list lacks is marked missing, never deleted.
CREATE TABLE warehouse (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    is_active BOOLEAN CONSTRAINT warehouse_is_active CHECK (is_active IN (FALSE, TRUE)),
    account_number TEXT,
    is_system_generated BOOLEAN,
    type TEXT,
    contact TEXT CONSTRAINT warehouse_contact CHECK (contact IS NULL OR json_valid(contact)),
    exchange_id INTEGER NOT NULL,
    missing_since_ms INTEGER
) STRICT;

CREATE TABLE supplier (
    id INTEGER PRIMARY KEY,
    name TEXT,
    account_number TEXT,
    is_active BOOLEAN CONSTRAINT supplier_is_active CHECK (is_active IN (FALSE, TRUE)),
    url TEXT,
    exchange_id INTEGER NOT NULL,
    missing_since_ms INTEGER
) STRICT;

-- The platform lists active storefronts only, so that a missing one may be merely inactive.
CREATE TABLE storefront (
    id INTEGER PRIMARY KEY,
    name TEXT,
    is_active BOOLEAN CONSTRAINT storefront_is_active CHECK (is_active IN (FALSE, TRUE)),
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

-- A kit whose components were read. The type of a product stands in `product.type`.
CREATE TABLE kit (
    product_id INTEGER PRIMARY KEY, -- the platform's id
    exchange_id INTEGER NOT NULL,
    observed_ms INTEGER NOT NULL
) STRICT;

CREATE TABLE kit_component (
    kit_id INTEGER NOT NULL,       -- `kit.product_id`
    component_id INTEGER NOT NULL,
    product_id INTEGER,
    sku TEXT,
    quantity REAL NOT NULL,        -- units in one kit
    exchange_id INTEGER NOT NULL,
    missing_since_ms INTEGER,
    PRIMARY KEY (kit_id, component_id)
) STRICT, WITHOUT ROWID;

-- A tracked order as the platform last described it.
CREATE TABLE sales_order (
    id INTEGER PRIMARY KEY,
    exchange_id INTEGER NOT NULL,
    observed_ms INTEGER NOT NULL,
    changed_ms INTEGER NOT NULL,   -- when a line last changed
    is_complete BOOLEAN NOT NULL CONSTRAINT sales_order_is_complete CHECK (is_complete IN (FALSE, TRUE)),
    closed_ms INTEGER              -- since when nothing is left to ship
) STRICT;

CREATE TABLE order_line_item (
    order_id INTEGER NOT NULL,
    line_item_id INTEGER NOT NULL,
    sku TEXT,
    product_id INTEGER,
    product_name TEXT,
    quantity_sold INTEGER NOT NULL,
    quantity_left INTEGER,         -- NULL: not in the answer
    unit_price REAL,               -- for display only
    warehouse_id INTEGER,
    supplier_id INTEGER,
    exchange_id INTEGER NOT NULL,
    -- A line of the last answer has none of the next three columns; its age is the order's.
    observed_ms INTEGER,           -- when the last answer that held the line was asked for
    absent_ms INTEGER,             -- the first complete answer since without the line
    absent_exchange_id INTEGER
        CONSTRAINT order_line_item_absent CHECK ((absent_exchange_id IS NULL) = (absent_ms IS NULL)),
    missing_since_ms INTEGER,
    PRIMARY KEY (order_id, line_item_id)
) STRICT, WITHOUT ROWID;

-- An order line whose warehouse allocation was asked for. The platform may not know the order.
CREATE TABLE allocation_read (
    order_id INTEGER NOT NULL,
    line_item_id INTEGER NOT NULL,
    exchange_id INTEGER NOT NULL,
    observed_ms INTEGER NOT NULL,
    is_found BOOLEAN NOT NULL CONSTRAINT allocation_read_is_found CHECK (is_found IN (FALSE, TRUE)),
    PRIMARY KEY (order_id, line_item_id)
) STRICT, WITHOUT ROWID;

-- The share of one warehouse in an order line; for a kit, in each of its components. The index in the answer
-- is the key, because the platform may omit the id of an allocation.
CREATE TABLE order_line_allocation (
    order_id INTEGER NOT NULL,
    line_item_id INTEGER NOT NULL,
    ordinal INTEGER NOT NULL, -- index in the answer
    allocation_id INTEGER,
    product_id INTEGER,
    sku TEXT,
    warehouse_id INTEGER NOT NULL,
    quantity INTEGER NOT NULL,
    PRIMARY KEY (order_id, line_item_id, ordinal)
) STRICT, WITHOUT ROWID;

CREATE TABLE shipment (
    id INTEGER PRIMARY KEY,
    order_id INTEGER,
    number TEXT,
    status TEXT,
    warehouse_id INTEGER,
    exchange_id INTEGER NOT NULL,
    observed_ms INTEGER NOT NULL,
    changed_ms INTEGER             -- when an item last changed
) STRICT;

CREATE TABLE shipment_line (
    shipment_id INTEGER NOT NULL,
    item_id INTEGER NOT NULL,
    line_item_id INTEGER,
    sku TEXT,
    product_id INTEGER,
    quantity INTEGER NOT NULL,
    is_shipped BOOLEAN CONSTRAINT shipment_line_is_shipped CHECK (is_shipped IN (FALSE, TRUE)),
    is_confirmed BOOLEAN CONSTRAINT shipment_line_is_confirmed CHECK (is_confirmed IN (FALSE, TRUE)),
    carrier_id INTEGER,
    carrier_name TEXT,
    tracking_number TEXT,
    tracking_url TEXT,
    estimated_delivery_ms INTEGER,
    exchange_id INTEGER NOT NULL,
    -- When the last answer that held the item was asked for; NULL: the time of the shipment.
    observed_ms INTEGER,
    missing_since_ms INTEGER,
    PRIMARY KEY (shipment_id, item_id)
) STRICT, WITHOUT ROWID;

-- The counts of the work queue as a time series: one row for each change.
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

-- The values of a report for one month, as JSON: a list of top sellers, or the figures of the month. Two
-- equal reads after the end of the month make it agreed; an agreed month is not read again.
CREATE TABLE report_month (
    report TEXT NOT NULL CONSTRAINT report_month_report CHECK (report IN ('top_selling', 'business_health')),
    year INTEGER NOT NULL,
    month INTEGER NOT NULL CONSTRAINT report_month_month CHECK (month BETWEEN 1 AND 12),
    payload TEXT NOT NULL CONSTRAINT report_month_payload CHECK (json_valid(payload)),
    is_agreed BOOLEAN NOT NULL CONSTRAINT report_month_is_agreed CHECK (is_agreed IN (FALSE, TRUE)),
    exchange_id INTEGER NOT NULL, -- the last read
    observed_ms INTEGER NOT NULL,
    PRIMARY KEY (report, year, month)
) STRICT, WITHOUT ROWID;

-- Tracked SKUs: added or discovered, and not removed since. Insert to track, delete to stop.
CREATE TABLE tracked_sku (
    sku TEXT PRIMARY KEY ON CONFLICT IGNORE CONSTRAINT tracked_sku_text CHECK (length(trim(sku)) > 0),
    origin TEXT NOT NULL DEFAULT 'added' CONSTRAINT tracked_sku_origin CHECK (origin IN ('added', 'learnt'))
) STRICT, WITHOUT ROWID;

CREATE TABLE untracked_sku (sku TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;

-- SKUs from order lines, allocations, kits, top sellers and created products. These are facts; tracked SKUs
-- are none.
CREATE TABLE discovered_sku (
    sku TEXT PRIMARY KEY ON CONFLICT IGNORE,
    exchange_id INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE tracked_order (
    order_id INTEGER PRIMARY KEY ON CONFLICT IGNORE CONSTRAINT tracked_order_positive CHECK (order_id > 0)
) STRICT;

-- Orders to be read with the next free call: newly tracked ones, and those an operator named again. A new row
-- always has a larger id, so that the daemon notices it by the largest id.
CREATE TABLE order_read_request (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    order_id INTEGER NOT NULL CONSTRAINT order_read_request_order UNIQUE
) STRICT;

CREATE INDEX read_batch_by_exchange ON read_batch (exchange_id, id);

-- Pages of stock follow each other by case key and SKU.
CREATE INDEX product_by_case_key ON product (case_key, sku);
CREATE INDEX product_by_read_batch ON product (read_batch_id);
CREATE INDEX product_kit ON product (product_id) WHERE type = 'Kit';
CREATE INDEX product_lacking ON product (id) WHERE lack IS NOT NULL;
-- The page lists the SKUs that the platform does not return without a scan of all products.
CREATE INDEX product_missing ON product (case_key, sku) WHERE missing_since_ms IS NOT NULL;

-- The latest changes are found from the end.
CREATE INDEX balance_history_by_position ON balance_history (position);
CREATE INDEX units_taken_by_time ON units_taken (seen_ms, product, warehouse_id, units);

CREATE INDEX stock_level_write_open ON stock_level_write (exchange_id) WHERE ended IS NULL;
CREATE INDEX stock_level_write_ended ON stock_level_write (ended) WHERE ended IS NOT NULL;
CREATE INDEX stock_level_write_check_due ON stock_level_write (check_due_ms) WHERE check_due_ms IS NOT NULL;
-- Every page of balances asks for writes without confirmation.
CREATE INDEX stock_level_write_unconfirmed ON stock_level_write (product) WHERE is_unconfirmed;

CREATE INDEX listing_template_by_storefront ON listing_template (storefront_id, id);
CREATE INDEX sales_order_open ON sales_order (exchange_id) WHERE closed_ms IS NULL;
CREATE INDEX order_line_item_by_line ON order_line_item (line_item_id);
CREATE INDEX shipment_by_order ON shipment (order_id);

-- The product that each known spelling means. A case key may have several spellings, and each has a row in
-- `product`. Where the platform has exactly one product of a case key, every spelling of that key means this
-- product, as soon as the spelling itself was asked for: the platform may have a product of that very
-- spelling. Two answers must have lacked it, or one answer must have returned the product under another
-- spelling. Where the platform has several products of a case key, each spelling means itself. A renamed
-- product has two rows and one id: the row that was read last is meant. A SKU that alone has its case key names itself: the products of a case key
-- are counted and sorted only where there are several, because a push looks up the spellings of each stock level.
CREATE VIEW sku_spelling (spelling, case_key, product, sku) AS
SELECT q.sku, q.case_key, p.id, p.sku
FROM product q JOIN product p ON p.id = CASE
    WHEN NOT EXISTS (SELECT 1 FROM product t WHERE t.case_key = q.case_key AND t.id <> q.id) THEN q.id
    WHEN (q.product_id IS NOT NULL OR q.alias_of IS NOT NULL OR q.missing_since_ms IS NOT NULL)
         AND (SELECT count(DISTINCT t.product_id) FROM product t
              WHERE t.case_key = q.case_key AND t.product_id IS NOT NULL AND t.alias_of IS NULL) = 1
    THEN (SELECT t.id FROM product t LEFT JOIN read_batch r ON r.id = t.read_batch_id
          WHERE t.case_key = q.case_key AND t.product_id IS NOT NULL AND t.alias_of IS NULL
          ORDER BY t.missing_since_ms IS NOT NULL, r.exchange_id DESC NULLS LAST, t.id DESC LIMIT 1)
    ELSE q.id END;

-- `supplier_id`: the supplier ships the line, so it is not to be picked.
CREATE VIEW order_line (
    order_id, line_item_id, sku, product_id, quantity_sold, quantity_left, unit_price, warehouse_id,
    observed_at, supplier_id
) AS
SELECT l.order_id, l.line_item_id, l.sku, l.product_id, l.quantity_sold, l.quantity_left, l.unit_price,
       l.warehouse_id,
       strftime('%Y-%m-%dT%H:%M:%fZ', coalesce(l.observed_ms, o.observed_ms) / 1000.0, 'unixepoch'),
       l.supplier_id
FROM order_line_item l JOIN sales_order o ON o.id = l.order_id
WHERE l.missing_since_ms IS NULL;

CREATE VIEW shipment_item (
    shipment_id, item_id, order_id, line_item_id, sku, quantity, is_shipped, is_confirmed, carrier_id,
    tracking_number, tracking_url, observed_at
) AS
SELECT i.shipment_id, i.item_id, s.order_id, i.line_item_id, i.sku, i.quantity, i.is_shipped, i.is_confirmed,
       i.carrier_id, i.tracking_number, i.tracking_url,
       strftime('%Y-%m-%dT%H:%M:%fZ', coalesce(i.observed_ms, s.observed_ms) / 1000.0, 'unixepoch')
FROM shipment_line i JOIN shipment s ON s.id = i.shipment_id
WHERE i.missing_since_ms IS NULL;

-- The progress of each shipment. Without a known item a shipment counts as neither shipped nor confirmed.
CREATE VIEW shipment_progress (shipment_id, order_id, is_cancelled, is_shipped, is_confirmed) AS
SELECT s.id, s.order_id, coalesce(lower(s.status) IN ('cancelled', 'c'), FALSE),
       EXISTS (SELECT 1 FROM shipment_item i WHERE i.shipment_id = s.id)
           AND NOT EXISTS (SELECT 1 FROM shipment_item i
                           WHERE i.shipment_id = s.id AND i.is_shipped IS NOT TRUE),
       EXISTS (SELECT 1 FROM shipment_item i WHERE i.shipment_id = s.id)
           AND NOT EXISTS (SELECT 1 FROM shipment_item i
                           WHERE i.shipment_id = s.id AND i.is_confirmed IS NOT TRUE)
FROM shipment s;

CREATE VIEW top_seller (
    year, month, rank, sku, name, product_id, sales_channel_id, quantity_sold, amount_sold, is_agreed,
    observed_at
) AS
SELECT m.year, m.month, CAST(s.value->>'rank' AS INTEGER), s.value->>'sku', s.value->>'name',
       CAST(s.value->>'product_id' AS INTEGER), CAST(s.value->>'sales_channel_id' AS INTEGER),
       CAST(s.value->>'quantity_sold' AS INTEGER), CAST(s.value->>'amount_sold' AS REAL), m.is_agreed,
       strftime('%Y-%m-%dT%H:%M:%fZ', m.observed_ms / 1000.0, 'unixepoch')
FROM report_month m, json_each(m.payload) s
WHERE m.report = 'top_selling';

CREATE VIEW business_health (
    year, month, total_revenue, total_cost_of_goods_sold, total_shipping_costs, total_profit,
    total_amount_shipping_collected, total_cost_of_labels_generated, total_value_of_inventory_month_start,
    total_value_of_inventory_month_end, total_number_of_new_listings_added, is_agreed, observed_at
) AS
SELECT year, month, CAST(payload->>'total_revenue' AS REAL),
       CAST(payload->>'total_cost_of_goods_sold' AS REAL),
       CAST(payload->>'total_shipping_costs' AS REAL), CAST(payload->>'total_profit' AS REAL),
       CAST(payload->>'total_amount_shipping_collected' AS REAL),
       CAST(payload->>'total_cost_of_labels_generated' AS REAL),
       CAST(payload->>'total_value_of_inventory_month_start' AS REAL),
       CAST(payload->>'total_value_of_inventory_month_end' AS REAL),
       CAST(payload->>'total_number_of_new_listings_added' AS REAL), is_agreed,
       strftime('%Y-%m-%dT%H:%M:%fZ', observed_ms / 1000.0, 'unixepoch')
FROM report_month
WHERE report = 'business_health';

-- The stock levels whose link to the warehouse is not proved gone. A link is gone by two answers without it that were
-- sent at least 2 minutes apart (`ABSENCE_CHECKS_APART`).
CREATE VIEW linked_balance AS
SELECT b.* FROM balance b
WHERE b.unlinked_ms IS NULL OR EXISTS (
    SELECT 1 FROM product p JOIN read_batch r ON r.id = p.read_batch_id
    WHERE p.id = b.product AND r.observed_ms - b.unlinked_ms < 120000);
