//! `warehouse.create`: the platform's own body (docs/interface.md, *Create warehouse*).
//!
//! The platform accepts no unlisted property.

use super::Rejection;
use super::body_fields::Fields;
use serde_json::{Map, Value};

/// Limits of docs/interface.md, in characters.
const NAME_MAX_CHARS: usize = 100;
const ACCOUNT_NUMBER_MAX_CHARS: usize = 255;

const CONTACT_TEXTS: [&str; 7] =
    ["CompanyName", "FullName", "FirstName", "LastName", "EmailAddress", "Phone", "FaxNumber"];
const ADDRESS_TEXTS: [&str; 8] =
    ["Street1", "Street2", "Street3", "City", "State", "Country", "ZipCode", "UrbanizationCode"];

/// A warehouse to create.
#[derive(Clone, Debug, PartialEq)]
pub struct WarehouseCreate {
    /// Name, by which the preflight and the check find the warehouse (docs/rules.md 26).
    pub name: String,
    /// Body to send, as inserted.
    pub fields: Map<String, Value>,
}

impl WarehouseCreate {
    pub(super) fn read(map: Map<String, Value>) -> Result<Self, Rejection> {
        let fields = Fields::new(&map);
        fields.only(&["Name", "AccountNumber", "Type", "Note", "ContactInformation"])?;
        let name = fields.required("Name", fields.text("Name")?)?.to_owned();
        fields.text_up_to("Name", NAME_MAX_CHARS)?;
        fields.text_up_to("AccountNumber", ACCOUNT_NUMBER_MAX_CHARS)?;
        fields.word("Type", &["Standard", "Dropship", "FulfillmentCenter"])?;
        fields.texts(&["Note"])?;
        contact(&fields)?;
        Ok(Self { name, fields: map })
    }
}

fn contact(fields: &Fields<'_>) -> Result<(), Rejection> {
    let Some(contact) = fields.object("ContactInformation")? else { return Ok(()) };
    contact.only(&[&CONTACT_TEXTS[..], &["Address"]].concat())?;
    contact.texts(&CONTACT_TEXTS)?;
    let Some(address) = contact.object("Address")? else { return Ok(()) };
    address.only(&[&ADDRESS_TEXTS[..], &["IsResidential"]].concat())?;
    address.texts(&ADDRESS_TEXTS)?;
    address.flag("IsResidential").map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    #[test]
    fn a_warehouse_with_everything_is_taken_as_it_came() {
        let body = r#"{"Name":"Dock 2","AccountNumber":"","Type":"FulfillmentCenter","Note":"n",
            "ContactInformation":{"FullName":"A B","Address":{"City":"C","IsResidential":false}}}"#;
        match parse("warehouse.create", body).unwrap() {
            super::super::Body::WarehouseCreate(warehouse) => {
                assert_eq!(warehouse.name, "Dock 2");
                assert_eq!(
                    warehouse.fields,
                    *serde_json::from_str::<serde_json::Value>(body).unwrap().as_object().unwrap()
                );
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_limits_are_counted_in_characters() {
        for (chars, good) in [(0, false), (1, true), (100, true), (101, false)] {
            let body = format!(r#"{{"Name":"{}"}}"#, "é".repeat(chars));
            assert_eq!(parse("warehouse.create", &body).is_ok(), good, "{chars}");
        }
        for (chars, good) in [(255, true), (256, false)] {
            let body = format!(r#"{{"Name":"A","AccountNumber":"{}"}}"#, "é".repeat(chars));
            assert_eq!(parse("warehouse.create", &body).is_ok(), good, "{chars}");
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
        for (body, expected) in cases {
            let rejection = parse("warehouse.create", body).unwrap_err();
            assert!(rejection.detail.contains(expected), "{body}: {}", rejection.detail);
        }
    }
}
