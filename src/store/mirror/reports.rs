//! Monthly reports: top sellers and business health.
//!
//! A report has the name of the job that reads it. A month's report is stored as one JSON document, because reports
//! are compared as a whole. Two equal reads after the month's end make the month agreed. Views provide the columns.

use super::stock_levels::json_rows_by_key;
use crate::model::{ExchangeId, JobKind, Month, Timestamp};
use crate::store::{Result, Store, WriteTransaction};
use serde_json::{Value, json};
use std::collections::BTreeSet;

impl Store {
    /// Returns the months whose report is agreed, for the job that reads it.
    pub(crate) async fn report_agreed(&self, report: JobKind) -> Result<BTreeSet<Month>> {
        let sql = "SELECT year, month FROM report_month WHERE report = $1 AND is_agreed";
        let values = (report.as_str(),);
        let rows: Vec<(i64, i64)> = self.fetch_all(sql, values, "find the months that are agreed").await?;
        let month = |(year, month): (i64, i64)| Month::new(year.try_into().ok()?, month.try_into().ok()?);
        Ok(rows.into_iter().filter_map(month).collect())
    }

    /// Returns the top sellers of the newest `months` months that have any, newest month first.
    pub(crate) async fn top_sellers(&self, months: u32) -> Result<Vec<Value>> {
        let sql = "SELECT * FROM top_seller WHERE (year, month) IN ( \
                       SELECT DISTINCT year, month FROM top_seller ORDER BY year DESC, month DESC LIMIT $1) \
                   ORDER BY year DESC, month DESC, rank";
        self.fetch_objects(sql, (i64::from(months),), "read the top sellers").await
    }

    /// Returns the business health of the newest `months` months, newest first.
    pub(crate) async fn business_health(&self, months: u32) -> Result<Vec<Value>> {
        let sql = "SELECT * FROM business_health ORDER BY year DESC, month DESC LIMIT $1";
        self.fetch_objects(sql, (i64::from(months),), "read the business health").await
    }
}

impl WriteTransaction {
    /// Records a report of some months and returns the number of new or changed ones. A month becomes agreed
    /// if its report repeats one that was read after the month's end.
    pub(crate) async fn mirror_report(
        &mut self,
        report: JobKind,
        exchange: ExchangeId,
        observed_at: Timestamp,
        months: &[(Month, Value)],
    ) -> Result<u64> {
        let row = |(month, payload): &(Month, Value)| {
            json!([month.year(), month.number(), payload.to_string(), month.end()])
        };
        let rows: Vec<Value> = months.iter().map(row).collect();
        let rows = json_rows_by_key(&rows, |row| (row[0].as_i64(), row[1].as_i64()));
        let sql = "SELECT count(*) FROM json_each($1) LEFT JOIN report_month m \
                       ON m.report = $2 AND m.year = CAST(value->>0 AS BIGINT) \
                           AND m.month = CAST(value->>1 AS BIGINT) \
                   WHERE m.payload IS DISTINCT FROM value->>2";
        let values = (&rows, report.as_str());
        let changed: i64 = self.fetch_value(sql, values, "compare a report with its previous values").await?;
        let sql = "INSERT INTO report_month (report, year, month, payload, is_agreed, exchange_id, \
                   observed_ms) \
                   SELECT $2, CAST(value->>0 AS BIGINT), CAST(value->>1 AS BIGINT), value->>2, FALSE, $3, $4 \
                   FROM json_each($1) WHERE true \
                   ON CONFLICT (report, year, month) DO UPDATE SET \
                       is_agreed = (report_month.payload = excluded.payload AND report_month.observed_ms >= \
                           (SELECT CAST(value->>3 AS BIGINT) FROM json_each($1) \
                            WHERE CAST(value->>0 AS BIGINT) = report_month.year \
                              AND CAST(value->>1 AS BIGINT) = report_month.month LIMIT 1)), \
                       payload = excluded.payload, exchange_id = excluded.exchange_id, \
                       observed_ms = excluded.observed_ms";
        self.execute(sql, (rows, report.as_str(), exchange.0, observed_at.0), "record a report").await?;
        Ok(changed.unsigned_abs())
    }
}
