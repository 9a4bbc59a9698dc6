//! Timings of the pure hot paths.
//!
//! Each path runs several times. Its fastest and its median time are printed beside the allowed one. A slow machine is
//! no fault, so a path fails at ten times that; `benches/compare.sh` measures the whole.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tallyd::client::wire::decode_balances;
use tallyd::journal::PackedBody;
use tallyd::limiter::{Limiter, LimiterSettings, PacePayment, PastReservation, PersistedState};
use tallyd::model::{
    ChangeId, Clock, Lane, Moment, Operation, Quantity, Sku, StockLevel, Timestamp, WarehouseId,
};
use tallyd::reconcile::packing::{PackingEntry, pack_calls};
use tallyd::reconcile::{
    ChangeEffect, Count, CountBase, CountPolicy, QuantityState, StockLevelChange, StockLevelInput,
    StockLevelKnowledge, plan_stock_level,
};

const ROUNDS: usize = 11;

#[test]
#[ignore = "it measures time"]
fn hot_paths_take_no_multiple_of_what_they_may() {
    println!("{:44} {:>10} {:>10}   may take", "", "fastest", "median");
    packing();
    merging();
    places();
    page();
}

fn time<T>(name: &str, may_take: Duration, mut path: impl FnMut() -> T) {
    let mut times: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            black_box(path());
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    println!("{name:44} {:>10.2?} {:>10.2?}   {may_take:?}", times[0], times[ROUNDS / 2]);
    assert!(times[0] < 10 * may_take, "{name}");
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
        let entries: Vec<PackingEntry<'_>> =
            (0..skus.len()).map(|i| PackingEntry { sku: &skus[place(i)], is_urgent: i % 100 == 0 }).collect();
        time(name, Duration::from_millis(100), || pack_calls(&entries));
    }
}

/// Merges a count, two later adjusts and two sales, 100 000 times.
fn merging() {
    let level = StockLevel { sku: Sku::new("SKU-0000001").unwrap(), warehouse_id: WarehouseId(1) };
    let pair = |quantity, own_delta| QuantityState { quantity: Quantity(quantity), own_delta };
    let change = |id, effect| StockLevelChange {
        id: ChangeId(id),
        created_at: Timestamp(id * 1000),
        is_pending: true,
        effect,
    };
    let base = CountBase::Known(pair(50, 0));
    let count = Count { quantity: Quantity(47), counted_at: None, base, applied_after: 0, resolution: None };
    let changes = [
        change(1, ChangeEffect::Set(count)),
        change(2, ChangeEffect::Adjust(-3)),
        change(3, ChangeEffect::Adjust(5)),
    ];
    let input = StockLevelInput {
        stock_level: &level,
        fact: StockLevelKnowledge::Known(pair(48, 0)),
        last_set: None,
        changes: &changes,
        policy: CountPolicy::Merge,
    };
    time("merge 100 000 stock levels of three changes", Duration::from_millis(200), || {
        (0..100_000)
            .map(|_| plan_stock_level(black_box(&input)))
            .filter(|plan| plan.planned_quantity().is_some())
            .count()
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
    let places = vec![PastReservation::Answered(Moment(999_000)); 110];
    let limiter = Limiter::new(
        LimiterSettings::default(),
        Arc::new(Still),
        PersistedState { reservations: places, ..PersistedState::default() },
    );
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    time("take 10 000 places and give them back", Duration::from_millis(100), || {
        runtime.block_on(async {
            for _ in 0..10_000 {
                let permit =
                    limiter.acquire(Operation::GetProductBalances, Lane::Operator, PacePayment::Paid).await;
                permit.return_unused();
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
        let levels: Vec<String> = (1..=3).map(|w| warehouse(i, w)).collect();
        format!(
            r#"{{"Id":{i},"Sku":"SKU-{i:07}","QuantityOnHand":{},"UPC":"{:012}","Warehouses":[{}]}}"#,
            i % 97,
            400_000_000_000 + i,
            levels.join(",")
        )
    };
    let products: Vec<String> = (0..1000).map(product).collect();
    let body = format!("[{}]", products.join(","));
    time("decode a page of 1000 products", Duration::from_millis(2), || {
        decode_balances(body.as_bytes()).unwrap().records.len()
    });
    time("name its body", Duration::from_millis(2), || PackedBody::digest(body.as_bytes()));
    time("compress its body", Duration::from_millis(2), || {
        PackedBody::pack(body.as_bytes()).unwrap().packed.len()
    });
}
