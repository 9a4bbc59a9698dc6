//! The list of suppliers.

use super::error::Doing;
use super::{Store, StoreError, Write};
use crate::model::{ExchangeId, SupplierId};
use serde::Serialize;
use sqlx::FromRow;

/// The service's word on one supplier (*Supplier*).
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

/// A supplier, as `supplier list` prints it.
#[derive(Clone, Debug, FromRow, Serialize)]
pub struct SupplierRow {
    /// The supplier.
    pub id: i64,
    /// Its name.
    pub name: Option<String>,
    /// Its account number.
    pub account_number: Option<String>,
    /// Whether it is in use.
    pub is_active: Option<bool>,
    /// Its address on the web.
    pub supplier_url: Option<String>,
    /// Since when the service no longer lists it, RFC 3339.
    pub missing_since: Option<String>,
}

impl Store {
    /// The suppliers, also those the service no longer lists.
    pub async fn supplier_list(&self) -> Result<Vec<SupplierRow>, StoreError> {
        let sql = "SELECT id, name, account_number, is_active, url AS supplier_url, \
                       strftime('%Y-%m-%dT%H:%M:%fZ', missing_since_ms / 1000.0, 'unixepoch') AS missing_since \
                   FROM supplier ORDER BY id";
        sqlx::query_as(sql).fetch_all(&mut *self.read().await?).await.doing("list the suppliers")
    }
}

impl Write {
    /// Records suppliers of one page of the list; how many are new or changed is returned.
    pub async fn mirror_suppliers(
        &mut self,
        exchange: ExchangeId,
        suppliers: &[SupplierFact],
    ) -> Result<u64, StoreError> {
        let sql = "INSERT INTO supplier (id, name, account_number, is_active, url, exchange_id) \
                   SELECT value->>'id', value->>'name', value->>'account_number', value->>'is_active', \
                          value->>'url', ?2 FROM json_each(?1) WHERE true \
                   ON CONFLICT (id) DO UPDATE SET name = excluded.name, account_number = excluded.account_number, \
                       is_active = excluded.is_active, url = excluded.url, exchange_id = excluded.exchange_id, \
                       missing_since_ms = NULL \
                   WHERE (name, account_number, is_active, url) \
                       IS NOT (excluded.name, excluded.account_number, excluded.is_active, excluded.url) \
                       OR missing_since_ms IS NOT NULL";
        let query = sqlx::query(sql).bind(super::cells::json(suppliers)).bind(exchange.0);
        Ok(query.execute(&mut *self.tx).await.doing("record suppliers")?.rows_affected())
    }
}
