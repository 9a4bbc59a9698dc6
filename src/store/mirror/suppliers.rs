//! Suppliers.

use super::platform_lists::upsert_records;
use crate::model::{ExchangeId, SupplierId};
use crate::store::{Result, Store, WriteTransaction};
use serde::Serialize;
use sqlx_macros::FromRow;

/// Supplier of an answer (*Supplier*).
#[derive(Clone, Debug, Serialize)]
pub struct SupplierFact {
    /// `Id`.
    pub id: SupplierId,
    /// `Name`.
    pub name: Option<String>,
    /// `AccountNumber`.
    pub account_number: Option<String>,
    /// `IsActive`.
    pub is_active: Option<bool>,
    /// `SupplierUrl`.
    pub url: Option<String>,
}

/// Supplier, as `supplier list` prints it.
#[derive(Clone, Debug, FromRow, Serialize)]
pub struct SupplierRow {
    /// Supplier.
    pub id: i64,
    /// Name.
    pub name: Option<String>,
    /// Account number.
    pub account_number: Option<String>,
    /// True if it is in use.
    pub is_active: Option<bool>,
    /// Web address.
    pub supplier_url: Option<String>,
    /// Time since which the platform no longer lists it, RFC 3339.
    pub missing_since: Option<String>,
}

impl Store {
    /// Lists the suppliers, also those that the platform no longer lists.
    pub async fn supplier_list(&self) -> Result<Vec<SupplierRow>> {
        let sql = "SELECT id, name, account_number, is_active, url AS supplier_url, \
                       strftime('%Y-%m-%dT%H:%M:%fZ', missing_since_ms / 1000.0, 'unixepoch') AS missing_since \
                   FROM supplier ORDER BY id";
        self.fetch_all(sql, (), "list the suppliers").await
    }
}

impl WriteTransaction {
    /// Records a page of suppliers and returns the number of new or changed ones.
    pub async fn mirror_suppliers(
        &mut self,
        exchange: ExchangeId,
        suppliers: &[SupplierFact],
    ) -> Result<u64> {
        let sql = upsert_records("supplier", "", "id", "name, account_number, is_active BOOLEAN, url");
        self.record_rows(sql, (suppliers, |row| row.id.0), (exchange, None), "record suppliers").await
    }
}
