//! Warehouses.

use crate::model::{ExchangeId, WarehouseId};
use crate::store::engine::error::SqlContext;
use crate::store::{Store, StoreError, WriteTransaction};
use serde::Serialize;
use sqlx::FromRow;

/// Warehouse of an answer (*Warehouse*).
#[derive(Clone, Debug)]
pub struct WarehouseFact {
    /// `Id`.
    pub id: WarehouseId,
    /// `Name`.
    pub name: String,
    /// `IsActive`.
    pub is_active: Option<bool>,
    /// `AccountNumber`.
    pub account_number: Option<String>,
    /// `IsSystemGenerated`.
    pub is_system_generated: Option<bool>,
    /// `Type`, possibly one that this version does not know.
    pub kind: Option<String>,
    /// `ContactInformation` as JSON.
    pub contact: Option<String>,
}

/// Warehouse, as `warehouse list` prints it.
#[derive(Clone, Debug, FromRow, Serialize)]
pub struct WarehouseRow {
    /// Warehouse.
    pub id: i64,
    /// Name.
    pub name: String,
    /// `Standard`, `Dropship`, `FulfillmentCenter`, or a type that this version does not know.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// True if it is in use.
    pub is_active: Option<bool>,
    /// Account number.
    pub account_number: Option<String>,
    /// True if the platform created it by itself.
    pub is_system_generated: Option<bool>,
    /// Time since which the platform no longer lists it, RFC 3339.
    pub missing_since: Option<String>,
}

impl Store {
    /// Lists the warehouses, also those that the platform no longer lists.
    pub async fn warehouse_list(&self) -> Result<Vec<WarehouseRow>, StoreError> {
        let sql = "SELECT id, name, type AS kind, is_active, account_number, is_system_generated, \
                       strftime('%Y-%m-%dT%H:%M:%fZ', missing_since_ms / 1000.0, 'unixepoch') AS missing_since \
                   FROM warehouse ORDER BY id";
        sqlx::query_as(sql)
            .fetch_all(&mut *self.read_connection().await?)
            .await
            .context("list the warehouses")
    }

    /// Returns the ids of the warehouses that the platform lists.
    pub async fn warehouse_ids(&self) -> Result<Vec<WarehouseId>, StoreError> {
        let sql = "SELECT id FROM warehouse WHERE missing_since_ms IS NULL ORDER BY id";
        let ids: Vec<i64> = sqlx::query_scalar(sql)
            .fetch_all(&mut *self.read_connection().await?)
            .await
            .context("read the warehouses")?;
        Ok(ids.into_iter().map(WarehouseId).collect())
    }
}

impl WriteTransaction {
    /// Records a page of warehouses and returns the number of new or changed ones.
    pub async fn mirror_warehouses(
        &mut self,
        exchange: ExchangeId,
        warehouses: &[WarehouseFact],
    ) -> Result<u64, StoreError> {
        let mut changed = 0;
        for warehouse in warehouses {
            let done = sqlx::query(
                "INSERT INTO warehouse (id, name, is_active, account_number, is_system_generated, type, contact, \
                                        exchange_id) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) \
                 ON CONFLICT (id) DO UPDATE SET name = excluded.name, is_active = excluded.is_active, \
                     account_number = excluded.account_number, \
                     is_system_generated = excluded.is_system_generated, type = excluded.type, \
                     contact = excluded.contact, exchange_id = excluded.exchange_id, missing_since_ms = NULL \
                 WHERE name <> excluded.name OR is_active IS NOT excluded.is_active \
                     OR account_number IS NOT excluded.account_number \
                     OR is_system_generated IS NOT excluded.is_system_generated \
                     OR type IS NOT excluded.type OR contact IS NOT excluded.contact \
                     OR missing_since_ms IS NOT NULL",
            )
            .bind(warehouse.id.0)
            .bind(&warehouse.name)
            .bind(warehouse.is_active)
            .bind(&warehouse.account_number)
            .bind(warehouse.is_system_generated)
            .bind(&warehouse.kind)
            .bind(&warehouse.contact)
            .bind(exchange.0)
            .execute(&mut *self.tx)
            .await
            .context("record a warehouse")?;
            changed += done.rows_affected();
        }
        Ok(changed)
    }
}
