//! Generated master data: warehouses, suppliers, storefronts, templates, products with stock, and kits.
//!
//! The data looks real: readable names, UPCs with a valid check digit, a SKU with unusual characters. Rows
//! are written in batches of [`PRODUCTS_PER_BATCH`], so that 100,000 SKUs take seconds.

use serde_json::{Value, json};

use super::CompanySeed;
use crate::sandbox::operations::kits::{self, KitBody};
use crate::sandbox::operations::products;
use crate::sandbox::platform::contact::insert_contact;
use crate::sandbox::platform::sales::SaleLine;
use crate::sandbox::random::SandboxRandom;
use crate::sandbox::store::values;
use crate::sandbox::{SandboxError, SandboxOptions};

const WAREHOUSE: &str = "\
    INSERT INTO warehouse (company_id, name, account_number, is_system_generated, is_default, type, contact_id)
    VALUES (?1, ?2, 'WH-' || (100 + ?3), ?3 = 0, ?3 = 0, ?4, ?5) RETURNING id";
/// Inserts three suppliers, one of them inactive, and returns their ids.
const SUPPLIERS: &str = "\
    INSERT INTO supplier (company_id, name, account_number, is_active, supplier_url)
    SELECT ?1, column1, column2, column3, 'https://suppliers.example.com/' || lower(column2)
      FROM (VALUES ('Northern Potters', 'NP-4471', 1), ('Loom & Line', 'LL-0020', 1),
                   ('Old Forge Trading', 'OF-9', 0))
    RETURNING id";
const STOREFRONTS: &str = "\
    INSERT INTO storefront (company_id, name, is_active, type, properties)
    SELECT ?1, column1, column3, column2,
           json_object('Currency', 'USD', 'SyncInventory', json(iif(column3, 'true', 'false')))
      FROM (VALUES ('Harbour Goods Online', 'WebStore', 1), ('Harbour Goods Market', 'Marketplace', 1),
                   ('Harbour Goods Outlet', 'Auction', 0))";
const TEMPLATES: &str = "\
    INSERT INTO listing_template (storefront_id, name, folded_name, body)
    SELECT s.id, t.column1, lower(t.column1), '<h1>{{Name}}</h1><p>{{LongDescription}}</p>'
      FROM storefront s, (VALUES ('Plain'), ('Season''s Sale')) t
     WHERE s.company_id = ?1 ORDER BY s.id, t.column1";
const STOCK_LEVELS: &str = "\
    WITH stock_level AS MATERIALIZED (SELECT value FROM json_each(?1))
    INSERT INTO link (product_id, warehouse_id, quantity, aisle, bin, sku)
    SELECT value->>0, value->>1, value->>2, 'A' || (value->>3), 'B' || (value->>4), value->>5 FROM stock_level";
const IMAGES: &str = "\
    INSERT INTO product_image (product_id, mime_type, url)
    SELECT id, 'image/jpeg', 'https://images.example.com/' || id || '.jpg' FROM product WHERE company_id = ?1";
/// The values that only kit components show.
const COSTS: &str = "\
    UPDATE product
       SET average_cost = round(price * 0.6, 2), average_landed_cost = round(price * 0.65, 2),
           reorder_level = 20 + id % 60, reserve_level = 2, target_inventory_level = 200, notes = 'Handle with care'
     WHERE company_id = ?1";

/// Minimum number of products of a company with kits.
pub(crate) const SKUS_MIN: u32 = 10;
const PRODUCTS_PER_BATCH: usize = 1_000;

const COLOURS: [&str; 8] = ["Slate", "Amber", "Moss", "Coral", "Ivory", "Navy", "Plum", "Copper"];
const MATERIALS: [&str; 8] = ["Oak", "Steel", "Linen", "Cork", "Enamel", "Wool", "Bamboo", "Stoneware"];
const PRODUCT_NAMES: [(&str, &str); 12] = [
    ("Mug", "MUG"),
    ("Bowl", "BWL"),
    ("Tray", "TRY"),
    ("Kettle", "KTL"),
    ("Lantern", "LNT"),
    ("Apron", "APR"),
    ("Basket", "BSK"),
    ("Stool", "STL"),
    ("Blanket", "BLK"),
    ("Cutting Board", "CUT"),
    ("Storage Jar", "JAR"),
    ("Coat Hook", "HOK"),
];
const TOWNS: [(&str, &str, &str); 4] = [
    ("Portland", "ME", "04101"),
    ("Savannah", "GA", "31401"),
    ("Tacoma", "WA", "98402"),
    ("Duluth", "MN", "55802"),
];

impl CompanySeed<'_> {
    pub(crate) async fn fill_catalog(&mut self, options: &SandboxOptions) -> Result<(), SandboxError> {
        let warehouse_ids = self.insert_warehouses(options.warehouses.max(1)).await?;
        let supplier_ids = self.company_ids(SUPPLIERS).await?;
        for insert in [STOREFRONTS, TEMPLATES] {
            sqlx::query(insert).bind(self.company_id).execute(&mut *self.db).await?;
        }
        let skus = options.skus.max(SKUS_MIN);
        let kits = (skus / 20).max(2);
        // Every order of the history takes up to six units. This stock is enough for all orders, with any
        // number of products.
        let spare = 6 * options.orders / (skus - kits) + 1;
        let numbers: Vec<u32> = (0..skus - kits).collect();
        for batch in numbers.chunks(PRODUCTS_PER_BATCH) {
            let product = |number: &u32| generated_product(*number, &supplier_ids, &mut self.random);
            let products: Vec<Value> = batch.iter().map(product).collect();
            let product_ids = products::insert_products(self.db, self.company_id, &json!(products)).await?;
            self.insert_stock(&product_ids, &products, &warehouse_ids, spare).await?;
        }
        for statement in [IMAGES, COSTS] {
            sqlx::query(statement).bind(self.company_id).execute(&mut *self.db).await?;
        }
        self.insert_kits(kits).await
    }

    async fn insert_warehouses(&mut self, count: u32) -> Result<Vec<i64>, sqlx::Error> {
        let mut ids = Vec::new();
        for number in 0..count {
            let (town, state, zip_code) = TOWNS[number as usize % TOWNS.len()];
            let contact = json!({
                "CompanyName": "Harbour Goods",
                "FullName": format!("{town} Dock Office"),
                "Phone": "+1 555 0170",
                "Address": {
                    "Street1": "12 Quay Street", "City": town, "State": state, "Country": "US", "ZipCode": zip_code,
                },
            });
            let contact_id = insert_contact(self.db, &contact).await?;
            let kind = if number == 2 { "FulfillmentCenter" } else { "Standard" };
            let name =
                if number < 4 { format!("{town} Warehouse") } else { format!("{town} Warehouse {number}") };
            let warehouse = values!(self.company_id, name, number, kind, contact_id);
            ids.push(sqlx::query_scalar_with(WAREHOUSE, warehouse).fetch_one(&mut *self.db).await?);
        }
        Ok(ids)
    }

    /// Links every product to every warehouse. A tenth of the stock levels is empty. The
    /// default warehouse gets the spare units.
    async fn insert_stock(
        &mut self,
        product_ids: &[i64],
        products: &[Value],
        warehouse_ids: &[i64],
        spare: u32,
    ) -> Result<(), sqlx::Error> {
        let mut rows = Vec::new();
        for (product_id, product) in product_ids.iter().zip(products) {
            for (index, warehouse_id) in warehouse_ids.iter().enumerate() {
                let stock =
                    if self.random.number_below(10) == 0 { 0 } else { self.random.number_between(5, 240) };
                let quantity = if index == 0 { stock + spare } else { stock };
                let (aisle, bin) = (self.random.number_between(1, 30), self.random.number_between(1, 99));
                rows.push(json!([product_id, warehouse_id, quantity, aisle, bin, product["Sku"]]));
            }
        }
        self.insert_rows(STOCK_LEVELS, &rows).await
    }

    async fn insert_kits(&mut self, count: u32) -> Result<(), SandboxError> {
        let skus = self.product_skus().await?;
        let products = u32::try_from(skus.len()).unwrap_or(u32::MAX);
        for number in 0..count {
            let first = self.random.number_below(products);
            let parts = self.random.number_between(2, 3);
            let components = (0..parts).map(|step| {
                SaleLine::new(&skus[((first + step) % products) as usize], self.random.number_between(1, 3))
            });
            let components = components.collect();
            let (sku, name) = (format!("KIT-{:04}", 1 + number), format!("Gift Set No. {}", 1 + number));
            kits::create_kit(self.db, self.company_id, &KitBody { sku, name, components }).await?;
        }
        Ok(())
    }
}

fn generated_product(number: u32, supplier_ids: &[i64], random: &mut SandboxRandom) -> Value {
    let (thing, code) = random.pick_from(&PRODUCT_NAMES);
    let (material, colour) = (random.pick_from(&MATERIALS), random.pick_from(&COLOURS));
    let sku = match number {
        5 => "O'RING 50%_B".to_owned(),
        _ => format!("{code}-{:05}-{}", 10_000 + number, colour[..3].to_uppercase()),
    };
    let cents = random.number_between(450, 18_999);
    let upc = upc_with_check_digit(72_000_000_000 + u64::from(number) * 11);
    let description = format!("{thing} of {}, in {}.", material.to_lowercase(), colour.to_lowercase());
    json!({
        "Sku": sku,
        "Name": format!("{colour} {material} {thing}"),
        "Type": if number % 40 == 39 { "Built" } else { "Product" },
        "IsDropshipped": number % 25 == 24,
        "Identifiers": { "UPC": upc, "GTIN": format!("00{upc}") },
        "GlobalListingAttributes": {
            "SoldAsName": format!("{thing} of {material}, {colour}"),
            "ShortDescription": description,
            "LongDescription": format!("{description} Made to be used every day."),
            "Price": f64::from(cents) / 100.0,
        },
        "SupplierInformation": {
            "SupplierId": random.pick_from(supplier_ids),
            "Sku": format!("S-{number}"),
            "Price": f64::from(cents * 3 / 5) / 100.0,
            "IsOrderedByCase": number.is_multiple_of(7),
        },
    })
}

/// Returns a UPC-A: eleven digits and the check digit that makes the weighted sum a multiple of ten.
fn upc_with_check_digit(eleven: u64) -> String {
    let digits = format!("{eleven:011}");
    let weighted =
        digits.bytes().enumerate().map(|(at, byte)| u32::from(byte - b'0') * if at % 2 == 0 { 3 } else { 1 });
    let check = (10 - weighted.sum::<u32>() % 10) % 10;
    format!("{digits}{check}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_upc_ends_with_its_check_digit() {
        assert_eq!(upc_with_check_digit(3_600_029_145), "036000291452");
        assert_eq!(upc_with_check_digit(1_234_567_890), "012345678905");
    }
}
