//! Records that answers lacked, until a second answer proves them absent or shows them.
//!
//! They are no facts: a replay builds the same mirror without them.

use crate::model::{ChangeId, LineItemId, OrderId, ShipmentId, ShipmentItemId, cut_reason};
use crate::outbox::Reason;
use crate::store::mirror::stock_levels::json_rows;
use crate::store::{Result, Store, WriteTransaction};
use sqlx_macros::FromRow;

/// Time after the last check at which a row is deleted, in milliseconds.
const RETENTION_MS: i64 = 7 * 24 * 60 * 60 * 1000;

/// Record that answers lacked.
#[derive(Clone, Debug, PartialEq, Eq, FromRow)]
pub struct SuspectedAbsenceRow {
    /// Subject that needs the record: `change 17`, `warehouse 9`.
    pub subject: String,
    /// Missing record, as a sentence.
    pub what: String,
    /// Time of the first answer that lacked it while the platform was healthy, in milliseconds since 1970.
    pub first_ms: Option<i64>,
    /// Time of that answer since boot.
    pub first_moment: Option<i64>,
    /// Time of the last answer that lacked it, in milliseconds since 1970.
    pub last_ms: i64,
    /// Time of that answer since boot.
    pub last_moment: i64,
    /// Number of answers that lacked it.
    pub checks: i64,
}

impl Store {
    /// Returns all rows.
    pub(crate) async fn suspected_absence_list(&self) -> Result<Vec<SuspectedAbsenceRow>> {
        let sql = "SELECT subject, what, first_ms, first_moment, last_ms, last_moment, checks \
                   FROM suspected_absence ORDER BY subject";
        self.fetch_all(sql, (), "read the suspected absences").await
    }

    /// Returns the changes held because answers lacked a record that they name, each with its row.
    pub(crate) async fn suspected_absence_held(&self) -> Result<Vec<(ChangeId, SuspectedAbsenceRow)>> {
        #[derive(FromRow)]
        struct HeldChangeRow {
            id: ChangeId,
            #[sqlx(flatten)]
            row: SuspectedAbsenceRow,
        }
        let sql = "SELECT o.id, l.* FROM outbox o JOIN suspected_absence l ON l.subject = 'change ' || o.id \
                   WHERE o.state IN ('sending', 'held', 'in_doubt') AND o.state = 'held' \
                     AND o.reason IN (SELECT atom FROM json_each($1)) ORDER BY o.id";
        let reasons = [
            Reason::UnknownOrder,
            Reason::ForeignLine,
            Reason::UnknownWarehouse,
            Reason::ServiceRefused,
            Reason::NoFact,
        ];
        let values = (json_rows(&reasons.map(Reason::as_str)),);
        let held: Vec<HeldChangeRow> =
            self.fetch_all(sql, values, "read the changes held for a suspected absence").await?;
        Ok(held.into_iter().map(|HeldChangeRow { id, row }| (id, row)).collect())
    }

    /// Returns a known line of the order that is not among `shown`; lines known to be gone are left out.
    pub(crate) async fn order_line_unshown(
        &self,
        order: OrderId,
        shown: &[LineItemId],
    ) -> Result<Option<i64>> {
        let sql = "SELECT min(line_item_id) FROM order_line_item WHERE order_id = $1 AND missing_since_ms IS NULL \
                   AND line_item_id NOT IN (SELECT CAST(atom AS BIGINT) FROM json_each($2))";
        self.fetch_value(sql, (order, json_rows(shown)), "find a line that an answer lacks").await
    }

    /// Returns an item of the shipment that is not among `shown`; a single list does not prove it absent.
    pub(crate) async fn shipment_item_unshown(
        &self,
        shipment: ShipmentId,
        shown: &[ShipmentItemId],
    ) -> Result<Option<i64>> {
        let sql = "SELECT min(item_id) FROM shipment_line WHERE shipment_id = $1 \
                   AND item_id NOT IN (SELECT CAST(atom AS BIGINT) FROM json_each($2))";
        self.fetch_value(sql, (shipment, json_rows(shown)), "find an item that an answer lacks").await
    }

    /// Returns true if the mirror contradicts a change.
    ///
    /// The change names a line known only in another order, an item known only in another shipment, or a
    /// storefront that no list held. The platform documents its refusal of such a storefront.
    pub(crate) async fn change_is_contradicted(&self, change: ChangeId) -> Result<bool> {
        let sql = "SELECT EXISTS (SELECT 1 FROM outbox o, json_each(o.body, '$.lines') n \
                       WHERE o.id = $1 AND o.kind = 'shipment.create' \
                         AND EXISTS (SELECT 1 FROM order_line_item l WHERE l.line_item_id = \
                                         CAST(CAST(n.value->>'line_item_id' AS NUMERIC) AS BIGINT)) \
                         AND NOT EXISTS (SELECT 1 FROM order_line_item l WHERE l.order_id = \
                                             CAST(CAST(o.body->>'order_id' AS NUMERIC) AS BIGINT) \
                                         AND l.line_item_id = \
                                             CAST(CAST(n.value->>'line_item_id' AS NUMERIC) AS BIGINT))) \
                   OR EXISTS (SELECT 1 FROM outbox o, json_each(o.body, '$.lines') n \
                       WHERE o.id = $1 AND o.kind = 'tracking.submit' AND o.body->>'shipment_id' IS NOT NULL \
                         AND EXISTS (SELECT 1 FROM shipment_line i WHERE i.item_id = \
                                         CAST(CAST(n.value->>'line_item_id' AS NUMERIC) AS BIGINT)) \
                         AND NOT EXISTS (SELECT 1 FROM shipment_line i WHERE i.shipment_id = \
                                             CAST(CAST(o.body->>'shipment_id' AS NUMERIC) AS BIGINT) \
                                         AND i.item_id = \
                                             CAST(CAST(n.value->>'line_item_id' AS NUMERIC) AS BIGINT))) \
                   OR EXISTS (SELECT 1 FROM outbox o WHERE o.id = $1 AND o.kind = 'listing_template.create' \
                              AND CAST(CAST(o.body->>'StorefrontId' AS NUMERIC) AS BIGINT) NOT IN ( \
                                  SELECT id FROM storefront))";
        self.fetch_value(sql, (change,), "compare the records that a change names with the mirror").await
    }
}

impl WriteTransaction {
    /// Stores the result of a check that lacked a record and replaces the previous one.
    pub async fn suspected_absence_store(&mut self, row: &SuspectedAbsenceRow) -> Result<()> {
        let sql = "DELETE FROM suspected_absence WHERE last_ms < $1";
        self.execute(sql, (row.last_ms - RETENTION_MS,), "delete old suspected absences").await?;
        let sql = "INSERT INTO suspected_absence \
                       (subject, what, first_ms, first_moment, last_ms, last_moment, checks) \
                   VALUES ($1, $2, $3, $4, $5, $6, $7) \
                   ON CONFLICT (subject) DO UPDATE SET \
                       what = excluded.what, first_ms = excluded.first_ms, \
                       first_moment = excluded.first_moment, last_ms = excluded.last_ms, \
                       last_moment = excluded.last_moment, checks = excluded.checks";
        let SuspectedAbsenceRow { subject, what, first_ms, first_moment, last_ms, last_moment, checks } = row;
        let what = cut_reason(what.as_str());
        let values = (subject, what, first_ms, first_moment, last_ms, last_moment, checks);
        self.execute(sql, values, "store a suspected absence").await
    }

    /// Deletes the row of a subject, because the record is present or its change is final.
    pub(crate) async fn suspected_absence_end(&mut self, subject: &str) -> Result<()> {
        let sql = "DELETE FROM suspected_absence WHERE subject = $1";
        self.execute(sql, (subject,), "delete a suspected absence").await
    }
}
