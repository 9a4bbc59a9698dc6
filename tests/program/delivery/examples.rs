//! The examples of the rules for quantities, each from the insertion to the stock at the platform.

use super::gate::gated;
use super::support::{BALANCES, Dock, UPDATE};
use crate::support::outsider::quoted;
use serde_json::{Value, json};
use std::time::Duration;
use tallyd::model::Operation;

/// A stock level of 50 units that the mirror has.
struct Level {
    dock: Dock,
    sku: String,
    warehouse: i64,
}

impl Level {
    async fn of_fifty() -> Self {
        Self::of_fifty_at(Dock::open().await).await
    }

    async fn of_fifty_at(dock: Dock) -> Self {
        let row =
            dock.sandbox.stock_levels().await.unwrap().into_iter().find(|row| row.quantity > 0).unwrap();
        let level = Self { dock, sku: row.sku, warehouse: row.warehouse_id };
        level.set("start", 50, json!({})).await;
        level.dock.push().await;
        assert_eq!(level.shop().await, 50);
        level
    }

    async fn set(&self, key: &str, quantity: i64, more: Value) {
        let mut body = json!({"sku": self.sku, "warehouse_id": self.warehouse, "quantity": quantity});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.dock.change(key, "quantity.set", body).await;
    }

    async fn adjust(&self, key: &str, delta: i64) {
        let body = json!({"sku": self.sku, "warehouse_id": self.warehouse, "delta": delta});
        self.dock.change(key, "quantity.adjust", body).await;
    }

    async fn sell(&self, units: i64) {
        self.dock.sandbox.sell_units(&self.sku, self.warehouse, units).await.unwrap();
    }

    async fn shop(&self) -> i64 {
        self.dock.level(&self.sku, self.warehouse).await
    }

    /// Pushes; returns the quantity at the platform and the number of update calls.
    async fn pushed(&self) -> (i64, usize) {
        let before = self.dock.calls(UPDATE);
        self.dock.push().await;
        (self.shop().await, self.dock.calls(UPDATE) - before)
    }

    async fn applied(&self, key: &str) {
        assert_eq!(self.dock.state(key).await, "applied", "{:?}", self.dock.fate(key).await);
    }
}

#[tokio::test]
async fn a_count_of_47_made_at_50_of_which_two_were_sold_makes_45() {
    let level = Level::of_fifty().await;
    level.set("count", 47, json!({})).await;
    level.sell(2).await;
    assert_eq!(level.pushed().await, (45, 1));
    level.applied("count").await;
}

#[tokio::test]
async fn three_taken_after_four_of_50_were_sold_leave_43() {
    let level = Level::of_fifty().await;
    level.sell(4).await;
    level.adjust("taken", -3).await;
    assert_eq!(level.pushed().await, (43, 1));
    level.applied("taken").await;
}

#[tokio::test]
async fn a_count_of_30_and_five_more_make_35_in_one_entry() {
    let level = Level::of_fifty().await;
    level.set("count", 30, json!({})).await;
    level.adjust("more", 5).await;
    assert_eq!(level.pushed().await, (35, 1));
    level.applied("count").await;
    level.applied("more").await;
}

#[tokio::test]
async fn a_count_of_44_that_saw_46_where_50_are_makes_48() {
    let level = Level::of_fifty().await;
    level.set("count", 44, json!({"seen": 46})).await;
    assert_eq!(level.pushed().await, (48, 1));
    level.applied("count").await;
}

#[tokio::test]
async fn seventy_taken_of_50_are_held_and_the_rest_goes() {
    let level = Level::of_fifty().await;
    level.adjust("too many", -70).await;
    level.adjust("some", -1).await;
    assert_eq!(level.pushed().await, (49, 1));
    assert_eq!(level.dock.reason("too many").await, "negative");
    level.applied("some").await;
}

#[tokio::test]
async fn the_same_key_twice_is_done_once() {
    let level = Level::of_fifty().await;
    level.adjust("once", -3).await;
    level.adjust("once", -3).await;
    assert_eq!(level.pushed().await, (47, 1));
    level.adjust("once", -3).await;
    assert_eq!(level.pushed().await, (47, 0));
}

#[tokio::test]
async fn a_count_made_while_our_own_adjust_is_in_flight_is_no_sale() {
    let (dock, mut gate) = gated().await;
    let level = Level::of_fifty_at(dock).await;
    level.adjust("flying", -3).await;
    gate.close();
    let (pushed, ()) = tokio::join!(level.dock.push(), async {
        let flying = gate.leaving_to(Operation::UpdateQuantityOnHand).await;
        assert_eq!(level.dock.state("flying").await, "sending");
        level.set("count", 47, json!({})).await;
        gate.open();
        flying.go();
    });
    assert!(pushed.contains("applied"), "{pushed}");
    level.dock.push().await;
    assert_eq!(level.shop().await, 47);
    level.applied("flying").await;
    level.applied("count").await;
}

#[tokio::test]
async fn a_count_that_names_its_moment_is_measured_against_the_fact_of_that_moment() {
    let level = Level::of_fifty().await;
    let sql = format!(
        "SELECT observed_at FROM stock WHERE sku = '{}' AND warehouse_id = {}",
        level.sku, level.warehouse
    );
    let moment: String = level.dock.outsider().await.value(&sql).await;
    level.adjust("taken", -3).await;
    assert_eq!(level.pushed().await, (47, 1));
    level.sell(2).await;
    // 47 were counted at 50, then three were taken and two sold.
    level.set("count", 47, json!({"counted_at": moment})).await;
    assert_eq!(level.pushed().await, (42, 1));
    let (state, _, detail) = level.dock.fate("count").await;
    assert_eq!(state, "applied");
    let why = "counted 47 while the platform showed 50, 2 sold since, adjusted -3 since: 42";
    assert!(detail.contains(why), "{detail}");
}

#[tokio::test]
async fn a_count_of_a_moment_nobody_read_is_held_and_says_so() {
    let dock = Dock::open().await;
    let row = dock.sandbox.stock_levels().await.unwrap().into_iter().find(|row| row.quantity > 0).unwrap();
    let level = Level { dock, sku: row.sku, warehouse: row.warehouse_id };
    level.set("count", row.quantity + 3, json!({"counted_at": "2020-02-02T10:00:00Z"})).await;
    assert_eq!(level.pushed().await, (row.quantity, 0));
    let (state, reason, detail) = level.dock.fate("count").await;
    assert_eq!((state.as_str(), reason.as_str()), ("held", "stale_base"), "{detail}");
    assert!(detail.contains("count again"), "{detail}");
}

/// A count is held if its moment came twice, because the host's clock was set back.
#[tokio::test]
async fn a_count_of_a_moment_that_the_calendar_came_to_twice_is_held() {
    for (ahead, expected) in [(0, "applied"), (600, "held")] {
        let ahead = Duration::from_secs(ahead);
        let level = Level::of_fifty().await;
        let sql = "SELECT observed_at FROM stock WHERE observed_at IS NOT NULL ORDER BY 1 DESC LIMIT 1";
        let moment: String = level.dock.outsider().await.value(sql).await;
        level.adjust("taken", -3).await;
        assert_eq!(level.pushed().await, (47, 1));
        let back = |at: &str| tallyd::model::Timestamp::parse(at).unwrap().minus(ahead).to_rfc3339();
        level.set("count", 47, json!({"counted_at": back(&moment)})).await;
        let sql = "SELECT created_at FROM outbox WHERE key = 'count'";
        let created: String = level.dock.outsider().await.value(sql).await;
        let at = quoted(&back(&created));
        let sql = format!("UPDATE outbox SET dated_at = {at}, revision = revision + 1 WHERE key = 'count'");
        level.dock.done_sql(&sql).await;
        level.pushed().await;
        let (state, reason, detail) = level.dock.fate("count").await;
        assert_eq!(state, expected, "{ahead:?}: {detail}");
        if expected == "held" {
            assert_eq!(reason, "stale_base");
            assert!(detail.contains("clock was set back") && detail.contains("count again"), "{detail}");
        }
    }
}

#[tokio::test]
async fn a_count_of_an_earlier_moment_supersedes_only_what_moved_before_it() {
    let level = Level::of_fifty().await;
    level.adjust("before", -1).await;
    let sql = "SELECT created_at FROM outbox WHERE key = 'before'";
    let moment: String = level.dock.outsider().await.value(sql).await;
    // Insertions are distinguished by their millisecond.
    tokio::time::sleep(Duration::from_millis(2)).await;
    level.adjust("after", -4).await;
    level.set("count", 48, json!({"counted_at": moment})).await;
    assert_eq!(level.pushed().await, (44, 1));
    assert_eq!(level.dock.reason("before").await, "superseded");
    level.applied("after").await;
}

#[tokio::test]
async fn a_fact_that_aged_is_read_again_before_the_write() {
    let dock = Dock::open_with("[quantities]\nmax_fact_age = \"30m\"\n").await;
    let level = Level::of_fifty_at(dock).await;
    let reads = level.dock.calls(BALANCES);
    level.adjust("taken", -3).await;
    level.sell(1).await;
    level.dock.later(Duration::from_secs(3_600));
    assert_eq!(level.pushed().await, (46, 1));
    assert_eq!(level.dock.calls(BALANCES), reads + 1);
}

/// A fact from before a reboot is read again before the write.
///
/// A moment of another boot is not comparable, and the calendar may have been set meanwhile.
#[tokio::test]
async fn a_fact_from_before_a_reboot_is_read_again_before_the_write() {
    let dock = Dock::open_with("[quantities]\nmax_fact_age = \"30m\"\n").await;
    let level = Level::of_fifty_at(dock).await;
    let reads = level.dock.calls(BALANCES);
    level.adjust("taken", -3).await;
    level.sell(1).await;
    let before = [
        "INSERT INTO session (id, boot_id, version, started_ms) VALUES (0, 'another boot', '0.1.0', 0)",
        "UPDATE exchange SET session_id = 0",
    ];
    for sql in before {
        level.dock.done_sql(sql).await;
    }
    assert_eq!(level.pushed().await, (46, 1));
    assert_eq!(level.dock.calls(BALANCES), reads + 1);
}
