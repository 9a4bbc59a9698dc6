//! Fact tables: the tables that replay, snapshots and the journal's diff work with.
//!
//! All columns of a fact table are compared, also those of later migrations, except those that
//! docs/rules.md 21 leaves out. Row ids are replaced by the platform's names. The list, and that of all other
//! tables, is compared with the schema by the test `every_table_is_a_fact_or_has_a_reason_not_to_be`.

use crate::store::engine::error::SqlContext as _;
use crate::store::engine::table_rows::{TableColumns, TableSum, read_rows, to_json};
use crate::store::{JournalReader, Result};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;

#[derive(Clone, Copy, Debug)]
pub(crate) struct FactTable {
    pub name: &'static str,
    key: &'static [&'static str],
    /// Columns that are no facts, each with the SQL compared in its place; empty: the column is left out.
    substitutes: &'static [(&'static str, &'static str)],
}

const fn fact_table(name: &'static str, key: &'static [&'static str]) -> FactTable {
    FactTable { name, key, substitutes: &[] }
}

const READ_EXCHANGE: &str = "(SELECT r.exchange_id FROM read_batch r WHERE r.id = product.read_batch_id)";
const FACT_EXCHANGE: &str = "coalesce(fact_exchange_id, (SELECT r.exchange_id FROM product p \
    JOIN read_batch r ON r.id = p.read_batch_id WHERE p.id = balance.product))";
const FACT_MS: &str = "coalesce(fact_ms, (SELECT r.observed_ms FROM product p \
    JOIN read_batch r ON r.id = p.read_batch_id WHERE p.id = balance.product))";

/// Tables of facts. A read batch is compared with the products that point to it.
pub(crate) const FACT_TABLES: &[FactTable] = &[
    FactTable {
        name: "product",
        key: &["sku"],
        substitutes: &[
            ("id", ""),
            ("alias_of", "(SELECT p.sku FROM product p WHERE p.id = product.alias_of)"),
            ("read_batch_id", READ_EXCHANGE),
            ("digest", ""),
        ],
    },
    FactTable {
        name: "balance",
        key: &["product", "warehouse_id"],
        substitutes: &[
            ("product", "(SELECT p.sku FROM product p WHERE p.id = balance.product)"),
            ("fact_exchange_id", FACT_EXCHANGE),
            ("fact_ms", FACT_MS),
        ],
    },
    FactTable {
        name: "balance_history",
        key: &["product", "warehouse_id", "position"],
        substitutes: &[("product", "(SELECT p.sku FROM product p WHERE p.id = balance_history.product)")],
    },
    FactTable {
        name: "stock_level_write",
        key: &["product", "warehouse_id"],
        substitutes: &[("product", "(SELECT p.sku FROM product p WHERE p.id = stock_level_write.product)")],
    },
    fact_table("warehouse", &["id"]),
    fact_table("supplier", &["id"]),
    fact_table("storefront", &["id"]),
    fact_table("listing_template", &["id"]),
    fact_table("kit", &["product_id"]),
    fact_table("kit_component", &["kit_id", "component_id"]),
    fact_table("sales_order", &["id"]),
    fact_table("order_line_item", &["order_id", "line_item_id"]),
    fact_table("allocation_read", &["order_id", "line_item_id"]),
    fact_table("order_line_allocation", &["order_id", "line_item_id", "ordinal"]),
    fact_table("shipment", &["id"]),
    fact_table("shipment_line", &["shipment_id", "item_id"]),
    fact_table("report_month", &["report", "year", "month"]),
    fact_table("work_queue", &["exchange_id"]),
    fact_table("discovered_sku", &["sku"]),
    fact_table("parked", &["exchange_id", "record", "why"]),
];

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FactRow {
    /// Key columns, as a JSON list.
    pub key: String,
    /// Compared columns, as a JSON object.
    pub row: String,
}

#[derive(Clone, Debug, Serialize)]
pub struct RowDifference {
    pub key: Value,
    /// Differing columns before; null where there was no such row.
    pub before: Value,
    /// Differing columns after; null where there is no such row.
    pub after: Value,
}

/// Comparison of a table's facts in two databases.
#[derive(Clone, Debug)]
pub struct TableComparison {
    pub table: &'static str,
    /// Number and hash of all rows, before and after. Equal sums are equal rows.
    pub(crate) sums: [TableSum; 2],
    pub differences: Vec<RowDifference>,
}

impl TableComparison {
    /// Returns true if both states are equal.
    pub fn is_equal(&self) -> bool {
        self.sums[0] == self.sums[1]
    }

    /// Compares a table's facts. Only rows of a table that differs are held in memory.
    pub(crate) async fn read(
        table: &'static FactTable,
        before: &mut JournalReader,
        after: &mut JournalReader,
    ) -> Result<Self> {
        let (old, new) = (before.fact_sum(table).await?, after.fact_sum(table).await?);
        let differences = match old == new {
            true => Vec::new(),
            false => {
                row_differences(&before.fact_rows(table, &[]).await?, &after.fact_rows(table, &[]).await?)
            }
        };
        Ok(Self { table: table.name, sums: [old, new], differences })
    }
}

/// Returns the differences of two lists of rows by their keys.
pub(crate) fn row_differences(before: &[FactRow], after: &[FactRow]) -> Vec<RowDifference> {
    if before == after {
        return Vec::new();
    }
    let mut rows: BTreeMap<&str, [Option<&FactRow>; 2]> = BTreeMap::new();
    for (state, side) in [before, after].into_iter().enumerate() {
        side.iter().for_each(|row| rows.entry(&row.key).or_default()[state] = Some(row));
    }
    let differ = rows.into_values().filter(|[old, new]| old.map(|row| &row.row) != new.map(|row| &row.row));
    differ.filter_map(|[old, new]| row_difference(old, new)).collect()
}

/// Returns the difference of two rows; of a row in both only the differing columns.
fn row_difference(old: Option<&FactRow>, new: Option<&FactRow>) -> Option<RowDifference> {
    let read = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_else(|_| json!(text));
    let key = read(&old.or(new)?.key);
    let (mut before, mut after) =
        (old.map_or(Value::Null, |r| read(&r.row)), new.map_or(Value::Null, |r| read(&r.row)));
    if let (Some(old), Some(new)) = (before.as_object_mut(), after.as_object_mut()) {
        let same: Vec<String> = old.keys().filter(|name| old.get(*name) == new.get(*name)).cloned().collect();
        for name in same {
            old.remove(&name);
            new.remove(&name);
        }
    }
    Some(RowDifference { key, before, after })
}

impl JournalReader {
    /// Returns the sum of a table's facts. Sums of both engines are equal if the facts are.
    async fn fact_sum(&mut self, table: &FactTable) -> Result<TableSum> {
        let columns = TableColumns::read(&mut self.connection, table.name).await?;
        let (_, sql) = table.query(&columns, &[]);
        TableSum::of(&mut self.connection, sql).await.context("read the rows of a table")
    }

    /// Returns the rows of a fact table in the order of their keys, without the columns in `without`. Rows of both
    /// engines are equal if their values are.
    pub(crate) async fn fact_rows(&mut self, table: &FactTable, without: &[&str]) -> Result<Vec<FactRow>> {
        let columns = TableColumns::read(&mut self.connection, table.name).await?;
        let (names, sql) = table.query(&columns, without);
        let (mut rows, mut read) = (Vec::new(), read_rows(&mut self.connection, sql));
        while let Some(row) = poll_fn(&mut read).await {
            let row = row.context("read the rows of a table")?;
            let (key, values) = row.split_at(table.key.len());
            let values: BTreeMap<_, _> = names.iter().zip(values).collect();
            rows.push(FactRow { key: to_json(&key), row: to_json(&values) });
        }
        rows.sort();
        Ok(rows)
    }
}

impl FactTable {
    /// Returns the names of the compared columns in their order, and the query of the key and of these columns.
    fn query<'a>(&self, columns: &'a TableColumns, without: &[&str]) -> (BTreeSet<&'a str>, String) {
        let mut names: BTreeSet<&str> = columns.names().filter(|column| !without.contains(column)).collect();
        names.retain(|column| !self.compared_sql(column).is_empty());
        let selected = self.key.iter().chain(&names).map(|column| self.compared_sql(column));
        let sql = format!("SELECT {} FROM {}", selected.collect::<Vec<_>>().join(", "), self.name);
        (names, sql)
    }

    fn compared_sql<'a>(&self, column: &'a str) -> &'a str {
        self.substitutes.iter().find(|(name, _)| *name == column).map_or(column, |(_, instead)| instead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Store;

    /// Names of the tables without facts, by their content.
    const OTHER_TABLES: &[(&str, &str)] = &[
        ("facts, compared with the products that point to it", "read_batch"),
        ("the journal", "journal_sequence session run body exchange event snapshot snapshot_table"),
        ("changes", "outbox delivery in_doubt_check adoption change_transition"),
        ("decisions on changes", "count_resolution brake_trip brake_trip_change"),
        ("the history beside the changes", "units_taken"),
        ("open conflicts; a change that agrees closes one", "mismatch"),
        ("tracked SKUs, named by people or discovered", "tracked_sku"),
        ("tracked by people", "untracked_sku tracked_order"),
        ("read requests", "order_read_request"),
        ("entries that fail in isolation", "quarantine"),
        ("control requests", "request"),
        ("jobs that people paused", "pause"),
        ("notices", "notice notice_finding notice_change"),
        ("the configuration", "quantity_policy"),
        ("the limiter's state", "limiter_state"),
        ("due times", "job_state"),
        ("the account binding", "account_binding"),
        ("the backup marker", "backup_marker"),
    ];

    #[tokio::test]
    async fn every_table_is_a_fact_or_has_a_reason_not_to_be() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.db");
        Store::create_unlocked(&path).await.unwrap().close().await.unwrap();
        let mut journal = JournalReader::open(&path).await.unwrap();
        let sql = "SELECT name FROM sqlite_master WHERE type = 'table' \
                   AND name NOT LIKE 'sqlite_%' AND name NOT LIKE '_sqlx_%' ORDER BY name";
        let tables: Vec<String> = journal.fetch_column(sql, (), "list the tables").await.unwrap();
        let mut known: Vec<&str> = FACT_TABLES.iter().map(|table| table.name).collect();
        known.extend(OTHER_TABLES.iter().flat_map(|(_, names)| names.split(' ')));
        known.sort_unstable();
        assert_eq!(tables, known, "a new table is in FACT_TABLES, or in OTHER_TABLES with its reason");
    }

    #[test]
    fn what_differs_is_named_by_row_and_column() {
        let row = |key: &str, row: &str| FactRow { key: key.into(), row: row.into() };
        let before = [row("[1]", r#"{"a":1,"b":2}"#), row("[2]", r#"{"a":1}"#)];
        let after = [row("[1]", r#"{"a":1,"b":3}"#), row("[3]", r#"{"a":1}"#)];
        let differences = row_differences(&before, &after);
        let answer: Vec<Value> = differences.iter().map(|d| json!([d.key, d.before, d.after])).collect();
        let expected =
            [json!([[1], {"b": 2}, {"b": 3}]), json!([[2], {"a": 1}, null]), json!([[3], null, {"a": 1}])];
        assert_eq!(answer, expected);
        assert!(row_differences(&before, &before).is_empty());
    }
}
