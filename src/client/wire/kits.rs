//! Kits: *Get kit components*.

use super::Product;
use super::codec::envelope::{DecodedAnswer, MalformedBody, decode_list};
use super::codec::lenient;
use crate::client::PlatformRequest;
use crate::model::{Operation, ProductId};
use serde::Deserialize;

/// A component of a kit (*Get kit components*).
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct KitComponent {
    /// The component.
    #[serde(rename = "Id", deserialize_with = "lenient::req")]
    pub id: i64,
    /// Units of the component in one kit.
    #[serde(rename = "QuantityForKit", deserialize_with = "lenient::req")]
    pub quantity_for_kit: f64,
    /// The product of the component, if readable.
    #[serde(rename = "Product", default, deserialize_with = "lenient::nested")]
    pub product: Option<Product>,
}

/// Requests a kit's components (*Get kit components*).
pub fn kit_components(kit: ProductId) -> PlatformRequest {
    PlatformRequest::with_ids(Operation::KitComponents, &[kit.0])
}

/// Reads the answer of *Get kit components*.
pub fn decode_kit_components(body: &[u8]) -> Result<DecodedAnswer<KitComponent>, MalformedBody> {
    decode_list("the kit's components", body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_is_kept_without_its_product_but_not_without_its_quantity() {
        let body =
            br#"{"data":[{"Id":1.0,"QuantityForKit":2.0,"Product":{"Id":3,"Sku":"A","ReorderLevel":5.5}},
            {"Id":2,"QuantityForKit":1,"Product":{"Id":"?"}},{"Id":4}]}"#;
        let decoded = decode_kit_components(body).unwrap();
        let product = decoded.records[0].product.as_ref().unwrap();
        assert_eq!((product.sku.as_str(), product.reorder_level), ("A", Some(5.5)));
        assert_eq!((decoded.records[1].id, &decoded.records[1].product), (2, &None));
        assert_eq!(decoded.parked[0].index, 2);
        assert_eq!(kit_components(ProductId(9)).path, "/api/Inventory/9/kitcomponents");
    }
}
