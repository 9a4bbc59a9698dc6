//! Storefronts: *List storefronts*, which lists the active ones.

use super::PageParams;
use super::codec::envelope::{DecodedAnswer, MalformedBody, decode_list};
use super::codec::lenient;
use crate::client::PlatformRequest;
use crate::model::{Operation, StorefrontId};
use serde::Deserialize;

/// A storefront (*Storefront*).
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Storefront {
    /// The storefront.
    #[serde(rename = "Id", deserialize_with = "lenient::req")]
    pub id: StorefrontId,
    /// Its name.
    #[serde(rename = "Name", default, deserialize_with = "lenient::opt")]
    pub name: Option<String>,
    /// True if the storefront is in use.
    #[serde(rename = "IsActive", default, deserialize_with = "lenient::opt")]
    pub is_active: Option<bool>,
    /// The kind of channel.
    #[serde(rename = "Type", default, deserialize_with = "lenient::opt")]
    pub kind: Option<String>,
    /// Free-form properties, as received JSON.
    #[serde(rename = "StorefrontProperties", default, deserialize_with = "lenient::json")]
    pub properties: Option<String>,
}

/// Requests a page of the storefronts (*List storefronts*).
pub fn list_storefronts(paging: PageParams) -> PlatformRequest {
    PlatformRequest::new(Operation::ListStorefronts).with_page(paging)
}

/// Reads the answer of *List storefronts*.
pub fn decode_storefronts(body: &[u8]) -> Result<DecodedAnswer<Storefront>, MalformedBody> {
    decode_list("the list of storefronts", body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_form_properties_are_kept_as_they_came() {
        let body = br#"{"data":[{"Id":3,"StorefrontProperties":{"b":1.50,"a":[]}},{"Id":4,"StorefrontProperties":null}]}"#;
        let decoded = decode_storefronts(body).unwrap();
        assert_eq!(decoded.records[0].properties.as_deref(), Some(r#"{"b":1.50,"a":[]}"#));
        assert_eq!(decoded.records[1].properties, None);
    }
}
