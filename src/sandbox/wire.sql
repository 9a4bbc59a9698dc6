-- The shape of every record the service answers with, field by field as docs/interface.md lists them
-- ("Resources and their fields"). Each view gives the keys to choose by and `body`, the record as JSON text:
-- an answer is one statement that returns one text, many times faster than rows that cross a channel one by
-- one.
--
-- They are temporary views made at every open, not part of the migrations: a shape can be mended without a
-- migration. Nested JSON is wrapped in json(), as SQLite forgets that a subquery's text was JSON.

-- What is asked for most (balances, warehouses with their contacts) is put together by format(): nested json_object()
-- writes and reads each inner text once more, which made half of an answer's time. Whatever may hold a quote or a
-- backslash goes through json_quote() there; the contract tests read every answer as JSON.

-- One product in one warehouse with the quantity that is shown. A kit can be put together as often as its
-- scarcest component allows, over all warehouses; the whole of it is shown in the default warehouse, so that
-- the links' sum stays the product's quantity for kits too. Only an empty link can be a kit's.
CREATE TEMP VIEW cell AS
SELECT l.id, l.product_id, l.warehouse_id, l.aisle, l.bin, l.sku, l.is_active, l.include_in_sync,
       CASE
           WHEN l.quantity > 0 OR (SELECT p.type FROM product p WHERE p.id = l.product_id) <> 'Kit' THEN l.quantity
           WHEN (SELECT w.is_default FROM warehouse w WHERE w.id = l.warehouse_id) = 0 THEN 0
           ELSE (SELECT coalesce(min((SELECT coalesce(sum(c.quantity), 0) FROM link c WHERE c.product_id = k.component_id)
                                     / k.quantity), 0)
                   FROM kit_component k WHERE k.kit_id = l.product_id)
       END AS quantity
  FROM link l;

-- The sum and the list come of one pass over the cells.
CREATE TEMP VIEW wire_balance AS
SELECT p.id, p.company_id, p.sku, p.upc,
       format('{"Id":%d,"Sku":%s,"QuantityOnHand":%s}', p.id, json_quote(p.sku), (
           SELECT format('%d,"UPC":%s,"Warehouses":[%s]', coalesce(sum(c.quantity), 0), json_quote(p.upc),
                         coalesce(group_concat(c.body, ','), ''))
             FROM (SELECT c.quantity,
                          format('{"ProductId":%d,"WarehouseId":%d,"QuantityOnHand":%d,"WarehouseSKU":%s,"IsActive":%s,'
                                 || '"IncludeInSyncBalance":%s}',
                                 c.product_id, c.warehouse_id, c.quantity, json_quote(c.sku),
                                 iif(c.is_active, 'true', 'false'), iif(c.include_in_sync, 'true', 'false')) AS body
                     FROM cell c WHERE c.product_id = p.id ORDER BY c.warehouse_id) c)) AS body
  FROM product p;

CREATE TEMP VIEW wire_product AS
SELECT p.id, p.company_id, p.sku,
       json_object(
           'Id', p.id, 'CompanyId', p.company_id, 'Sku', p.sku, 'Name', p.name, 'Type', p.type,
           'QuantityOnHand', (SELECT coalesce(sum(c.quantity), 0) FROM cell c WHERE c.product_id = p.id),
           'Identifiers', json_object('ProductId', p.id, 'UPC', p.upc, 'EAN', p.ean, 'ISBN', p.isbn, 'GTIN', p.gtin),
           'IsActive', json(iif(p.is_active, 'true', 'false')),
           'IsAutoSyncEnabled', json(iif(p.is_auto_sync_enabled, 'true', 'false')),
           'IsDiscontinued', json(iif(p.is_discontinued, 'true', 'false')),
           'IsDropshipped', json(iif(p.is_dropshipped, 'true', 'false')),
           'IsFireArm', json(iif(p.is_fire_arm, 'true', 'false')),
           'IsVariation', json(iif(p.is_variation, 'true', 'false')),
           'IsParent', json(iif(p.is_parent, 'true', 'false')),
           'GlobalListingAttributes', json_object(
               'ProductId', p.id, 'SoldAsName', p.sold_as_name, 'ShortDescription', p.short_description,
               'LongDescription', p.long_description, 'Price', p.price, 'Condition', p.condition),
           'Images', json((
               SELECT json_group_array(json_object(
                          'Id', i.id, 'ProductId', i.product_id, 'MIMEType', i.mime_type, 'Url', i.url,
                          'DisplayOrder', i.display_order) ORDER BY i.display_order, i.id)
                 FROM product_image i WHERE i.product_id = p.id)),
           'Warehouses', json((
               SELECT json_group_array(json_object(
                          'Id', c.id, 'ProductId', c.product_id, 'WarehouseId', c.warehouse_id, 'Name', w.name,
                          'Aisle', c.aisle, 'Bin', c.bin, 'QuantityOnHand', c.quantity, 'SKU', c.sku,
                          'IsActive', json(iif(c.is_active, 'true', 'false')),
                          'IsDefault', json(iif(w.is_default, 'true', 'false')),
                          'IncludeInSyncBalance', json(iif(c.include_in_sync, 'true', 'false'))) ORDER BY c.warehouse_id)
                 FROM cell c JOIN warehouse w ON w.id = c.warehouse_id WHERE c.product_id = p.id)),
           'SupplierInformation', json((
               SELECT json_object('ProductId', p.id, 'SupplierId', s.id, 'Name', s.name, 'Sku', p.supplier_sku,
                                  'Price', p.supplier_price,
                                  'IsOutOfStock', json(iif(p.supplier_out_of_stock, 'true', 'false')),
                                  'IsOrderedByCase', json(iif(p.supplier_by_case, 'true', 'false')))
                 FROM supplier s WHERE s.id = p.supplier_id))) AS body
  FROM product p;

CREATE TEMP VIEW wire_kit_component AS
SELECT k.id, k.kit_id,
       json_object(
           'Id', k.id, 'QuantityForKit', k.quantity,
           'Product', json_patch(w.body, json_object(
               'Notes', p.notes, 'ParentSku', p.parent_sku, 'ChildSku', p.child_sku,
               'TargetInventoryLevel', p.target_inventory_level, 'AverageCost', p.average_cost,
               'AverageLandedCost', p.average_landed_cost, 'ReorderLevel', p.reorder_level,
               'ReserveLevel', p.reserve_level))) AS body
  FROM kit_component k JOIN product p ON p.id = k.component_id JOIN wire_product w ON w.id = k.component_id;

CREATE TEMP VIEW wire_contact AS
SELECT c.id,
       format('{"Id":%d,"CompanyName":%s,"FullName":%s,"FirstName":%s,"LastName":%s,"EmailAddress":%s,'
              || '"BusinessPhone":%s,"MobilePhone":%s,"FaxNumber":%s,"AddressId":%d,"Address":{"Id":%d,"Street1":%s,'
              || '"Street2":%s,"Street3":%s,"City":%s,"State":%s,"Country":%s,"ZipCode":%s,"UrbanizationCode":%s,'
              || '"IsResidential":%s}}',
              c.id, json_quote(c.company_name), json_quote(c.full_name), json_quote(c.first_name),
              json_quote(c.last_name), json_quote(c.email_address), json_quote(c.business_phone),
              json_quote(c.mobile_phone), json_quote(c.fax_number), a.id, a.id, json_quote(a.street1),
              json_quote(a.street2), json_quote(a.street3), json_quote(a.city), json_quote(a.state),
              json_quote(a.country), json_quote(a.zip_code), json_quote(a.urbanization_code),
              iif(a.is_residential, 'true', 'false')) AS body
  FROM contact c JOIN address a ON a.id = c.address_id;

CREATE TEMP VIEW wire_warehouse AS
SELECT w.id, w.company_id,
       format('{"Id":%d,"Name":%s,"IsActive":%s,"AccountNumber":%s,"IsSystemGenerated":%s,"Type":"%s","Note":%s,'
              || '"ContactInformation":%s}',
              w.id, json_quote(w.name), iif(w.is_active, 'true', 'false'), json_quote(w.account_number),
              iif(w.is_system_generated, 'true', 'false'), w.type, json_quote(w.note),
              coalesce((SELECT c.body FROM wire_contact c WHERE c.id = w.contact_id), 'null')) AS body
  FROM warehouse w;

CREATE TEMP VIEW wire_supplier AS
SELECT s.id, s.company_id,
       json_object('Id', s.id, 'Name', s.name, 'AccountNumber', s.account_number,
                   'IsActive', json(iif(s.is_active, 'true', 'false')), 'SupplierUrl', s.supplier_url) AS body
  FROM supplier s;

CREATE TEMP VIEW wire_storefront AS
SELECT s.id, s.company_id, s.is_active,
       json_object('Id', s.id, 'Name', s.name, 'IsActive', json(iif(s.is_active, 'true', 'false')), 'Type', s.type,
                   'StorefrontProperties', json(s.properties)) AS body
  FROM storefront s;

CREATE TEMP VIEW wire_listing_template AS
SELECT t.id, t.storefront_id, t.folded_name,
       json_object('Id', t.id, 'StorefrontId', t.storefront_id, 'Name', t.name, 'Body', t.body) AS body
  FROM listing_template t;

-- `untied` is what no shipment has taken yet; a cancelled shipment gives its items back.
CREATE TEMP VIEW untied AS
SELECT l.id AS line_id, l.order_id, l.quantity - coalesce((
           SELECT sum(i.quantity) FROM shipment_item i JOIN shipment s ON s.id = i.shipment_id
            WHERE i.line_id = l.id AND s.is_cancelled = 0), 0) AS quantity
  FROM order_line l;

CREATE TEMP VIEW wire_order_line AS
SELECT l.id, l.order_id, o.company_id,
       json_object(
           'OrderLineItemId', l.id, 'SalesOrderId', l.order_id, 'ProductId', l.product_id, 'SkuNumber', p.sku,
           'ProductName', p.name, 'SoldAsName', iif(p.sold_as_name = '', p.name, p.sold_as_name),
           'QuantitySold', l.quantity,
           'QuantityNotTiedToShipment', (SELECT u.quantity FROM untied u WHERE u.line_id = l.id),
           'UnitPrice', l.unit_price, 'LineItemTotal', round(l.quantity * l.unit_price, 2),
           'EcommerceLineItemId', 'EL-' || l.id, 'EcommerceTransactionId', NULL, 'EcommerceShipmentId', NULL,
           'SupplierId', coalesce(s.id, 0), 'SupplierName', coalesce(s.name, ''),
           'WarehouseId', w.id, 'WarehouseName', w.name) AS body
  FROM order_line l
  JOIN sales_order o ON o.id = l.order_id
  JOIN product p ON p.id = l.product_id
  JOIN warehouse w ON w.id = l.warehouse_id
  LEFT JOIN supplier s ON s.id = p.supplier_id AND p.is_dropshipped;

CREATE TEMP VIEW wire_allocation AS
SELECT a.id, a.line_id,
       json_object('WarehouseAllocationId', a.id, 'OrderLineItemId', a.line_id, 'ProductId', a.product_id,
                   'QuantityAllocated', a.quantity, 'WarehouseId', a.warehouse_id, 'SkuNumber', p.sku,
                   'ProductName', p.name, 'WarehouseName', w.name) AS body
  FROM allocation a JOIN product p ON p.id = a.product_id JOIN warehouse w ON w.id = a.warehouse_id;

CREATE TEMP VIEW wire_shipment_item AS
SELECT i.id, i.shipment_id, o.company_id,
       json_object(
           'Id', i.id, 'ShipmentId', i.shipment_id, 'OrderLineItemId', i.line_id, 'QuantityShipped', i.quantity,
           'IsShipped', json(iif(i.is_shipped, 'true', 'false')), 'ShippedInd', iif(i.is_shipped, 'Y', 'N'),
           'IsConfirmed', json(iif(i.is_shipped, 'true', 'false')), 'Comments', '',
           'CompanyCarrier', json(iif(i.carrier_id IS NULL, NULL, json_object(
               'Id', i.carrier_id,
               'Name', CASE i.carrier_id WHEN 1 THEN 'UPS' WHEN 2 THEN 'FedEx' WHEN 3 THEN 'USPS' WHEN 4 THEN 'DHL'
                                         ELSE 'Carrier ' || i.carrier_id END))),
           'TrackingNumber', i.tracking_number, 'TrackingURL', i.tracking_url,
           'CustomsValue', round(i.quantity * l.unit_price, 2),
           'EstimatedDeliveryDate', strftime('%Y-%m-%dT%H:%M:%S', i.estimated_delivery_at_ms / 1000, 'unixepoch'),
           'ProductId', p.id, 'ProductSku', p.sku, 'ProductName', p.name) AS body
  FROM shipment_item i
  JOIN order_line l ON l.id = i.line_id
  JOIN sales_order o ON o.id = l.order_id
  JOIN product p ON p.id = l.product_id;

-- A shipment's state is what its items say: none shipped, some, all.
CREATE TEMP VIEW shipment_state AS
SELECT s.id, s.order_id, o.company_id,
       CASE
           WHEN s.is_cancelled THEN 'Cancelled'
           WHEN NOT EXISTS (SELECT 1 FROM shipment_item i WHERE i.shipment_id = s.id AND i.is_shipped) THEN 'Unshipped'
           WHEN EXISTS (SELECT 1 FROM shipment_item i WHERE i.shipment_id = s.id AND NOT i.is_shipped)
               THEN 'PartiallyShipped'
           ELSE 'Shipped'
       END AS state
  FROM shipment s JOIN sales_order o ON o.id = s.order_id;

CREATE TEMP VIEW wire_shipment AS
SELECT s.id, t.company_id,
       json_object(
           'Id', s.id, 'CompanyId', t.company_id, 'EcomdashOrderId', s.order_id, 'Comments', '',
           'FulfillmentAction', '', 'FulfillmentOrderNumber', '', 'FulfillmentStatus', '',
           'FulfillmentStatusDate', NULL, 'FulfillmentWarehouseId', s.warehouse_id,
           'ShipmentNumber', 'S-' || s.id,
           'ShippedDate', strftime('%Y-%m-%dT%H:%M:%S', s.shipped_at_ms / 1000, 'unixepoch'),
           'Status', t.state, 'StatusInd', substr(t.state, 1, 1),
           'ShipToContactId', o.contact_id,
           'ShipToContact', json((SELECT c.body FROM wire_contact c WHERE c.id = o.contact_id)),
           'Items', json((SELECT '[' || coalesce(group_concat(i.body, ',' ORDER BY i.id), '') || ']'
                            FROM wire_shipment_item i WHERE i.shipment_id = s.id)),
           'Labels', json('[]')) AS body
  FROM shipment s JOIN shipment_state t ON t.id = s.id JOIN sales_order o ON o.id = s.order_id;

CREATE TEMP VIEW wire_business_month AS
SELECT b.company_id, b.year, b.month,
       json_object(
           'Month', b.month, 'Year', b.year, 'TotalRevenue', b.revenue, 'TotalCostOfGoodsSold', b.cost_of_goods_sold,
           'TotalShippingCosts', b.shipping_costs, 'TotalProfit', b.profit,
           'TotalAmountShippingCollected', b.shipping_collected, 'TotalCostofLabelsGenerated', b.cost_of_labels,
           'TotalValueofInventoryMonthStart', b.inventory_month_start,
           'TotalValueofInventoryMonthEnd', b.inventory_month_end,
           'TotalNumberofNewListingsadded', b.new_listings) AS body
  FROM business_month b;
