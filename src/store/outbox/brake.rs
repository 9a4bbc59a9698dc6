//! Brakes: their input, their trips, and the release of held changes.

use super::transitions::ChangeOutcome;
use crate::model::{ChangeId, Position, Timestamp, WarehouseId, cut_reason};
use crate::outbox::{ChangeState, Reason};
use crate::reconcile::brake::HourCounts;
use crate::store::journal::event::BRAKE_RELEASED;
use crate::store::mirror::stock_levels::json_rows;
use crate::store::{Result, Store, WriteTransaction};
use sqlx_macros::FromRow;
use std::collections::{BTreeMap, BTreeSet};

/// Trip that is not released yet.
#[derive(Clone, Debug, FromRow)]
pub struct BrakeTripRow {
    pub id: i64,
    /// Numbers of the trip, as a sentence.
    pub what: String,
    /// Number of changes that it still holds.
    pub held: i64,
    /// True for a restore, whose trip also holds the changes that are inserted until it is released.
    pub is_restore: bool,
}

impl Store {
    /// Returns for each warehouse the stock levels above zero since `since`, and those of them that writes
    /// emptied. A write in flight or in doubt counts, because it may take effect. The stock levels of
    /// `projected`, in the platform's spelling, do not count as emptied, because the caller counts them.
    pub(crate) async fn brake_hour_counts(
        &self,
        since: Timestamp,
        projected: &[(&str, i64)],
    ) -> Result<BTreeMap<WarehouseId, HourCounts>> {
        let sql = "WITH zeroed AS ( \
                       SELECT w.product, w.warehouse_id FROM stock_level_write w \
                       JOIN product p ON p.id = w.product \
                       WHERE (w.zeroed_ms >= $1 OR (w.ended IS NULL AND w.written = 0 AND w.before > 0)) \
                         AND (p.sku, w.warehouse_id) NOT IN ( \
                             SELECT value->>0, CAST(value->>1 AS BIGINT) FROM json_each($2))) \
                   SELECT b.warehouse_id, count(z.product), count(*) FROM linked_balance b \
                   JOIN product p ON p.id = b.product \
                   LEFT JOIN zeroed z ON z.product = b.product AND z.warehouse_id = b.warehouse_id \
                   WHERE (b.quantity > 0 OR z.product IS NOT NULL) AND b.is_active IS DISTINCT FROM FALSE \
                     AND p.missing_since_ms IS NULL AND p.type IS DISTINCT FROM 'Kit' \
                   GROUP BY b.warehouse_id";
        let values = (since, json_rows(projected));
        let rows: Vec<(WarehouseId, i64, i64)> =
            self.fetch_all(sql, values, "count the stock levels that were emptied within the hour").await?;
        let hour = |(warehouse, zeroed, non_zero): (WarehouseId, i64, i64)| {
            (warehouse, HourCounts { zeroed: zeroed.unsigned_abs(), non_zero: non_zero.unsigned_abs() })
        };
        Ok(rows.into_iter().map(hour).collect())
    }

    /// Returns the trips that still hold changes, and the restores that are not released.
    pub async fn brake_trip_list(&self) -> Result<Vec<BrakeTripRow>> {
        let sql = "SELECT t.id, t.what, count(o.id) AS held, t.restored_position IS NOT NULL AS is_restore \
                   FROM brake_trip t LEFT JOIN brake_trip_change w ON w.trip_id = t.id \
                   LEFT JOIN outbox o ON o.id = w.change_id AND o.state = 'held' \
                   WHERE t.released_ms IS NULL GROUP BY t.id \
                   HAVING count(o.id) > 0 OR t.restored_position IS NOT NULL ORDER BY t.id";
        self.fetch_all(sql, (), "read the brakes' trips").await
    }

    /// Returns the releases after this position: the trip, if there was one, and the number of changes.
    pub(crate) async fn brake_releases(&self, after: Position) -> Result<Vec<(Option<i64>, i64)>> {
        let sql = "SELECT trip, count(*) FROM ( \
                       SELECT o.released_ms, (SELECT max(w.trip_id) FROM brake_trip_change w \
                       WHERE w.change_id = o.id) AS trip \
                       FROM outbox o WHERE o.released_ms IN (SELECT at_ms FROM event WHERE position > $1 AND kind = $2)) r \
                   GROUP BY released_ms, trip ORDER BY released_ms, trip NULLS FIRST";
        self.fetch_all(sql, (after, BRAKE_RELEASED), "read the releases of brakes").await
    }
}

impl WriteTransaction {
    /// Holds the changes of a trip; returns the trip's id and the number of held changes.
    pub(crate) async fn brake_trip_hold(
        &mut self,
        what: &str,
        changes: &BTreeSet<ChangeId>,
        at: Timestamp,
    ) -> Result<(i64, u64)> {
        let sql = "INSERT INTO brake_trip (at_ms, what) VALUES ($1, $2) RETURNING id";
        let trip: i64 = self.fetch_value(sql, (at, cut_reason(what)), "store a brake's trip").await?;
        let sql = "INSERT INTO brake_trip_change (trip_id, change_id) \
                   SELECT $1, CAST(atom AS BIGINT) FROM json_each($2)";
        self.execute(sql, (trip, json_rows(changes)), "store the changes that a brake holds").await?;
        let held = |id: &ChangeId| {
            let detail = format!(
                "{what}; if this is intended, run `tallyd outbox release --all`, or release this change by its key"
            );
            ChangeOutcome::new(*id, ChangeState::Held, Some(Reason::Brake), detail)
        };
        let moves: Vec<ChangeOutcome> = changes.iter().map(held).collect();
        Ok((trip, self.outbox_transition(ChangeState::Pending, &moves, at).await?))
    }

    /// Releases held changes once: those with these keys, or with no keys those of all open trips.
    ///
    /// They are planned again before they are sent, and trip no brake again. An event records the release. Keys of
    /// other changes have no effect ([`WriteTransaction::outbox_release`]). The trip of a restore ends only with a
    /// release of all, by which a person says that the programs have inserted again what they wanted.
    pub async fn brake_release(&mut self, keys: &[String], at: Timestamp) -> Result<u64> {
        let json = json_rows(keys);
        self.event_append(at, BRAKE_RELEASED, "outbox", Some(&json)).await?;
        let sql = "UPDATE outbox SET revision = revision + 1, state = 'pending', reason = NULL, \
                   state_changed_ms = $2, \
                       released_ms = $2, detail = 'released by the operator' \
                   WHERE state = 'held' AND reason IN ('brake', 'restored') \
                     AND CASE WHEN json_array_length($1) = 0 \
                         THEN id IN (SELECT w.change_id FROM brake_trip_change w \
                                     JOIN brake_trip t ON t.id = w.trip_id \
                                     WHERE t.released_ms IS NULL) \
                         ELSE key IN (SELECT atom FROM json_each($1)) END";
        let released = self.execute_counting(sql, (&json, at), "release held changes").await?;
        // The calendar may have been set back since the trip.
        let sql = "UPDATE brake_trip SET released_ms = CASE WHEN at_ms > $1 THEN at_ms ELSE $1 END \
                   WHERE released_ms IS NULL AND CASE \
                       WHEN restored_position IS NOT NULL THEN $2 ELSE NOT EXISTS ( \
                       SELECT 1 FROM brake_trip_change w JOIN outbox o ON o.id = w.change_id \
                       WHERE w.trip_id = brake_trip.id AND o.state = 'held') END";
        self.execute(sql, (at, keys.is_empty()), "close released trips").await?;
        Ok(released)
    }
}
