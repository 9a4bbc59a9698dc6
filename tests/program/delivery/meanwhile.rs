//! Persons and programs that decide about changes at every moment of a push, also between its read and its
//! commit.
//!
//! The moments are the daemon's reads of its clock; there is one before each transaction. A decision uses a
//! connection of its own, as a command beside the daemon does. While the daemon holds the write lock, the
//! decision waits for the next moment.

use super::support::Dock;
use crate::support::outsider::{Outsider, quoted};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tallyd::daemon::SystemClock;
use tallyd::model::Clock;
use tallyd::store::DatabaseLocation;

/// A decision about the change with a key.
#[derive(Clone, Copy)]
enum Act {
    Cancel(&'static str),
    Retry(&'static str),
}

impl Act {
    fn sql(self, case: usize) -> String {
        let settled = quoted(&SystemClock.now().to_rfc3339());
        match self {
            Act::Cancel(key) => format!(
                "UPDATE outbox SET revision = revision + 1, state = 'cancelled', reason = 'operator', \
                 state_changed_ms = 1, \
                     settled_at = {settled} WHERE key = '{case} {key}' AND state IN ('pending', 'held')"
            ),
            Act::Retry(key) => format!(
                "UPDATE outbox SET revision = revision + 1, state = 'pending', reason = NULL, \
                 state_changed_ms = 1 \
                 WHERE key = '{case} {key}' AND state = 'held'"
            ),
        }
    }
}

/// Executes the decision under the write lock; returns false if another one holds it.
fn done(location: &DatabaseLocation, sql: &str) -> bool {
    let begin = match location.server() {
        Some(_) => "BEGIN; SELECT position FROM journal_sequence FOR UPDATE NOWAIT",
        None => "PRAGMA busy_timeout = 0; BEGIN IMMEDIATE",
    };
    let (location, sql) = (location.clone(), format!("{begin}; {sql}; COMMIT"));
    let act = async move || Outsider::at(&location).await.run(&sql).await.is_ok();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(act())
    });
    thread.join().unwrap()
}

/// Plans a decision for a moment of the next push; the flag tells later that it was executed.
fn arm(dock: &Dock, moment: usize, sql: String) -> Arc<AtomicBool> {
    let happened = Arc::new(AtomicBool::new(false));
    let (answer, location, mut passed) = (Arc::clone(&happened), dock.location().clone(), 0);
    dock.at_now(Some(Box::new(move || {
        if passed >= moment && !answer.load(Ordering::SeqCst) {
            answer.store(done(&location, &sql), Ordering::SeqCst);
        }
        passed += 1;
    })));
    happened
}

/// The changes of one stock level in the order of insertion: key, kind, body without the stock level.
type Changes<'a> = &'a [(&'a str, &'a str, Value)];

/// Pushes the changes on a stock level of 50, once with the decision at each moment of a push.
///
/// `expected` returns the platform's final quantity for the final states of the changes.
async fn at_every_moment(changes: Changes<'_>, act: Act, expected: impl Fn(&[String]) -> Option<i64>) {
    let dock = Dock::open().await;
    let mut stock = dock.sandbox.stock_levels().await.unwrap();
    stock.dedup_by(|a, b| a.sku == b.sku);
    for case in 0.. {
        let level = &stock[case % stock.len()];
        let with_cell = |mut body: Value| {
            body["sku"] = json!(level.sku);
            body["warehouse_id"] = json!(level.warehouse_id);
            body
        };
        dock.change(&format!("{case} begin"), "quantity.set", with_cell(json!({"quantity": 50}))).await;
        dock.push().await;
        for (key, kind, body) in changes {
            dock.change(&format!("{case} {key}"), kind, with_cell(body.clone())).await;
        }
        let happened = arm(&dock, case, act.sql(case));
        dock.push().await;
        dock.at_now(None);
        dock.push().await;
        let mut states = Vec::new();
        for (key, ..) in changes {
            states.push(dock.state(&format!("{case} {key}")).await);
        }
        let holds = dock.level(&level.sku, level.warehouse_id).await;
        assert_eq!(Some(holds), expected(&states), "moment {case}: {states:?}");
        if !happened.load(Ordering::SeqCst) {
            assert!(case > 3, "a push reads its clock a few times");
            return;
        }
    }
}

/// Returns 50 plus the applied ones of these adjusts.
fn moved(states: &[String], deltas: &[i64]) -> Option<i64> {
    let applied = states.iter().zip(deltas).filter(|(state, _)| *state == "applied");
    Some(50 + applied.map(|(_, delta)| delta).sum::<i64>())
}

#[tokio::test]
async fn one_of_two_movements_that_cancel_out_is_withdrawn_at_any_moment() {
    let changes =
        [("a", "quantity.adjust", json!({"delta": -2})), ("b", "quantity.adjust", json!({"delta": 2}))];
    at_every_moment(&changes, Act::Cancel("a"), |states| {
        assert_eq!(states[1], "applied");
        moved(states, &[-2, 2])
    })
    .await;
}

#[tokio::test]
async fn a_count_is_withdrawn_at_any_moment_and_the_movement_before_it_is_not_lost() {
    let changes =
        [("a", "quantity.adjust", json!({"delta": 5})), ("b", "quantity.set", json!({"quantity": 47}))];
    at_every_moment(&changes, Act::Cancel("b"), |states| match [&*states[0], &*states[1]] {
        ["cancelled", "applied"] => Some(47),
        ["applied", "cancelled"] => Some(55),
        _ => None,
    })
    .await;
}

#[tokio::test]
async fn a_movement_that_keeps_another_above_zero_is_withdrawn_at_any_moment() {
    let changes =
        [("a", "quantity.adjust", json!({"delta": 5})), ("b", "quantity.adjust", json!({"delta": -53}))];
    at_every_moment(&changes, Act::Cancel("a"), |states| match [&*states[0], &*states[1]] {
        ["applied", "applied"] => Some(2),
        ["cancelled", "held"] => Some(50),
        _ => None,
    })
    .await;
}

#[tokio::test]
async fn a_held_movement_is_tried_again_at_any_moment_beside_one_that_cancels_out() {
    let changes = [
        ("a", "quantity.adjust", json!({"delta": -60})),
        ("b", "quantity.adjust", json!({"delta": 3})),
        ("c", "quantity.adjust", json!({"delta": -3})),
    ];
    at_every_moment(&changes, Act::Retry("a"), |states| {
        assert_eq!([&*states[0], &*states[1], &*states[2]], ["held", "applied", "applied"]);
        Some(50)
    })
    .await;
}
