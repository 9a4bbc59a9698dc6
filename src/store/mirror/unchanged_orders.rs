//! Orders that the work queue's counts confirm as unchanged, so `order_lines` need not read them again.
//!
//! The rule uses positions of the journal, never clock times (docs/rules.md 5). An order is confirmed if
//!
//! 1. the last run of `order_lines` or a later exchange read it: no order is left out of two runs in a row;
//! 2. the counts were read after that order;
//! 3. no count of sales orders has differed since the last read of the counts before the first of those
//!    orders.
//!
//! The rule misses a count that changed and returned between two reads, and an update of an order that
//! affects no count. Condition 1 covers both, because the next run reads the order in any case.

use super::work_queue::{counts_since, order_counts_differ};
use crate::model::{JobKind, Operation, OrderId, RunId, Timestamp};
use crate::store::{Result, Store};
use std::collections::BTreeSet;

/// Orders confirmed as unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnchangedOrders {
    /// Confirmed orders.
    pub orders: BTreeSet<OrderId>,
    /// Time at which the counts were requested.
    pub checked_at: Timestamp,
}

impl Store {
    /// Returns the open orders that the counts confirm, for a run of `order_lines` that just began.
    pub async fn orders_unchanged(&self, run: RunId) -> Result<Option<UnchangedOrders>> {
        let read = self.orders_read_before(run).await?;
        let Some(first) = read.iter().map(|(_, exchange)| *exchange).min() else { return Ok(None) };
        let Some((check, checked_ms)) = self.counts_checked_after(first).await? else { return Ok(None) };
        let counts = counts_since(self, first).await?;
        // Without a row before them the counts at the time of the order reads are unknown.
        let is_quiet = counts.split_first().is_some_and(|(before, later)| {
            before.exchange_id < first && !later.iter().any(|row| order_counts_differ(before, row))
        });
        let confirmed = read.into_iter().filter(|(_, exchange)| is_quiet && *exchange < check);
        let orders = confirmed.map(|(order, _)| OrderId(order)).collect();
        Ok(Some(UnchangedOrders { orders, checked_at: Timestamp(checked_ms) }))
    }

    /// Returns the open orders read in the previous run or later, each with the exchange that read it. A run
    /// for named orders does not count as a previous run. An order whose last answer lacked a line is left
    /// out, because the second answer that decides on the line must not be delayed.
    async fn orders_read_before(&self, run: RunId) -> Result<Vec<(i64, i64)>> {
        let sql = "SELECT o.id, o.exchange_id FROM sales_order o JOIN exchange e ON e.id = o.exchange_id \
                   WHERE o.closed_ms IS NULL AND e.run_id >= ( \
                       SELECT max(id) FROM run WHERE job = $2 AND id < $1 AND outcome <> 'running' AND input IS NULL) \
                     AND NOT EXISTS (SELECT 1 FROM order_line_item l WHERE l.order_id = o.id \
                                     AND l.absent_ms IS NOT NULL AND l.missing_since_ms IS NULL)";
        self.fetch_all(sql, (run.0, JobKind::OrderLines.as_str()), "find the orders of the last run").await
    }

    /// Returns id and time of the newest applied read of the counts, if it is after `position`.
    async fn counts_checked_after(&self, position: i64) -> Result<Option<(i64, i64)>> {
        let sql = "SELECT id, sent_ms FROM exchange WHERE id > $1 AND operation = $2 \
                   AND verdict = 'accepted' AND NOT is_ignored ORDER BY id DESC LIMIT 1";
        let values = (position, Operation::WorkQueue.as_str());
        self.fetch_optional(sql, values, "find the last read of the work queue").await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::{ExchangeBegin, ExchangeEnd, ExchangeOutcome, RunOutcome};
    use crate::model::{ExchangeId, Lane, Moment, RunTrigger};
    use crate::store::{Durability, OrderPage, WorkQueueCounts, WriteTransaction};

    const T0: i64 = 1_800_000_000_000;
    const ORDER: OrderId = OrderId(7);

    struct OrderScene {
        store: Store,
        session: i64,
        run: RunId,
        second: i64,
        _dir: tempfile::TempDir,
    }

    impl OrderScene {
        async fn begin() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let store = Store::create_unlocked(&dir.path().join("t.db")).await.unwrap();
            let mut write = store.begin_write(Durability::Normal).await.unwrap();
            let begun = write.session_begin("boot", "test", Timestamp(T0), Moment(0)).await.unwrap();
            write.commit().await.unwrap();
            let mut scene = Self { store, session: begun.session_id, run: RunId(0), second: 0, _dir: dir };
            scene.next_run().await;
            scene
        }

        fn now(&self) -> Timestamp {
            Timestamp(T0 + self.second * 1000)
        }

        async fn next_run(&mut self) {
            let (job, now) = (JobKind::OrderLines, self.now());
            let mut write = self.store.begin_write(Durability::Normal).await.unwrap();
            if self.run.0 > 0 {
                write.run_end(self.run, job, RunOutcome::Ok, "", now).await.unwrap();
            }
            self.run = write.run_begin(self.session, job, RunTrigger::Schedule, now).await.unwrap();
            write.commit().await.unwrap();
        }

        /// Makes an answered call; the caller records its facts.
        async fn call(&mut self, operation: Operation) -> (WriteTransaction, ExchangeId) {
            self.second += 1;
            let mut write = self.store.begin_write(Durability::Normal).await.unwrap();
            let begun = ExchangeBegin {
                run_id: self.run,
                operation,
                target: "/".into(),
                lane: Lane::Poll,
                body: None,
                sent_at: self.now(),
                sent_moment: Moment(self.second),
            };
            let id = write.exchange_begin(self.session, &begun).await.unwrap();
            let ended = ExchangeEnd {
                outcome: ExchangeOutcome::Accepted,
                status: Some(200),
                body: None,
                message: None,
                answered_at: self.now(),
                answered_moment: Moment(self.second),
            };
            write.exchange_end(id, &ended).await.unwrap();
            (write, id)
        }

        async fn read_order(&mut self) {
            let (mut write, exchange_id) = self.call(Operation::GetOrderLineItems).await;
            let observed_at = self.now();
            let page = OrderPage { exchange_id, observed_at, order_id: ORDER, lines: &[], is_complete: true };
            write.mirror_order(&page).await.unwrap();
            write.commit().await.unwrap();
        }

        async fn read_counts(&mut self, unshipped: i64, listings: i64) {
            let (mut write, exchange) = self.call(Operation::WorkQueue).await;
            let mut counts: WorkQueueCounts = [Some(0); 12];
            (counts[9], counts[11]) = (Some(unshipped), Some(listings));
            write.mirror_work_queue(exchange, self.now(), &counts).await.unwrap();
            write.commit().await.unwrap();
        }

        async fn probe(&mut self) {
            let (mut write, exchange) = self.call(Operation::WorkQueue).await;
            write.exchange_ignore(exchange).await.unwrap();
            write.commit().await.unwrap();
        }

        /// Begins the next run and returns true if the counts confirm the order for it.
        async fn is_unchanged(&mut self) -> bool {
            self.next_run().await;
            let unchanged = self.store.orders_unchanged(self.run).await.unwrap();
            unchanged.is_some_and(|unchanged| unchanged.orders.contains(&ORDER))
        }
    }

    /// Steps of a script:
    ///
    /// - `5` reads counts with 5 unshipped orders, `5*` the same with another count of listings;
    /// - `probe` probes the key;
    /// - `order` reads the order;
    /// - `run` begins the next run.
    ///
    /// The last column is the expected result for a run that begins after the script.
    #[tokio::test]
    async fn an_order_is_held_back_only_where_younger_counts_stood_still() {
        let cases = [
            ("the counts stood still", "5 order 5", true),
            ("listings moved, orders did not", "5 order 5*", true),
            ("one run in two reads it", "5 order 5 run 5", false),
            ("and the run after that may hold it back again", "5 order 5 run 5 run order 5", true),
            ("the counts moved", "5 order 6", false),
            ("they moved and moved back", "5 order 6 5", false),
            ("they moved before it was read, in an earlier run", "5 6 run order 6", true),
            ("they moved, and it was read after that", "5 order 6 order 6", true),
            ("the last read of the counts is older than the read", "5 order", false),
            ("no read of the counts was before the read", "order 5", false),
            ("the work queue is not read", "order", false),
            ("only the key was probed since", "5 order probe", false),
            ("it was never read", "5 5", false),
            ("the last run left it out", "5 order run 5", false),
        ];
        for (what, script, expected) in cases {
            let mut scene = OrderScene::begin().await;
            for step in script.split(' ') {
                match step.trim_end_matches('*').parse() {
                    Ok(count) => scene.read_counts(count, i64::from(step.ends_with('*'))).await,
                    Err(_) if step == "order" => scene.read_order().await,
                    Err(_) if step == "probe" => scene.probe().await,
                    Err(_) => scene.next_run().await,
                }
            }
            assert_eq!(scene.is_unchanged().await, expected, "{what}: {script}");
        }
    }
}
