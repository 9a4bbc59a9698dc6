//! `warehouse.create`: the platform's own body (docs/interface.md, *Create warehouse*).
//!
//! The platform accepts no unlisted property.

use super::body_fields::BodyFields;
use super::{ChangeRejection, CreateBody, CreatedThing};
use serde_json::{Map, Value};

const CONTACT_TEXTS: [&str; 7] =
    ["CompanyName", "FullName", "FirstName", "LastName", "EmailAddress", "Phone", "FaxNumber"];
const ADDRESS_TEXTS: [&str; 8] =
    ["Street1", "Street2", "Street3", "City", "State", "Country", "ZipCode", "UrbanizationCode"];

pub(super) fn parse_create(map: Map<String, Value>) -> Result<CreateBody, ChangeRejection> {
    let fields = BodyFields::new(&map);
    fields.reject_unknown(&["Name", "AccountNumber", "Type", "Note", "ContactInformation"])?;
    let name = fields.required_text("Name")?.to_owned();
    fields.check_text_length("Name", 100)?;
    fields.check_text_length("AccountNumber", 255)?;
    fields.listed_code("Type", &["Standard", "Dropship", "FulfillmentCenter"])?;
    fields.check_texts(&["Note"])?;
    check_contact(&fields)?;
    Ok(CreateBody { thing: CreatedThing::Warehouse(name), fields: map })
}

fn check_contact(fields: &BodyFields<'_>) -> Result<(), ChangeRejection> {
    let Some(contact) = fields.nested_object("ContactInformation")? else { return Ok(()) };
    contact.reject_unknown(&[&CONTACT_TEXTS[..], &["Address"]].concat())?;
    contact.check_texts(&CONTACT_TEXTS)?;
    let Some(address) = contact.nested_object("Address")? else { return Ok(()) };
    address.reject_unknown(&[&ADDRESS_TEXTS[..], &["IsResidential"]].concat())?;
    address.check_texts(&ADDRESS_TEXTS)?;
    address.optional_flag("IsResidential").map(drop)
}

#[cfg(test)]
mod tests {
    use super::super::body::tests::assert_details;
    use super::super::{ChangeBody, parse_body};
    use serde_json::Value;

    #[test]
    fn a_warehouse_with_everything_is_taken_as_it_came() {
        let body = r#"{"Name":"Dock 2","AccountNumber":"","Type":"FulfillmentCenter","Note":"n",
            "ContactInformation":{"FullName":"A B","Address":{"City":"C","IsResidential":false}}}"#;
        let ChangeBody::Create(warehouse) = parse_body("warehouse.create", body).unwrap() else { panic!() };
        assert_eq!(warehouse.name(), "Dock 2");
        assert_eq!(Value::Object(warehouse.fields), serde_json::from_str::<Value>(body).unwrap());
    }

    #[test]
    fn the_limits_are_counted_in_characters() {
        for (chars, good) in [(0, false), (1, true), (100, true), (101, false)] {
            let body = format!(r#"{{"Name":"{}"}}"#, "é".repeat(chars));
            assert_eq!(parse_body("warehouse.create", &body).is_ok(), good, "{chars}");
        }
        for (chars, good) in [(255, true), (256, false)] {
            let body = format!(r#"{{"Name":"A","AccountNumber":"{}"}}"#, "é".repeat(chars));
            assert_eq!(parse_body("warehouse.create", &body).is_ok(), good, "{chars}");
        }
    }

    #[test]
    fn a_property_that_is_not_listed_is_refused_at_every_depth() {
        let cases = [
            (r#"{"Name":"A","IsActive":true}"#, "no field `IsActive`"),
            (r#"{"name":"A"}"#, "did you mean `Name`?"),
            (r#"{"Name":"A","Type":"standard"}"#, "one of Standard, Dropship, FulfillmentCenter"),
            (r#"{"Name":"A","Note":5}"#, "`Note` is 5; it must be a text"),
            (r#"{"Name":"A","ContactInformation":{"MobilePhone":"1"}}"#, "`ContactInformation.MobilePhone`"),
            (r#"{"Name":"A","ContactInformation":{"Address":{"Zip":"1"}}}"#, "did you mean `ZipCode`?"),
            (r#"{"Name":"A","ContactInformation":{"Address":{"IsResidential":"no"}}}"#, "true or false"),
        ];
        assert_details("warehouse.create", cases);
    }
}
