//! `listing_template.create`: the platform's own body (docs/interface.md, *Create listing template*).
//!
//! The body must contain the storefront, because the path of the call needs it.

use super::body_fields::BodyFields;
use super::{ChangeRejection, CreateBody, CreatedThing};
use crate::model::StorefrontId;
use serde_json::{Map, Value};

pub(super) fn parse_create(map: Map<String, Value>) -> Result<CreateBody, ChangeRejection> {
    let fields = BodyFields::new(&map);
    fields.reject_unknown(&["StorefrontId", "Name", "Body", "Id"])?;
    let storefront_id = fields.required_id("StorefrontId").map(StorefrontId)?;
    let name = fields.required_text("Name")?.to_owned();
    fields.required_text("Body")?;
    fields.check_number("Id")?;
    Ok(CreateBody { thing: CreatedThing::Template(storefront_id, name), fields: map })
}

#[cfg(test)]
mod tests {
    use super::super::body::tests::assert_details;

    #[test]
    fn a_template_needs_its_storefront_a_name_and_a_body() {
        let cases = [
            (r#"{"StorefrontId":3,"Name":"N","Body":"<b>x</b>"}"#, ""),
            (r#"{"StorefrontId":3,"Name":"N","Body":"x","Id":0}"#, ""),
            (r#"{"StorefrontId":3,"Name":"N","Body":"x","Id":"7"}"#, "`Id` is \"7\"; it must be a number"),
            (r#"{"Name":"N","Body":"x"}"#, "`StorefrontId` is missing"),
            (r#"{"StorefrontId":3,"Body":"x"}"#, "`Name` is missing"),
            (r#"{"StorefrontId":3,"Name":"N"}"#, "`Body` is missing"),
            (r#"{"StorefrontId":3,"Name":"N","Body":""}"#, "`Body` is \"\""),
            (r#"{"StorefrontId":-3,"Name":"N","Body":"x"}"#, "`StorefrontId` is -3"),
            (r#"{"StorefrontID":3,"Name":"N","Body":"x"}"#, "did you mean `StorefrontId`?"),
        ];
        assert_details("listing_template.create", cases);
    }
}
