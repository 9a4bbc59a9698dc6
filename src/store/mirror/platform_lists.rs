//! Common parts of all lists: the known records, and those that a complete list no longer holds.
//!
//! A record that a complete list lacks is marked missing, never deleted. That is a decision, so its event is
//! appended before the facts change. The facts of listed records need no event.

use super::stock_levels::{json_rows, json_rows_by_key};
use crate::model::{ExchangeId, ShipmentId, StorefrontId, Timestamp, WarehouseId};
use crate::store::{Result, Store, StoreError, WriteTransaction};
use serde::Serialize;
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;

/// Event of records that a complete list no longer holds.
pub(in crate::store) const LIST_MISSING: &str = "missing";

/// List that the platform returns in pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlatformList {
    Warehouses,
    Suppliers,
    Storefronts,
    /// *List listing templates* of one storefront.
    Templates(StorefrontId),
    /// *Get shipment line items* of one shipment.
    ShipmentItems(ShipmentId),
    /// *Business health*, all months. A month never becomes missing.
    HealthMonths,
}

struct ListTable {
    table: &'static str,
    /// Columns of the key; the last is the record's id.
    key: &'static str,
    /// Columns besides the key, as [`upsert_records`] takes them.
    columns: &'static str,
    /// Column of the owner's id; empty without one.
    owner_column: &'static str,
    /// SQL condition that selects the list's records; `$1` is the id of their owner, NULL without one.
    scope: &'static str,
    owner: Option<i64>,
}

impl PlatformList {
    fn event_subject(self) -> String {
        let ListTable { table, owner, .. } = self.list_table();
        owner.map_or_else(|| table.to_owned(), |owner| format!("{table}/{owner}"))
    }

    /// Parses a list's name in the journal; business health is none, because its months never become missing.
    fn from_subject(subject: &str) -> Option<Self> {
        let (table, owner) = subject.split_once('/').unwrap_or((subject, ""));
        let owner: Option<i64> = owner.parse().ok();
        let owner_id = owner.unwrap_or(0);
        let lists = [
            Self::Warehouses,
            Self::Suppliers,
            Self::Storefronts,
            Self::Templates(StorefrontId(owner_id)),
            Self::ShipmentItems(ShipmentId(owner_id)),
        ];
        lists.into_iter().find(|list| {
            let known = list.list_table();
            (known.table, known.owner) == (table, owner)
        })
    }

    fn id_column(self) -> &'static str {
        let key = self.list_table().key;
        key.rsplit(", ").next().unwrap_or(key)
    }

    fn list_table(self) -> ListTable {
        const ALL: &str = "missing_since_ms IS NULL AND CAST($1 AS BIGINT) IS NULL";
        let list = |table, columns| ListTable {
            table,
            key: "id",
            columns,
            owner_column: "",
            scope: ALL,
            owner: None,
        };
        match self {
            Self::Warehouses => list(
                "warehouse",
                "name TEXT NOT NULL, is_active BOOLEAN, account_number, is_system_generated BOOLEAN, type, contact",
            ),
            Self::Suppliers => list("supplier", "name, account_number, is_active BOOLEAN, url"),
            Self::Storefronts => list("storefront", "name, is_active BOOLEAN, type, properties"),
            Self::Templates(StorefrontId(owner)) => ListTable {
                owner_column: "storefront_id",
                scope: "missing_since_ms IS NULL AND storefront_id = $1",
                owner: Some(owner),
                ..list("listing_template", "storefront_id, name, body")
            },
            Self::ShipmentItems(ShipmentId(owner)) => ListTable {
                key: "shipment_id, item_id",
                owner_column: "shipment_id",
                scope: "missing_since_ms IS NULL AND shipment_id = $1",
                owner: Some(owner),
                ..list(
                    "shipment_line",
                    "line_item_id BIGINT, sku, product_id BIGINT, quantity BIGINT, is_shipped BOOLEAN, \
                     is_confirmed BOOLEAN, carrier_id BIGINT, carrier_name, tracking_number, tracking_url, \
                     estimated_delivery_ms BIGINT",
                )
            },
            Self::HealthMonths => {
                ListTable { key: "month", scope: "CAST($1 AS BIGINT) IS NULL", ..list("business_health", "") }
            }
        }
    }
}

/// Returns SQL that records the JSON list `$1` of the exchange `$2` in a table and writes only new and
/// different rows. The columns are keys of the JSON objects, except `owner`, which is `$3` in all rows. A
/// column that is no text is followed by its type, as in `quantity BIGINT`; those of the key are integers. A
/// missing text is stored as an empty one if the column is `NOT NULL`.
pub(super) fn upsert_records(table: &str, owner: &str, key: &str, columns: &str) -> String {
    let columns: Vec<(&str, &str)> =
        columns.split(", ").map(|column| column.split_once(' ').unwrap_or((column, "TEXT"))).collect();
    let value = |(column, kind): (&str, &str)| match column == owner {
        true => "$3".to_owned(),
        false => match kind.strip_suffix(" NOT NULL") {
            Some(kind) => format!("coalesce(CAST(value->>'{column}' AS {kind}), '')"),
            None => format!("CAST(value->>'{column}' AS {kind})"),
        },
    };
    let typed = key.split(", ").map(|column| (column, "BIGINT")).chain(columns.iter().copied());
    let values = typed.map(value).collect::<Vec<_>>().join(", ");
    let list_of = |row: &str| -> String {
        columns.iter().map(|(column, _)| format!("{row}{column}")).collect::<Vec<_>>().join(", ")
    };
    let (names, stored, excluded) = (list_of(""), list_of(&format!("{table}.")), list_of("excluded."));
    format!(
        "INSERT INTO {table} ({key}, {names}, exchange_id) SELECT {values}, $2 FROM json_each($1) WHERE true \
         ON CONFLICT ({key}) DO UPDATE SET ({names}) = ({excluded}), exchange_id = excluded.exchange_id, \
             missing_since_ms = NULL \
         WHERE ({stored}) IS DISTINCT FROM ({excluded}) OR {table}.missing_since_ms IS NOT NULL"
    )
}

impl Store {
    /// Returns the records of a list, also those that the platform no longer lists, in the order of two columns.
    async fn listed_records(&self, table: &str, columns: &str) -> Result<Vec<Value>> {
        let sql = format!(
            "SELECT {columns}, strftime('%Y-%m-%dT%H:%M:%fZ', missing_since_ms / 1000.0, 'unixepoch') AS missing_since \
             FROM {table} ORDER BY 1, 2"
        );
        self.fetch_objects(AssertSqlSafe(sql), (), "list the records of a list").await
    }

    pub(crate) async fn warehouse_list(&self) -> Result<Vec<Value>> {
        let columns = "id, name, type, is_active, account_number, is_system_generated";
        self.listed_records("warehouse", columns).await
    }

    pub(crate) async fn supplier_list(&self) -> Result<Vec<Value>> {
        self.listed_records("supplier", "id, name, account_number, is_active, url AS supplier_url").await
    }

    pub(crate) async fn storefront_list(&self) -> Result<Vec<Value>> {
        self.listed_records("storefront", "id, name, type, is_active, properties").await
    }

    /// Lists the listing templates of all storefronts.
    pub(crate) async fn template_list(&self) -> Result<Vec<Value>> {
        self.listed_records("listing_template", "storefront_id, id, name, body").await
    }

    /// Returns id and name of the warehouses that the platform lists.
    pub(crate) async fn warehouse_names(&self) -> Result<Vec<(i64, String)>> {
        let sql = "SELECT id, name FROM warehouse WHERE missing_since_ms IS NULL ORDER BY id";
        self.fetch_all(sql, (), "read the warehouses").await
    }

    /// Returns the ids of the warehouses that the platform lists.
    pub async fn warehouse_ids(&self) -> Result<Vec<WarehouseId>> {
        Ok(self.warehouse_names().await?.into_iter().map(|(id, _)| WarehouseId(id)).collect())
    }

    /// Returns the storefronts that the platform lists.
    pub(crate) async fn storefront_ids(&self) -> Result<Vec<StorefrontId>> {
        let sql = "SELECT id FROM storefront WHERE missing_since_ms IS NULL ORDER BY id";
        self.fetch_column(sql, (), "read the storefronts").await
    }

    /// Returns id and name of the listing templates that the platform lists for a storefront.
    pub(crate) async fn template_names(&self, of: StorefrontId) -> Result<Vec<(i64, Option<String>)>> {
        let sql = "SELECT id, name FROM listing_template WHERE storefront_id = $1 AND missing_since_ms IS NULL \
                   ORDER BY id";
        self.fetch_all(sql, (of,), "read the listing templates of a storefront").await
    }

    /// Returns the number of the list's known records that are not missing.
    pub(crate) async fn list_known_count(&self, list: PlatformList) -> Result<i64> {
        let ListTable { table, scope, owner, .. } = list.list_table();
        let sql = format!("SELECT count(*) FROM {table} WHERE {scope}");
        self.fetch_value(AssertSqlSafe(sql), (owner,), "count the known records of a list").await
    }
}

impl WriteTransaction {
    /// Records a page of a list and returns the number of new or changed records. The rows are JSON objects
    /// with the table's columns as keys.
    pub(crate) async fn mirror_list<T: Serialize>(
        &mut self,
        list: PlatformList,
        exchange: ExchangeId,
        rows: &[T],
    ) -> Result<u64> {
        let ListTable { table, key, columns, owner_column, owner, .. } = list.list_table();
        let sql = upsert_records(table, owner_column, key, columns);
        self.record_rows(sql, (rows, list.id_column()), (exchange, owner), "record a page of a list").await
    }

    /// Records rows by a text of [`upsert_records`], which may repeat the value of the column `id`, and
    /// returns the number of new or changed ones.
    pub(super) async fn record_rows<T: Serialize>(
        &mut self,
        sql: String,
        (rows, id): (&[T], &str),
        (exchange, owner): (ExchangeId, Option<i64>),
        action: &'static str,
    ) -> Result<u64> {
        let rows: Vec<Value> = rows.iter().map(|row| json!(row)).collect();
        let values = (json_rows_by_key(&rows, |row| row[id].as_i64()), exchange, owner);
        self.execute_counting(AssertSqlSafe(sql), values, action).await
    }

    /// Marks the records missing that a completely read list no longer holds, and returns their number.
    ///
    /// Must not be called for a truncated list, nor for an empty one where records are known.
    pub(crate) async fn list_complete(
        &mut self,
        list: PlatformList,
        listed: &[i64],
        at: Timestamp,
    ) -> Result<u64> {
        if list == PlatformList::HealthMonths {
            return Ok(0);
        }
        let (id, ListTable { table, scope, owner, .. }) = (list.id_column(), list.list_table());
        let sql = format!(
            "SELECT {id} FROM {table} WHERE {scope} AND {id} \
             NOT IN (SELECT CAST(atom AS BIGINT) FROM json_each($2)) ORDER BY {id}"
        );
        let values = (owner, json_rows(listed));
        let missing: Vec<i64> =
            self.fetch_column(AssertSqlSafe(sql), values, "find the missing records of a list").await?;
        if !missing.is_empty() {
            self.fact_decide(at, LIST_MISSING, &list.event_subject(), Some(&json_rows(&missing))).await?;
        }
        Ok(missing.len() as u64)
    }

    /// Applies the event [`LIST_MISSING`].
    pub(in crate::store) async fn apply_list_event(
        &mut self,
        subject: &str,
        detail: &str,
        at: Timestamp,
    ) -> Result<()> {
        let list = PlatformList::from_subject(subject)
            .ok_or_else(|| StoreError::UnknownValue("an event of a list", subject.to_owned()))?;
        let (id, ListTable { table, scope, owner, .. }) = (list.id_column(), list.list_table());
        let sql = format!(
            "UPDATE {table} SET missing_since_ms = $3 \
             WHERE {scope} AND {id} IN (SELECT CAST(atom AS BIGINT) FROM json_each($2))"
        );
        self.execute(AssertSqlSafe(sql), (owner, detail, at.0), "mark the missing records of a list").await
    }
}
