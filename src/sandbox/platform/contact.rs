//! Contacts with their address, as callers send them (docs/interface.md, *Warehouse*).
//!
//! In answers a contact has ids, and `BusinessPhone` and `MobilePhone` instead of the sent `Phone`
//! (wire.sql).

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sqlx::SqliteConnection;

use crate::sandbox::http::request::StrictObject;

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct ContactBody {
    company_name: Option<String>,
    full_name: Option<String>,
    first_name: Option<String>,
    last_name: Option<String>,
    email_address: Option<String>,
    phone: Option<String>,
    fax_number: Option<String>,
    address: Option<StrictObject<AddressBody>>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase", default)]
struct AddressBody {
    street1: Option<String>,
    street2: Option<String>,
    street3: Option<String>,
    city: Option<String>,
    state: Option<String>,
    country: Option<String>,
    zip_code: Option<String>,
    urbanization_code: Option<String>,
    is_residential: Option<bool>,
}

/// Stores a [`ContactBody`] in JSON with its address, and returns the contact's id.
pub(crate) async fn insert_contact(db: &mut SqliteConnection, contact: &Value) -> Result<i64, sqlx::Error> {
    let contact = contact.to_string();
    let insert = "INSERT INTO address
                      (street1, street2, street3, city, state, country, zip_code, urbanization_code, is_residential)
        SELECT coalesce(a->>'Street1', ''), coalesce(a->>'Street2', ''), coalesce(a->>'Street3', ''),
               coalesce(a->>'City', ''), coalesce(a->>'State', ''), coalesce(a->>'Country', ''),
               coalesce(a->>'ZipCode', ''), coalesce(a->>'UrbanizationCode', ''), coalesce(a->>'IsResidential', 0)
          FROM (SELECT ?1->'Address' AS a) RETURNING id";
    let address_id: i64 = sqlx::query_scalar(insert).bind(&contact).fetch_one(&mut *db).await?;
    let insert = "INSERT INTO contact
                      (address_id, company_name, full_name, first_name, last_name, email_address, business_phone,
                       fax_number)
        SELECT ?2, coalesce(c->>'CompanyName', ''), coalesce(c->>'FullName', ''), coalesce(c->>'FirstName', ''),
               coalesce(c->>'LastName', ''), coalesce(c->>'EmailAddress', ''), coalesce(c->>'Phone', ''),
               coalesce(c->>'FaxNumber', '')
          FROM (SELECT ?1 AS c) RETURNING id";
    sqlx::query_scalar(insert).bind(&contact).bind(address_id).fetch_one(db).await
}
