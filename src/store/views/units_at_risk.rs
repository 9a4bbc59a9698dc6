//! Units at risk: the units that others took while changes of ours waited (docs/reconciliation.md, *Units at
//! risk*).

use crate::model::Timestamp;
use crate::model::time::DAY;
use crate::store::{Result, Store};
use serde::Serialize;
use sqlx_macros::FromRow;

/// Units that others took within 24 h between our read and our write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnitsAtRisk {
    pub units: i64,
    /// Number of stock levels of which units were taken.
    pub affected: i64,
    /// Stock levels of which most was taken, at most ten, the first one first.
    pub stock_levels: Vec<UnitsTakenRow>,
}

/// Units taken of one stock level.
#[derive(Clone, Debug, PartialEq, Eq, FromRow, Serialize)]
pub struct UnitsTakenRow {
    pub sku: String,
    pub warehouse_id: i64,
    pub units: i64,
    /// Time at which a read last showed that some were taken, RFC 3339.
    pub seen_at: String,
}

#[derive(FromRow)]
struct UnitsAtRiskRow {
    #[sqlx(flatten)]
    level: UnitsTakenRow,
    total: i64,
    affected: i64,
}

impl Store {
    /// Returns the units that others took within the 24 h before `now` while a change waited.
    ///
    /// The index `units_taken_by_time` holds all columns that it reads, so its time depends on the falls of a day
    /// alone, not on the number of SKUs and changes.
    pub async fn units_at_risk(&self, now: Timestamp) -> Result<UnitsAtRisk> {
        // Without the materialization SQLite reads the whole table in the order of its key.
        let sql = "WITH taken AS MATERIALIZED ( \
                       SELECT product, warehouse_id, units, seen_ms FROM units_taken WHERE seen_ms >= $1), \
                   level AS MATERIALIZED ( \
                       SELECT product, warehouse_id, CAST(sum(units) AS BIGINT) AS units, max(seen_ms) AS seen_ms \
                       FROM taken GROUP BY product, warehouse_id), \
                   most AS (SELECT * FROM level ORDER BY units DESC, product, warehouse_id LIMIT 10) \
                   SELECT p.sku, m.warehouse_id, m.units, \
                          strftime('%Y-%m-%dT%H:%M:%fZ', m.seen_ms / 1000.0, 'unixepoch') AS seen_at, \
                          (SELECT CAST(sum(units) AS BIGINT) FROM level) AS total, \
                          (SELECT count(*) FROM level) AS affected \
                   FROM most m JOIN product p ON p.id = m.product ORDER BY m.units DESC, p.sku, m.warehouse_id";
        let rows: Vec<UnitsAtRiskRow> =
            self.fetch_all(sql, (now.minus(DAY),), "read the units at risk").await?;
        let (units, affected) = rows.first().map_or((0, 0), |row| (row.total, row.affected));
        Ok(UnitsAtRisk { units, affected, stock_levels: rows.into_iter().map(|row| row.level).collect() })
    }
}
