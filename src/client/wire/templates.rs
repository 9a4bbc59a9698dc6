//! Listing templates: *Create listing template* and *List listing templates*.

use super::codec::decode_list;
use super::codec::lenient::{self, LenientObject};
use super::{DecodedAnswer, MalformedBody, PageParams, WriteAnswer};
use crate::client::PlatformRequest;
use crate::model::{Operation, StorefrontId};
use serde::{Deserialize, Serialize};

/// A listing template (*ListingTemplate*). The mirror stores it under the names of its fields.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub(crate) struct ListingTemplate {
    #[serde(rename(deserialize = "Id"), deserialize_with = "lenient::req")]
    pub id: i64,
    #[serde(rename(deserialize = "StorefrontId"), default, deserialize_with = "lenient::opt")]
    storefront_id: Option<StorefrontId>,
    #[serde(rename(deserialize = "Name"), default, deserialize_with = "lenient::strict")]
    pub name: Option<String>,
    /// Text of the template, which may contain markup.
    #[serde(rename(deserialize = "Body"), default, deserialize_with = "lenient::strict")]
    pub body: Option<String>,
}

/// Requests a new template from the platform's own body (*Create listing template*).
pub(crate) fn create_listing_template(storefront: StorefrontId, body: &impl Serialize) -> PlatformRequest {
    PlatformRequest::with_ids(Operation::CreateListingTemplate, &[storefront.0]).with_json(body)
}

/// Reads the answer of *Create listing template*, which has no envelope.
pub(crate) fn decode_created_template(body: &[u8]) -> Result<WriteAnswer<ListingTemplate>, MalformedBody> {
    let read = serde_json::from_slice(body).map(|LenientObject(answer)| answer);
    read.map_err(|error| MalformedBody::new("the new listing template", error))
}

/// Requests a page of a storefront's templates (*List listing templates*). With `name`,
/// only templates whose name contains it.
pub(crate) fn list_listing_templates(
    storefront: StorefrontId,
    name: Option<&str>,
    paging: PageParams,
) -> PlatformRequest {
    PlatformRequest::with_ids(Operation::ListListingTemplates, &[storefront.0])
        .with_query("name", name)
        .with_page(paging)
}

pub(crate) fn decode_listing_templates(
    body: &[u8],
    asked: StorefrontId,
) -> Result<DecodedAnswer<ListingTemplate>, MalformedBody> {
    let is_asked = |template: &ListingTemplate| template.storefront_id.is_none_or(|named| named == asked);
    decode_list("the list of listing templates", body, is_asked)
}

#[cfg(test)]
mod tests {
    use super::super::WriteOutcome::{Done, Refused, Unclear};
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn the_storefront_is_in_the_path_and_the_body_is_sent_as_given() {
        let body = json!({"StorefrontId": 12, "Name": "n", "Body": "<b>&</b>"});
        let request = create_listing_template(StorefrontId(12), &body);
        assert_eq!(request.path, "/api/storefronts/12/listingTemplates");
        assert_eq!(serde_json::from_slice::<Value>(&request.body.unwrap()).unwrap(), body);
    }

    #[test]
    fn a_template_is_done_only_with_the_flag_and_the_record() {
        let cases = [
            (r#"{"ListingTemplate":{"Id":1,"Name":"n"},"WasSuccessful":true,"Messages":null}"#, Done),
            (r#"{"ListingTemplate":{},"WasSuccessful":false,"Messages":["Name is missing"]}"#, Refused),
            (r#"{"ListingTemplate":null,"WasSuccessful":true}"#, Unclear),
            (r#"{"ListingTemplate":{"Id":1}}"#, Unclear),
        ];
        for (body, outcome) in cases {
            assert_eq!(decode_created_template(body.as_bytes()).unwrap().outcome(), outcome, "{body}");
        }
    }

    #[test]
    fn the_name_is_sent_as_a_filter_only_if_given() {
        let (all, page) = ("/api/storefronts/1/listingTemplates?", "pageNumber=1&resultsPerPage=200");
        let target = |name| list_listing_templates(StorefrontId(1), name, PageParams::FIRST).target();
        assert_eq!(target(Some("a&b")), format!("{all}name=a&b&{page}"));
        assert_eq!(target(None), format!("{all}{page}"));
    }
}
