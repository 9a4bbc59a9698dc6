//! Products as callers send them, with their validation.
//!
//! Implements docs/interface.md, *Product*, *Create product* and *Update product*. The statements of
//! products.rs flatten the nested object into a row of table `product`.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use serde_json::json;
use sqlx::SqliteConnection;

use crate::sandbox::http::request::{
    OperationCall, StrictObject, WholeNumber, deserialize_price, deserialize_quantity, non_blank,
};
use crate::sandbox::store::values;

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct ProductBody {
    pub(crate) id: Option<WholeNumber>,
    pub(crate) company_id: Option<WholeNumber>,
    sku: Option<String>,
    name: Option<String>,
    #[serde(rename = "Type")]
    kind: Option<SentProductType>,
    #[serde(deserialize_with = "deserialize_quantity")]
    pub(crate) quantity_on_hand: Option<i64>,
    pub(crate) identifiers: Option<StrictObject<IdentifiersBody>>,
    pub(crate) is_active: Option<bool>,
    is_auto_sync_enabled: Option<bool>,
    is_discontinued: Option<bool>,
    is_dropshipped: Option<bool>,
    is_fire_arm: Option<bool>,
    is_variation: Option<bool>,
    is_parent: Option<bool>,
    global_listing_attributes: Option<StrictObject<ListingAttributesBody>>,
    images: Option<Vec<StrictObject<ImageBody>>>,
    warehouses: Option<Vec<StrictObject<ProductLinkBody>>>,
    supplier_information: Option<StrictObject<SupplierInformationBody>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) enum SentProductType {
    Product,
    Kit,
    Built,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "UPPERCASE", default)]
pub(crate) struct IdentifiersBody {
    #[serde(rename = "ProductId")]
    pub(crate) product_id: Option<WholeNumber>,
    upc: Option<String>,
    ean: Option<String>,
    isbn: Option<String>,
    gtin: Option<String>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase", default)]
struct ListingAttributesBody {
    sold_as_name: Option<String>,
    short_description: Option<String>,
    long_description: Option<String>,
    #[serde(deserialize_with = "deserialize_price")]
    price: Option<f64>,
    condition: Option<SentCondition>,
}

#[derive(Debug, Clone, Copy, Deserialize, Serialize)]
enum SentCondition {
    New,
    Used,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct ImageBody {
    pub(crate) id: Option<WholeNumber>,
    #[serde(rename = "MIMEType")]
    pub(crate) mime_type: Option<String>,
    pub(crate) url: Option<String>,
    pub(crate) display_order: Option<WholeNumber>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct ProductLinkBody {
    pub(crate) warehouse_id: Option<WholeNumber>,
    pub(crate) aisle: Option<String>,
    pub(crate) bin: Option<String>,
    #[serde(default, deserialize_with = "deserialize_quantity")]
    pub(crate) quantity_on_hand: Option<i64>,
    #[serde(rename = "SKU")]
    pub(crate) sku: Option<String>,
    pub(crate) is_active: Option<bool>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase", default)]
struct SupplierInformationBody {
    supplier_id: Option<WholeNumber>,
    sku: Option<String>,
    #[serde(deserialize_with = "deserialize_price")]
    price: Option<f64>,
    is_out_of_stock: Option<bool>,
    is_ordered_by_case: Option<bool>,
}

impl ProductBody {
    pub(crate) fn type_or_default(&self) -> SentProductType {
        self.kind.unwrap_or(SentProductType::Product)
    }

    pub(crate) fn sent_links(&self) -> &[StrictObject<ProductLinkBody>] {
        self.warehouses.as_deref().unwrap_or_default()
    }

    /// Returns the first twelve images with a valid `Url`; `None` if the field is absent.
    pub(crate) fn usable_images(&self) -> Option<Vec<&ImageBody>> {
        let images = self.images.as_ref()?.iter().map(|StrictObject(image)| image);
        Some(images.filter(|image| image.url.as_deref().is_some_and(is_url)).take(12).collect())
    }

    pub(crate) fn own_issues(&self) -> Vec<String> {
        let mut issues = Vec::new();
        for (field, value) in [("Sku", &self.sku), ("Name", &self.name)] {
            if non_blank(value).is_none() {
                issues.push(format!("{field} is required."));
            }
        }
        if self.is_variation == Some(true) && self.is_parent == Some(true) {
            issues.push("IsVariation and IsParent must not both be true.".to_owned());
        }
        let mut seen = HashSet::new();
        for (index, entry) in self.sent_links().iter().enumerate() {
            match entry.warehouse_id {
                None => issues.push(format!("Warehouses[{index}]: WarehouseId is required.")),
                Some(WholeNumber(id)) if !seen.insert(id) => {
                    issues.push(format!("Warehouses[{index}]: WarehouseId {id} appears more than once."));
                }
                Some(_) => {}
            }
        }
        issues
    }

    /// Returns the issues of the body and those against the company's records. `own_id` is
    /// the product itself in an update.
    pub(crate) async fn all_issues(
        &self,
        db: &mut SqliteConnection,
        call: &OperationCall,
        own_id: Option<i64>,
    ) -> Result<Vec<String>, sqlx::Error> {
        let mut issues = self.own_issues();
        let sku = self.sku.as_deref().unwrap_or_default();
        issues.extend(duplicate_issue(db, call.company_id, sku, own_id).await?);
        let sent: Vec<_> = self.sent_links().iter().filter_map(|entry| entry.warehouse_id).collect();
        let unknown = "SELECT value FROM json_each(?2)
                        WHERE value NOT IN (SELECT id FROM warehouse WHERE company_id = ?1)";
        let sent = values!(call.company_id, json!(sent).to_string());
        let unknown: Vec<i64> = sqlx::query_scalar_with(unknown, sent).fetch_all(&mut *db).await?;
        issues.extend(unknown.iter().map(|id| format!("The company has no warehouse with the id {id}.")));
        let supplier = self.supplier_information.as_ref();
        if let Some(WholeNumber(id)) = supplier.and_then(|supplier| supplier.supplier_id) {
            let name = "SELECT name FROM supplier WHERE company_id = ?1 AND id = ?2";
            if call.own_text(db, name, id).await?.is_none() {
                issues.push(format!("The company has no supplier with the id {id}."));
            }
        }
        // A body with thousands of faults has a short answer.
        issues.truncate(20);
        Ok(issues)
    }
}

/// Returns the issue of a SKU that another product than `own_id` has.
pub(crate) async fn duplicate_issue(
    db: &mut SqliteConnection,
    company_id: i64,
    sku: &str,
    own_id: Option<i64>,
) -> Result<Option<String>, sqlx::Error> {
    let other = "SELECT id FROM product WHERE company_id = ?1 AND sku = ?2 AND id IS NOT ?3";
    let other: Option<i64> =
        sqlx::query_scalar_with(other, values!(company_id, sku, own_id)).fetch_optional(db).await?;
    Ok(other.map(|_| format!("A product with the SKU '{sku}' exists already.")))
}

/// Returns true for a URI (RFC 3986): a scheme, a colon and a rest, without excluded characters. A
/// URI over http needs a host.
fn is_url(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    let excluded = |c: char| c.is_whitespace() || c.is_control() || "<>\"{}|\\^`".contains(c);
    let is_web = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
    let has_host =
        rest.strip_prefix("//").is_some_and(|host| !host.is_empty() && !host.starts_with(['/', '?', '#']));
    is_scheme && !rest.is_empty() && !rest.contains(excluded) && (has_host || !is_web)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(json: &str) -> ProductBody {
        serde_json::from_str(json).expect("a product")
    }

    #[test]
    fn an_image_needs_a_url_that_is_one() {
        for (url, taken) in [
            ("https://images.example/a.jpg", true),
            ("http://images.example", true),
            ("ftp://images.example/a.jpg", true),
            ("data:image/png;base64,AAAA", true),
            ("urn:image:7", true),
            ("images.example/a.jpg", false),
            ("//images.example/a.jpg", false),
            ("https://images.example/a b.jpg", false),
            ("https:/a.jpg", false),
            ("7up://images.example", false),
            ("/a.jpg", false),
            ("https://", false),
            ("not a url", false),
            ("", false),
        ] {
            assert_eq!(is_url(url), taken, "{url}");
        }
    }

    #[test]
    fn only_the_first_twelve_usable_images_are_attached() {
        let mut images: Vec<_> = (0..15).map(|n| json!({ "Url": format!("http://i/{n}") })).collect();
        images[3] = json!({ "Url": "no url" });
        let body = body(&json!({ "Images": images }).to_string());
        let urls: Vec<_> = body.usable_images().expect("sent").iter().map(|image| &image.url).collect();
        assert_eq!(urls.len(), 12);
        assert_eq!(urls.last().unwrap().as_deref(), Some("http://i/12"));
        assert!(ProductBody::default().usable_images().is_none());
    }

    #[test]
    fn a_body_is_judged_by_itself() {
        for (json, issues) in [
            (r#"{"Sku":"A","Name":"a"}"#, 0),
            (r#"{"Sku":"A","Name":"a","IsVariation":true,"IsParent":false}"#, 0),
            (r#"{"Sku":"A","Name":"a","IsVariation":true,"IsParent":true}"#, 1),
            (r#"{}"#, 2),
            (r#"{"Sku":" ","Name":"a"}"#, 1),
            (r#"{"Sku":"A","Name":"a","Warehouses":[{"QuantityOnHand":1},{"WarehouseId":2}]}"#, 1),
            (r#"{"Sku":"A","Name":"a","Warehouses":[{"WarehouseId":2},{"WarehouseId":2.0}]}"#, 1),
        ] {
            assert_eq!(body(json).own_issues().len(), issues, "{json}");
        }
    }
}
