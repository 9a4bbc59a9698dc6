//! Contacts with their address, as callers send them (docs/interface.md, *Warehouse*).
//!
//! In answers a contact has ids, and `BusinessPhone` and `MobilePhone` instead of the sent `Phone`
//! (wire.sql).

use serde::{Deserialize, Serialize};
use sqlx::SqliteConnection;

use crate::sandbox::http::request::deserialize_object;

/// A contact as it is sent; absent fields are empty.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase", default)]
pub(in crate::sandbox) struct ContactBody {
    pub(in crate::sandbox) company_name: Option<String>,
    pub(in crate::sandbox) full_name: Option<String>,
    pub(in crate::sandbox) first_name: Option<String>,
    pub(in crate::sandbox) last_name: Option<String>,
    pub(in crate::sandbox) email_address: Option<String>,
    pub(in crate::sandbox) phone: Option<String>,
    pub(in crate::sandbox) fax_number: Option<String>,
    #[serde(deserialize_with = "deserialize_object")]
    pub(in crate::sandbox) address: Option<AddressBody>,
}

/// An address as it is sent.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase", default)]
pub(in crate::sandbox) struct AddressBody {
    pub(in crate::sandbox) street1: Option<String>,
    pub(in crate::sandbox) street2: Option<String>,
    pub(in crate::sandbox) street3: Option<String>,
    pub(in crate::sandbox) city: Option<String>,
    pub(in crate::sandbox) state: Option<String>,
    pub(in crate::sandbox) country: Option<String>,
    pub(in crate::sandbox) zip_code: Option<String>,
    pub(in crate::sandbox) urbanization_code: Option<String>,
    pub(in crate::sandbox) is_residential: Option<bool>,
}

impl ContactBody {
    /// Stores the contact with its address and returns the contact's id.
    pub(in crate::sandbox) async fn insert_contact(
        &self,
        db: &mut SqliteConnection,
    ) -> Result<i64, sqlx::Error> {
        let contact = serde_json::json!(self).to_string();
        let address_id: i64 = sqlx::query_scalar(
            "INSERT INTO address (street1, street2, street3, city, state, country, zip_code, urbanization_code,
                                  is_residential)
             SELECT coalesce(a->>'Street1', ''), coalesce(a->>'Street2', ''), coalesce(a->>'Street3', ''),
                    coalesce(a->>'City', ''), coalesce(a->>'State', ''), coalesce(a->>'Country', ''),
                    coalesce(a->>'ZipCode', ''), coalesce(a->>'UrbanizationCode', ''), coalesce(a->>'IsResidential', 0)
               FROM (SELECT ?1->'Address' AS a) RETURNING id",
        )
        .bind(&contact)
        .fetch_one(&mut *db)
        .await?;
        sqlx::query_scalar(
            "INSERT INTO contact (address_id, company_name, full_name, first_name, last_name, email_address,
                                  business_phone, fax_number)
             SELECT ?2, coalesce(c->>'CompanyName', ''), coalesce(c->>'FullName', ''), coalesce(c->>'FirstName', ''),
                    coalesce(c->>'LastName', ''), coalesce(c->>'EmailAddress', ''), coalesce(c->>'Phone', ''),
                    coalesce(c->>'FaxNumber', '')
               FROM (SELECT ?1 AS c) RETURNING id",
        )
        .bind(&contact)
        .bind(address_id)
        .fetch_one(db)
        .await
    }
}
