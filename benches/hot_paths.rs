//! Timings of the pure hot paths: `cargo bench --bench hot_paths`.
//!
//! It is a plain program without a framework. It runs each path several times and prints the fastest and the
//! median time beside the allowed one. Nothing fails here, because a slow machine is no fault;
//! `benches/compare.sh` measures the whole.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a bench prints times"
)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tallyd::client::wire::decode_balances;
use tallyd::journal::Body;
use tallyd::limiter::{Limiter, Memory, Pace, Place, Settings};
use tallyd::model::{Cell, Clock, Lane, Moment, Operation, Quantity, Sku, Timestamp, WarehouseId, WishId};
use tallyd::reconcile::packing::{Entry, pack};
use tallyd::reconcile::{Base, CellFact, CellInput, CellWish, Change, Count, Pair, Policy, Standing, decide};

const ROUNDS: usize = 11;

fn main() {
    println!("{:44} {:>10} {:>10}   may take", "", "fastest", "median");
    packing();
    merging();
    places();
    page();
}

fn time<T>(name: &str, may_take: &str, mut path: impl FnMut() -> T) {
    let mut times: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            black_box(path());
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    println!("{name:44} {:>10.2?} {:>10.2?}   {may_take}", times[0], times[ROUNDS / 2]);
}

/// Packs a first push of 100 000 stock levels.
///
/// They have one warehouse each, or three each, or a SKU in every third entry.
fn packing() {
    let skus: Vec<Sku> = (0..100_000).map(|i| Sku::new(format!("SKU-{i:07}")).unwrap()).collect();
    for (name, place) in [
        ("pack 100 000, one warehouse", (|i| i) as fn(usize) -> usize),
        ("pack 100 000, three warehouses", |i| i / 3),
        ("pack 100 000, one SKU in three", |i| if i % 3 == 0 { 0 } else { i }),
    ] {
        let entries: Vec<Entry<'_>> =
            (0..skus.len()).map(|i| Entry { sku: &skus[place(i)], urgent: i % 100 == 0 }).collect();
        time(name, "100 ms", || pack(&entries));
    }
}

/// Merges a count, two later adjusts and two sales, 100 000 times.
fn merging() {
    let cell = Cell { sku: Sku::new("SKU-0000001").unwrap(), warehouse_id: WarehouseId(1) };
    let pair = |quantity, ours| Pair { quantity: Quantity(quantity), ours };
    let wish = |id, change| CellWish {
        id: WishId(id),
        created_at: Timestamp(id * 1000),
        standing: Standing::Pending,
        change,
    };
    let base = Base::Known(pair(50, 0));
    let count = Count { quantity: Quantity(47), counted_at: None, base, applied_after: 0, word: None };
    let wishes = [wish(1, Change::Set(count)), wish(2, Change::Adjust(-3)), wish(3, Change::Adjust(5))];
    let input = CellInput {
        cell: &cell,
        fact: CellFact::Known(pair(48, 0)),
        last_set: None,
        wishes: &wishes,
        policy: Policy::Merge,
    };
    time("merge 100 000 cells of three wishes", "200 ms", || {
        (0..100_000).map(|_| decide(black_box(&input))).filter(|plan| plan.becomes().is_some()).count()
    });
}

/// Takes and returns a reservation, with all but a few reservations of the minute taken.
fn places() {
    struct Still;
    impl Clock for Still {
        fn now(&self) -> Timestamp {
            Timestamp(1_800_000_000_000)
        }
        fn moment(&self) -> Moment {
            Moment(1_000_000)
        }
    }
    let places = vec![Place::Answered(Moment(999_000)); 110];
    let limiter = Limiter::new(Settings::default(), Arc::new(Still), Memory { places, ..Memory::default() });
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    time("take 10 000 places and give them back", "100 ms", || {
        runtime.block_on(async {
            for _ in 0..10_000 {
                let permit = limiter.acquire(Operation::GetProductBalances, Lane::Operator, Pace::Paid).await;
                permit.unwrap().give_back();
            }
        });
    });
}

/// Decodes a page of 1000 products in three warehouses, without the database.
fn page() {
    let warehouse = |i: i64, w: i64| {
        format!(
            r#"{{"ProductId":{i},"WarehouseId":{w},"QuantityOnHand":{},"WarehouseSKU":"W{w}-{i:07}","IsActive":true,"IncludeInSyncBalance":true}}"#,
            i % 13
        )
    };
    let product = |i: i64| {
        let cells: Vec<String> = (1..=3).map(|w| warehouse(i, w)).collect();
        format!(
            r#"{{"Id":{i},"Sku":"SKU-{i:07}","QuantityOnHand":{},"UPC":"{:012}","Warehouses":[{}]}}"#,
            i % 97,
            400_000_000_000 + i,
            cells.join(",")
        )
    };
    let products: Vec<String> = (0..1000).map(product).collect();
    let body = format!("[{}]", products.join(","));
    time("decode a page of 1000 products", "2 ms", || {
        decode_balances(body.as_bytes()).unwrap().records.len()
    });
    time("name its body", "2 ms", || Body::digest(body.as_bytes()));
    time("compress its body", "2 ms", || Body::pack(body.as_bytes()).unwrap().packed.len());
}
